// SPDX-License-Identifier: MIT
#include <cmath>
#include <functional>
#include <sstream>

#include <doctest/doctest.h>

#include <tapehead/error.h>
#include <tapehead/gradcheck.h>
#include <tapehead/ops.h>
#include <tapehead/tape.h>

using namespace tapehead;

namespace {

// d(x^2)/dx given as 3x.
Tensor wrong_square(const Tensor& x) {
  Tensor y = x.detach() * x.detach();
  return record("wrong_square", y, {&x}, {&x},
                [](Backward& back) { back.to(0, 3.0 * back.saved(0) * back.gradient()); });
}

// Right at first order, but the slope is taken off the tape.
Tensor severed_square(const Tensor& x) {
  Tensor y = x.detach() * x.detach();
  return record("severed_square", y, {&x}, {&x},
                [](Backward& back) { back.to(0, 2.0 * back.saved(0).detach() * back.gradient()); });
}

// Right for its own second derivative, but forgets that the gradient from above may depend on something.
Tensor deaf_square(const Tensor& x) {
  Tensor y = x.detach() * x.detach();
  return record("deaf_square", y, {&x}, {&x},
                [](Backward& back) { back.to(0, 2.0 * back.saved(0) * back.gradient().detach()); });
}

const GradcheckRow& only_row(const GradcheckResult& result) {
  REQUIRE(result.rows.size() == 1);
  return result.rows[0];
}

template <class F>
TensorFunction of_first(F f) {
  return [f](const std::vector<Tensor>& in) { return f(in[0]); };
}

std::vector<double> elements(const Tensor& x) { return {x.read<double>().begin(), x.read<double>().end()}; }

}  // namespace

TEST_CASE("gradcheck passes right gradients and counts what it compared") {
  const Tensor x = tensor({{0.3, -1.2, 0.8}, {2.0, 0.01, -0.4}}, DType::f64);
  const Tensor y = tensor({0.7, 1.1, -0.6}, DType::f64);
  const TensorFunction f = [](const std::vector<Tensor>& in) { return exp(in[0] * in[1]) / (1.0 + in[1] * in[1]); };
  const GradcheckResult result = gradcheck(f, {x, y});
  CHECK(result);
  REQUIRE(result.rows.size() == 2);
  CHECK(result.rows[0].name == "input 0");
  CHECK(result.rows[0].shape == Shape{2, 3});
  CHECK(result.rows[0].checked == 6);
  CHECK(result.rows[1].name == "input 1");
  CHECK(result.rows[1].checked == 3);
  CHECK(result.rows[0].kinks + result.rows[1].kinks == 0);
  CHECK(gradgradcheck(f, {x, y}, {.atol = 1e-6, .rtol = 1e-4}));
}

TEST_CASE("the differences themselves are right to eleven digits") {
  // A rule that is wrong by 1e-6 of its value must fail at tolerances of 1e-9, and the right one must not.
  const Tensor x = tensor({0.3, 1.7, 12.0, 300.0}, DType::f64);
  const GradcheckOptions tight{.atol = 1e-11, .rtol = 1e-9};
  CHECK(gradcheck(of_first([](const Tensor& t) { return log(t); }), {x}, tight));
  CHECK_FALSE(gradcheck(of_first([](const Tensor& t) { return log(t) + 1e-8 * (log(t).detach() * t); }), {x}, tight));
}

TEST_CASE("a wrong rule fails, and the row names the element and both values") {
  const Tensor x = tensor({{1e-9, 0.5}, {-2.0, 1.0}}, DType::f64);
  const GradcheckResult result = gradcheck(of_first(wrong_square), {x});
  CHECK_FALSE(result);
  const GradcheckRow& row = only_row(result);
  CHECK_FALSE(row.passed);
  CHECK(row.checked == 4);
  CHECK(row.failed == 3);  // at 1e-9 the difference drowns in the tolerance
  CHECK(row.worst_index.size() == 2);
  CHECK(row.analytic / row.numeric == doctest::Approx(1.5).epsilon(1e-9));
  CHECK(row.error == doctest::Approx(std::abs(row.analytic - row.numeric)));

  const GradcheckRow scalar = only_row(gradcheck(of_first(wrong_square), {tensor(2.0, DType::f64)}));
  CHECK(scalar.analytic == doctest::Approx(6).epsilon(1e-12));
  CHECK(scalar.numeric == doctest::Approx(4).epsilon(1e-9));
  CHECK(scalar.worst_index.empty());
  CHECK_FALSE(gradcheck(of_first(wrong_square), {x}, {.directions = 2}));
}

TEST_CASE("an error that a plain sum would hide is found") {
  // The outputs always sum to the inputs' sum; the rule returns the gradient unchanged, right for the sum alone.
  const auto shuffle = [](const Tensor& x) {
    const Tensor turned = concat({slice(x.detach(), 0, {.start = 1}), slice(x.detach(), 0, {.stop = 1})});
    return record("turned", turned, {&x}, {}, [](Backward& back) { back.to(0, back.gradient()); });
  };
  const Tensor x = tensor({0.1, 0.2, 0.3}, DType::f64);
  CHECK(gradcheck(of_first([&](const Tensor& t) { return sum(shuffle(t)); }), {x}));
  CHECK_FALSE(gradcheck(of_first(shuffle), {x}));
}

