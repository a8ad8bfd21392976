// SPDX-License-Identifier: MIT
#include <cmath>
#include <set>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <tapehead/error.h>
#include <tapehead/gradcheck.h>
#include <tapehead/ops.h>

#include "core/op_table.h"
#include "full.h"

using namespace tapehead;
using namespace op_table;

namespace {

std::vector<Tensor> samples(const Case& one, DType dtype, int round = 0) {
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < one.inputs.size(); ++i) {
    out.push_back(sample(one.inputs[i], static_cast<int>(i) + 10 * round, dtype).requires_grad_());
  }
  return out;
}

// How often each case of an operation is tried, with other numbers each time: once, in a full run until all its cases
// together come to `wanted`.
int rounds(const Entry& entry, int wanted) {
  const int cases = static_cast<int>(entry.cases.size());
  return full_run() ? (wanted + cases - 1) / cases : 1;
}

std::string describe(const Entry& entry, const Case& one) {
  std::string text = fmt::format("{} ({})", entry.name, one.what);
  for (const Input& input : one.inputs) text += fmt::format(" {}", to_string(input.shape));
  return text;
}

template <class F>
void for_each_case(F f) {
  for (const Entry& entry : entries()) {
    for (const Case& one : entry.cases) {
      INFO(describe(entry, one));
      try {
        f(entry, one);
      } catch (const std::exception& error) {
        FAIL_CHECK(std::string(error.what()));
      }
    }
  }
}

// Largest difference between elements, in units of 1 + |b|; NaN counts as infinite.
double distance(const Tensor& a, const Tensor& b) {
  const Tensor x = to(a, DType::f64), y = to(b, DType::f64);
  double largest = 0;
  for (std::size_t i = 0; i < y.read<double>().size(); ++i) {
    const double difference = std::abs(x.read<double>()[i] - y.read<double>()[i]);
    largest = std::max(largest, difference / (1 + std::abs(y.read<double>()[i])));
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
  }
  return largest;
}

}  // namespace

TEST_CASE("every declared operation has an entry in the table") {
  std::set<std::string> names;
  for (const Entry& entry : entries()) CHECK_MESSAGE(names.insert(entry.name).second, entry.name, " is entered twice");
  const std::set<std::string> declared = differentiable_operations();
  CHECK(declared.size() > 40);
  for (const std::string& name : declared) CHECK_MESSAGE(names.contains(name), name, " is declared and has no entry");
  for (const std::string& name : names) CHECK_MESSAGE(declared.contains(name), name, " is entered and not declared");
}

TEST_CASE("first derivatives of every operation") {
  for_each_case([](const Entry& entry, const Case& one) {
    for (int round = 0; round < rounds(entry, 64); ++round) {
      CAPTURE(round);
      const GradcheckResult result = gradcheck(one.function, samples(one, DType::f64, round));
      CHECK(result);
      for (const GradcheckRow& row : result.rows) {
        CHECK(row.kinks == 0);
        CHECK(row.checked == row.shape.numel());
      }
    }
  });
}

TEST_CASE("second derivatives of every operation") {
  for_each_case([](const Entry& entry, const Case& one) {
    Index elements = 0;
    for (const Input& input : one.inputs) elements += input.shape.numel();
    const GradcheckOptions options{.atol = 1e-6, .rtol = 1e-4, .directions = elements > 60 ? 3 : 0};
    for (int round = 0; round < rounds(entry, 16); ++round) {
      CAPTURE(round);
      CHECK(gradgradcheck(one.function, samples(one, DType::f64, round), options));
    }
  });
}

TEST_CASE("f32 and f64 agree, forward and backward, and every leaf gets a gradient") {
  for_each_case([](const Entry&, const Case& one) {
    const std::vector<Tensor> narrow = samples(one, DType::f32);
    std::vector<Tensor> wide;
    for (const Tensor& x : narrow) wide.push_back(to(x.detach(), DType::f64).requires_grad_());
    const Tensor result = one.function(narrow);
    const Tensor truth = one.function(wide);
    CHECK(result.dtype() == DType::f32);
    CHECK(truth.dtype() == DType::f64);
    REQUIRE(result.shape() == truth.shape());
    CHECK(distance(result, truth) <= 1e-5);
    CHECK(result.requires_grad());
    const Tensor upstream = sample({result.shape()}, 5, DType::f32);
    result.backward({.gradient = upstream});
    truth.backward({.gradient = to(upstream, DType::f64)});
    for (std::size_t i = 0; i < narrow.size(); ++i) {
      REQUIRE(narrow[i].grad().defined());
      CHECK(narrow[i].grad().dtype() == DType::f32);
      REQUIRE(narrow[i].grad().shape() == narrow[i].shape());
      CHECK(distance(narrow[i].grad(), wide[i].grad()) <= 1e-4);
    }
  });
}

TEST_CASE("results are not recorded when nobody asks") {
  for_each_case([](const Entry&, const Case& one) {
    std::vector<Tensor> inputs;
    for (const Tensor& x : samples(one, DType::f64)) inputs.push_back(x.detach());
    CHECK_FALSE(one.function(inputs).requires_grad());
    const NoGrad off;
    const std::vector<Tensor> leaves = samples(one, DType::f64);
    const Tensor result = one.function(leaves);
    CHECK((!result.requires_grad() || result.ref().get() == leaves[0].ref().get()));  // nothing to do: x itself
  });
}

TEST_CASE("each input alone gets the gradient that it gets beside the others") {
  for_each_case([](const Entry&, const Case& one) {
    if (one.inputs.size() < 2) return;
    const std::vector<Tensor> all = samples(one, DType::f64);
    const Tensor result = one.function(all);
    const Tensor upstream = sample({result.shape()}, 5, DType::f64);
    result.backward({.gradient = upstream});
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::vector<Tensor> inputs;
      for (const Tensor& x : all) inputs.push_back(x.detach());
      inputs[i].requires_grad_();
      one.function(inputs).backward({.gradient = upstream});
      CHECK(distance(inputs[i].grad(), all[i].grad()) <= 1e-13);
    }
  });
}

TEST_CASE("wrong element types are refused") {
  for_each_case([](const Entry& entry, const Case& one) {
    if (entry.wrong_type == WrongType::none) return;
    std::vector<Tensor> inputs = samples(one, DType::f64);
    if (entry.wrong_type == WrongType::whole) {
      for (Tensor& x : inputs) x = to(x, DType::i64);
      CHECK_THROWS_AS(one.function(inputs), DTypeError);
      return;
    }
    for (std::size_t i = 0; i < inputs.size() && inputs.size() > 1; ++i) {
      std::vector<Tensor> mixed = inputs;
      mixed[i] = to(mixed[i].detach(), DType::f32);
      CHECK_THROWS_AS(one.function(mixed), DTypeError);
    }
  });
}
