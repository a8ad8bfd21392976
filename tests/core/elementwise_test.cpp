// SPDX-License-Identifier: MIT
// Values and gradients at the edges; the inside is in the table of operations.
#include <cmath>
#include <functional>
#include <limits>

#include <doctest/doctest.h>

#include <tapehead/ops.h>

using namespace tapehead;

namespace {

const double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

template <class F>
double slope(F f, double at) {
  const Tensor x = tensor(at, DType::f64).requires_grad_();
  f(x).backward();
  return x.grad().item();
}

template <class F>
double value(F f, double at, DType dtype) {
  return f(tensor(at, dtype)).item();
}

}  // namespace

TEST_CASE("division by a number rounds as division does") {
  const Tensor x = arange(1, 1000, 1, DType::f32);
  const Tensor y = x / 3.0;
  for (Index i = 0; i < x.numel(); ++i) {
    REQUIRE(y.read<float>()[static_cast<std::size_t>(i)] == static_cast<float>(i + 1) / 3.0F);
  }
}

TEST_CASE("powers at zero") {
  const Tensor base = tensor({0, 0, 0, 2}, DType::f64).requires_grad_();
  const Tensor exponent = tensor({0, 1, 2, 0}, DType::f64).requires_grad_();
  const Tensor y = pow(base, exponent);
  CHECK(y.at({0}) == 1);
  CHECK(y.at({1}) == 0);
  y.backward({.gradient = ones({4}, DType::f64)});
  CHECK(base.grad().at({0}) == 0);
  CHECK(base.grad().at({1}) == 1);
  CHECK(base.grad().at({2}) == 0);
  CHECK(base.grad().at({3}) == 0);
  CHECK(exponent.grad().at({2}) == 0);
  CHECK(exponent.grad().at({3}) == doctest::Approx(std::log(2.0)));
  CHECK(slope([](const Tensor& x) { return pow(x, 0); }, 0) == 0);
  CHECK(slope([](const Tensor& x) { return pow(x, 1); }, 0) == 1);
  CHECK(slope([](const Tensor& x) { return pow(x, 2); }, 0) == 0);
  const Tensor x = tensor(0.0, DType::f64).requires_grad_();
  const Tensor first = grad(pow(x, 2), {x}, {.create_graph = true})[0];
  CHECK(grad(first, {x})[0].item() == 2);
}

TEST_CASE("gradients where functions bend") {
  CHECK(slope([](const Tensor& x) { return relu(x); }, 0) == 0);
  CHECK(slope([](const Tensor& x) { return abs(x); }, 0) == 0);
  CHECK(slope([](const Tensor& x) { return clamp(x, 0, 1); }, 0) == 1);
  CHECK(slope([](const Tensor& x) { return clamp(x, 0, 1); }, 1) == 1);
  CHECK(slope([](const Tensor& x) { return clamp(x, 0, 1); }, 1.5) == 0);
  const Tensor one = tensor(1.0, DType::f64);
  CHECK(slope([&](const Tensor& x) { return maximum(x, one); }, 1) == 0.5);
  CHECK(slope([&](const Tensor& x) { return minimum(one, x); }, 1) == 0.5);
  CHECK(slope([](const Tensor& x) { return maximum(x, x); }, 1) == 1);
}

TEST_CASE("the gradient of an extreme is shared by all that reach it") {
  const auto shares = [](const std::function<Tensor(const Tensor&)>& extreme) {
    Tensor x = tensor({{3, 1, 3}, {2, 2, 2}, {1, 3, 4}}, DType::f64).requires_grad_();
    const Tensor y = extreme(x);
    y.backward({.gradient = full(y.shape(), 6, DType::f64)});
    return to_string(x.grad());
  };
  CHECK(shares([](const Tensor& x) { return max(x, 1); }) == "[[3. 0. 3.]\n [2. 2. 2.]\n [0. 0. 6.]]");
  CHECK(shares([](const Tensor& x) { return min(x, -1, true); }) == "[[0. 6. 0.]\n [2. 2. 2.]\n [6. 0. 0.]]");
  CHECK(shares([](const Tensor& x) { return max(x, 0); }) == "[[6. 0. 0.]\n [0. 0. 0.]\n [0. 6. 6.]]");
  CHECK(shares([](const Tensor& x) { return min(x); }) == "[[0. 3. 0.]\n [0. 0. 0.]\n [3. 0. 0.]]");
}