TEST_CASE("kinks are reported as kinks") {
  const Tensor x = tensor({-1.0, 0.0, 1e-4, 0.5}, DType::f64);
  for (const auto& f :
       {of_first([](const Tensor& t) { return relu(t); }), of_first([](const Tensor& t) { return abs(t); })}) {
    const GradcheckRow row = only_row(gradcheck(f, {x}));
    CHECK(row.passed);
    CHECK(row.kinks == 1);
    CHECK(row.checked == 3);  // the bend at 0 is inside the first stencil around 1e-4; smaller steps see the slope
  }
  CHECK(only_row(gradcheck(of_first([](const Tensor& t) { return relu(t * t * t); }), {x})).kinks == 0);
  CHECK(only_row(gradcheck(of_first([](const Tensor& t) { return 1e4 * t * t + exp(3.0 * t); }), {x})).kinks == 0);
  const GradcheckRow along =
      only_row(gradcheck(of_first([](const Tensor& t) { return relu(t); }), {x}, {.directions = 3}));
  CHECK(along.kinks == 3);
}

TEST_CASE("steps shrink where the function is steep or its domain ends") {
  const Tensor x = tensor({1e-6, 1e-4, 1e-3, 0.1}, DType::f64);
  CHECK(gradcheck(of_first([](const Tensor& t) { return log(t); }), {x}));
  CHECK(gradcheck(of_first([](const Tensor& t) { return sqrt(t); }), {x}));
  const Tensor large = tensor({1e3, -1e5, 1e8}, DType::f64);
  CHECK(gradcheck(of_first([](const Tensor& t) { return t * t; }), {large}));
  CHECK(gradcheck(of_first([](const Tensor& t) { return exp(20.0 * t); }), {tensor({-0.5, 0.5}, DType::f64)}));
}

TEST_CASE("results that are not numbers fail") {
  const GradcheckResult result =
      gradcheck(of_first([](const Tensor& t) { return log(t); }), {tensor({-1.0, 2.0}, DType::f64)});
  CHECK_FALSE(result);
  CHECK(only_row(result).failed == 2);  // a sum with NaN in it says nothing about its other terms
  CHECK(only_row(result).worst_index == std::vector<Index>{0});
}

TEST_CASE("second derivatives that are lost on the way are found") {
  const Tensor x = tensor({0.5, -2.0}, DType::f64);
  const GradcheckOptions loose{.atol = 1e-6, .rtol = 1e-4};
  CHECK(gradcheck(of_first(severed_square), {x}));
  CHECK_FALSE(gradgradcheck(of_first(severed_square), {x}, loose));
  CHECK(gradcheck(of_first(deaf_square), {x}));
  const GradcheckResult deaf = gradgradcheck(of_first(deaf_square), {x}, loose);
  REQUIRE(deaf.rows.size() == 2);
  CHECK(deaf.rows[0].passed);
  CHECK(deaf.rows[1].name == "output gradient");
  CHECK_FALSE(deaf.rows[1].passed);
  CHECK(gradgradcheck(of_first([](const Tensor& t) { return t + 1.0; }), {x}, loose));
  CHECK(gradgradcheck(of_first([](const Tensor& t) { return t * t; }), {x}, loose));
}

TEST_CASE("parameters are checked by name and left as they were") {
  Tensor w = tensor({{0.5, -1.0}, {2.0, 0.25}}, DType::f64).requires_grad_();
  Tensor unused = tensor({1.0}, DType::f64).requires_grad_();
  Tensor frozen = tensor({3.0}, DType::f64);
  Tensor bystander = tensor({1.0, 1.0}, DType::f64).requires_grad_();
  w.backward({.gradient = tensor({{7, 8}, {9, 10}}, DType::f64)});
  const Tensor earlier = w * w;  // still playable afterwards
  const Tensor x = tensor({0.3, 0.7}, DType::f64);
  const TensorFunction f = [&](const std::vector<Tensor>& in) { return sum(exp(w * in[0]) * bystander, 1) * frozen; };
  const std::int64_t nodes = live_nodes();
  const GradcheckResult result =
      gradcheck(f, {x}, {}, {{"w", w}, {"unused", unused}, {"frozen", frozen}, {"w too", w}});
  CHECK(result);
  REQUIRE(result.rows.size() == 4);
  CHECK(result.rows[1].name == "w");
  CHECK(result.rows[1].checked == 4);
  CHECK(result.rows[2].checked == 1);
  CHECK(result.rows[3].name == "frozen");
  CHECK(gradgradcheck(f, {x}, {.atol = 1e-6, .rtol = 1e-4}, {{"w", w}}));
  CHECK(live_nodes() == nodes);
  CHECK(elements(w) == std::vector<double>{0.5, -1.0, 2.0, 0.25});
  CHECK(elements(w.grad()) == std::vector<double>{7, 8, 9, 10});
  CHECK_FALSE(unused.grad().defined());
  CHECK_FALSE(bystander.grad().defined());
  CHECK_FALSE(frozen.requires_grad());
  CHECK_FALSE(x.requires_grad());
  earlier.backward({.gradient = ones({2, 2}, DType::f64)});
}

