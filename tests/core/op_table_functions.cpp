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

}  // namespace

void add_functions(std::vector<Entry>& table) {
  add_of_one_number(table);
  add_activations(table);
}

}  // namespace op_table