TEST_CASE("functions keep NaN and reach their limits") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    CAPTURE(name_of(dtype));
    CHECK(value([](const Tensor& x) { return exp(x); }, -kInfinity, dtype) == 0);
    CHECK(value([](const Tensor& x) { return exp(x); }, kInfinity, dtype) == kInfinity);
    CHECK(value([](const Tensor& x) { return exp(x); }, 1e4, dtype) == kInfinity);
    CHECK(value([](const Tensor& x) { return exp(x); }, -1e4, dtype) == 0);
    CHECK(value([](const Tensor& x) { return exp(x); }, 0, dtype) == 1);
    CHECK(value([](const Tensor& x) { return log(x); }, 0, dtype) == -kInfinity);
    CHECK(std::isnan(value([](const Tensor& x) { return log(x); }, -1, dtype)));
    CHECK(std::isnan(value([](const Tensor& x) { return sqrt(x); }, -1, dtype)));
    CHECK(value([](const Tensor& x) { return tanh(x); }, 1e4, dtype) == 1);
    CHECK(value([](const Tensor& x) { return tanh(x); }, -kInfinity, dtype) == -1);
    CHECK(value([](const Tensor& x) { return sigmoid(x); }, -1e4, dtype) == 0);
    CHECK(value([](const Tensor& x) { return sigmoid(x); }, 1e4, dtype) == 1);
    CHECK(std::isnan(value([](const Tensor& x) { return exp(x); }, kNaN, dtype)));
    CHECK(std::isnan(value([](const Tensor& x) { return tanh(x); }, kNaN, dtype)));
    CHECK(std::isnan(value([](const Tensor& x) { return sigmoid(x); }, kNaN, dtype)));
    CHECK(std::isnan(value([](const Tensor& x) { return relu(x); }, kNaN, dtype)));
    CHECK(std::isnan(value([](const Tensor& x) { return clamp(x, 0, 1); }, kNaN, dtype)));
    CHECK(std::isnan(maximum(tensor(kNaN, dtype), tensor(1.0, dtype)).item()));
    CHECK(std::isnan(maximum(tensor(1.0, dtype), tensor(kNaN, dtype)).item()));
    CHECK(std::isnan(minimum(tensor(kNaN, dtype), tensor(1.0, dtype)).item()));
    CHECK(std::isnan(minimum(tensor(1.0, dtype), tensor(kNaN, dtype)).item()));
  }
}

TEST_CASE("functions agree with the standard library to the type's last digits") {
  for (double at = -20; at <= 20; at += 0.37) {
    CAPTURE(at);
    const auto check = [&](const auto& f, double expected) {
      CHECK(std::abs(value(f, at, DType::f64) - expected) <= 1e-15 * std::abs(expected));
    };
    check([](const Tensor& x) { return exp(x); }, std::exp(at));
    check([](const Tensor& x) { return tanh(x); }, std::tanh(at));
    check([](const Tensor& x) { return sigmoid(x); }, 1 / (1 + std::exp(-at)));
    check([](const Tensor& x) { return sqrt(abs(x)); }, std::sqrt(std::abs(at)));
    check([](const Tensor& x) { return log(abs(x)); }, std::log(std::abs(at)));
  }
}

TEST_CASE("whole numbers wrap around, comparisons and where take any type") {
  const Index top = std::numeric_limits<Index>::max();
  const Tensor a = from_data(std::span<const Index>(&top, 1), {1});
  CHECK((a + ones({1}, DType::i64)).read<Index>()[0] == std::numeric_limits<Index>::min());
  CHECK(equal(arange(3), arange(3)).read<bool>()[2]);
  CHECK_FALSE(less(tensor({kNaN}), tensor({1.0})).read<bool>()[0]);
  const Tensor chosen = where(greater(arange(4), full({}, 1, DType::i64)), arange(4), full({}, -1, DType::i64));
  CHECK(chosen.read<Index>()[1] == -1);
  CHECK(chosen.read<Index>()[3] == 3);
  CHECK(to(tensor({0, 2, -1}), DType::boolean).read<bool>()[2]);
}