TEST_CASE("a gradient that the function itself drops comes back") {
  Tensor w = tensor({0.5}, DType::f64).requires_grad_();
  w.backward({.gradient = tensor({7}, DType::f64)});
  const TensorFunction f = [&](const std::vector<Tensor>& in) {
    w.zero_grad();
    return in[0] * w;
  };
  CHECK(gradcheck(f, {tensor({2.0}, DType::f64)}, {}, {{"w", w}}));
  CHECK(w.grad().item() == 7);
}

TEST_CASE("a parameter that the tape lost sight of fails") {
  Tensor w = tensor({0.5}, DType::f64).requires_grad_();
  const TensorFunction f = [&](const std::vector<Tensor>& in) { return in[0] * w.detach(); };
  const GradcheckResult result = gradcheck(f, {tensor({2.0}, DType::f64)}, {}, {{"w", w}});
  REQUIRE(result.rows.size() == 2);
  CHECK(result.rows[0].passed);
  CHECK_FALSE(result.rows[1].passed);
  CHECK(result.rows[1].analytic == 0);
}

TEST_CASE("nothing is left behind when the function throws") {
  Tensor w = tensor({0.5, -1.0}, DType::f64).requires_grad_();
  w.backward({.gradient = tensor({7, 8}, DType::f64)});
  const Tensor frozen = tensor({3.0}, DType::f64);
  const std::int64_t nodes = live_nodes();
  for (int last_call = 1; last_call < 14; ++last_call) {
    int calls = 0;
    const TensorFunction f = [&](const std::vector<Tensor>& in) {
      if (++calls == last_call) throw ValueError("test: enough");
      return in[0] * w * frozen;
    };
    CHECK_THROWS_AS(gradcheck(f, {tensor({1.0, 2.0}, DType::f64)}, {}, {{"w", w}, {"frozen", frozen}}), ValueError);
    CHECK(elements(w) == std::vector<double>{0.5, -1.0});
    CHECK(elements(w.grad()) == std::vector<double>{7, 8});
    CHECK_FALSE(frozen.requires_grad());
    CHECK(is_recording());
    CHECK(live_nodes() == nodes);
  }
}

TEST_CASE("gradcheck refuses what it cannot check") {
  const Tensor x = tensor({1.0, 2.0}, DType::f64);
  const TensorFunction square = of_first([](const Tensor& t) { return t * t; });
  CHECK_THROWS_WITH_AS(gradcheck(square, {tensor({1.0})}),
                       "gradcheck: input 0 must be f64: f32 differences prove nothing, is f32", DTypeError);
  CHECK_THROWS_AS(gradcheck(square, {x}, {}, {{"w", ones({1})}}), DTypeError);
  CHECK_THROWS_AS(gradcheck(of_first([](const Tensor& t) { return to(t, DType::f32); }), {x}), DTypeError);
  CHECK_THROWS_AS(gradcheck(square, {x, x}), GraphError);  // input 1 is not used
  CHECK_THROWS_AS(gradcheck(of_first([](const Tensor& t) { return t.detach(); }), {x}), GraphError);
  CHECK_THROWS_AS(gradcheck(of_first([](const Tensor&) { return ones({1}, DType::f64); }), {arange(3)}), ValueError);
  CHECK_THROWS_AS(gradcheck(square, {x}, {.atol = -1}), ValueError);
  CHECK_THROWS_AS(gradcheck(square, {x}, {.step = 0}), ValueError);
  CHECK_THROWS_AS(gradcheck(square, {x}, {.directions = -1}), ValueError);
  double drift = 0;
  const TensorFunction random = [&](const std::vector<Tensor>& in) { return in[0] * (drift += 0.1); };
  CHECK_THROWS_AS(gradcheck(random, {x}), StateError);
  CHECK_THROWS_AS(gradgradcheck(random, {x}), StateError);
}

TEST_CASE("whole numbers pass through and sizes of zero are nothing to compare") {
  const Tensor ids = arange(2);
  const TensorFunction f = [](const std::vector<Tensor>& in) { return in[0] * to(in[1], DType::f64); };
  CHECK(gradcheck(f, {tensor({1.0, 2.0}, DType::f64), ids}).rows.size() == 1);
  const GradcheckResult none = gradcheck(of_first([](const Tensor& t) { return t * t; }), {zeros({2, 0}, DType::f64)});
  CHECK(none);
  CHECK(only_row(none).checked == 0);
}

TEST_CASE("the table has a line for each row") {
  const GradcheckResult result = gradcheck(of_first(wrong_square), {full({1, 1}, 2, DType::f64)});
  CHECK(result.table() ==
        "name     shape   checked  kinks  worst at  analytic  numeric    error\n"
        "input 0  [1, 1]        1      0  [0, 0]           6        4  2.0e+00  FAILED at 1\n");
  std::ostringstream stream;
  stream << result;
  CHECK(stream.str() == result.table());
}
