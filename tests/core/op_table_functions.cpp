// SPDX-License-Identifier: MIT
// The table's page of functions that are not arithmetic: of one number, and over axes.
#include <tapehead/ops.h>

#include "core/op_table.h"

namespace op_table {

using namespace tapehead;

namespace {

void add_of_one_number(std::vector<Entry>& table) {
  table.push_back(unary(
      "erf", [](const Tensor& x) { return erf(x); }, -2, 2));
  table.push_back(unary(
      "reciprocal", [](const Tensor& x) { return reciprocal(x); }, -3, -0.5));
  table.push_back(unary(
      "log1p", [](const Tensor& x) { return log1p(x); }, -0.7, 3));
  table.push_back(unary(
      "expm1", [](const Tensor& x) { return expm1(x); }, -2, 2));
}

void add_activations(std::vector<Entry>& table) {
  table.push_back(unary(
      "silu", [](const Tensor& x) { return silu(x); }, -4, 4));
  Entry plus = unary(
      "softplus", [](const Tensor& x) { return softplus(x); }, -4, 4);
  append(plus.cases, on_shapes([](Inputs in) { return softplus(in[0], 2.5, 1.5); }, -3, 3, "past the threshold"));
  table.push_back(std::move(plus));
  Entry leaky = unary(
      "leaky_relu", [](const Tensor& x) { return leaky_relu(x); }, -2, 2);
  append(leaky.cases, on_shapes([](Inputs in) { return leaky_relu(in[0], -0.5); }, -2, 2, "slope -0.5"));
  table.push_back(std::move(leaky));
  table.push_back(unary(
      "elu", [](const Tensor& x) { return elu(x, 1); }, -3, 0));
  append(table.back().cases, on_shapes([](Inputs in) { return elu(in[0], 0.3); }, -2, 2, "alpha 0.3"));
}

Case one(const std::string& what, const Shape& shape, const TensorFunction& f) { return {what, f, {{shape}}}; }

// No two elements equal: where all are, a standard deviation bends.
Tensor uneven(const Tensor& x) { return x + 5 * reshape(to(arange(x.numel()), x.dtype()), x.shape()); }

void add_statistics(std::vector<Entry>& table) {
  table.push_back(reduction(
      "prod", [](auto& x, const Axes& axes, bool keep) { return prod(x, axes, keep); }, true));
  table.back().wrong_type = WrongType::none;  // i64 has products too
  table.push_back(reduction(
      "logsumexp", [](auto& x, const Axes& axes, bool keep) { return logsumexp(x, axes, keep); }, false));
  // Lengths of vectors far from zero, where they bend.
  Entry lengths = reduction(
      "norm", [](auto& x, const Axes& axes, bool keep) { return norm(x + 3, Norm::l2, axes, keep); }, false);
  Entry sums = reduction(
      "norm", [](auto& x, const Axes& axes, bool keep) { return norm(x - 3, Norm::l1, axes, keep); }, false);
  append(lengths.cases, std::move(sums.cases));
  table.push_back(std::move(lengths));
  Entry spread = reduction(
      "variance",
      [](auto& x, const Axes& axes, bool keep) { return variance(x, axes, {.correction = 0, .keepdim = keep}); },
      false);
  spread.cases.push_back(one("corrected", {5, 3}, [](Inputs in) { return variance(in[0]); }));
  spread.cases.push_back(one("first, corrected", {5, 3}, [](Inputs in) { return variance(in[0], 0); }));
  table.push_back(std::move(spread));
  table.push_back(
      {"standard_deviation",
       WrongType::whole,
       {
           one("", {7}, [](Inputs in) { return standard_deviation(uneven(in[0])); }),
           one("first", {5, 3}, [](Inputs in) { return standard_deviation(uneven(in[0]), 0); }),
           one("last, kept", {3, 5},
               [](Inputs in) { return standard_deviation(uneven(in[0]), -1, {.correction = 0, .keepdim = true}); }),
           one("first and third", {2, 3, 5},
               [](Inputs in) {
                 return standard_deviation(uneven(in[0]), {0, 2});
               }),
           one("no results", {3, 0}, [](Inputs in) { return standard_deviation(uneven(in[0]), 0); }),
       }});
  table.push_back({"cumsum",
                   WrongType::none,
                   {
                       one("", {7}, [](Inputs in) { return cumsum(in[0]); }),
                       one("first", {5, 3}, [](Inputs in) { return cumsum(in[0], 0); }),
                       one("middle", {2, 3, 5}, [](Inputs in) { return cumsum(in[0], 1); }),
                       one("size 0", {0, 3}, [](Inputs in) { return cumsum(in[0], 0); }),
                       one("sizes 1", {1, 1}, [](Inputs in) { return cumsum(in[0], -1); }),
                   }});
}

}  // namespace

void add_functions(std::vector<Entry>& table) {
  add_of_one_number(table);
  add_activations(table);
  add_statistics(table);
}

}  // namespace op_table
