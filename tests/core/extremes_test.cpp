// SPDX-License-Identifier: MIT
// Numbers at the edge of what f32 and f64 hold: softmax, losses and layer norm. Attention's are in
// extremes_attention_test.cpp.
#include <cmath>
#include <functional>
#include <limits>

#include <doctest/doctest.h>

#include <tapehead/attention.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/random.h>
#include <tapehead/runtime.h>

using namespace tapehead;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr DType kTypes[] = {DType::f32, DType::f64};

struct Softmax {
  std::vector<double> output, gradient;  // the gradient of sum(weight * output), weight 1, 2, 3 ...
};

std::vector<double> numbers(const Tensor& x) {
  const Tensor wide = to(x.detach(), DType::f64);
  return {wide.read<double>().begin(), wide.read<double>().end()};
}

Softmax run(const Tensor& logits, bool log = false) {
  Tensor x = clone(logits).requires_grad_();
  const Tensor y = log ? log_softmax(x) : softmax(x);
  y.backward({.gradient = reshape(to(arange(y.numel()), x.dtype()) + 1.0, y.shape())});
  return {numbers(y), numbers(x.grad())};
}

// The distance between neighbouring numbers at `value`.
double ulp(double value, DType dtype) {
  if (dtype == DType::f64) return std::nextafter(value, kInfinity) - value;
  const auto narrow = static_cast<float>(value);
  return static_cast<double>(std::nextafter(narrow, std::numeric_limits<float>::infinity())) - value;
}

double epsilon(DType dtype) {
  return dtype == DType::f64 ? std::numeric_limits<double>::epsilon()
                             : static_cast<double>(std::numeric_limits<float>::epsilon());
}

void check_all(const std::vector<double>& values, const std::function<bool(double)>& holds) {
  for (const double value : values) {
    CAPTURE(value);
    CHECK(holds(value));
  }
}
bool is_finite(double value) { return std::isfinite(value); }
bool is_nan(double value) { return std::isnan(value); }

bool same_bits(const Tensor& a, const Tensor& b) { return numbers(a) == numbers(b); }

// The text of the anomaly that a computation meets.
std::string anomaly(const std::function<void()>& compute) {
  const DetectAnomaly detect;
  try {
    compute();
  } catch (const ValueError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("extremes: logits 1e4 and 0") {
  for (const DType dtype : kTypes) {
    const Softmax plain = run(tensor({1e4, 0}, dtype));
    CHECK(plain.output == std::vector<double>{1, 0});
    check_all(plain.gradient, [&](double g) { return std::abs(g) <= 4 * epsilon(dtype); });
    const Softmax log = run(tensor({1e4, 0}, dtype), true);
    CHECK(log.output == std::vector<double>{0, -1e4});
    check_all(log.gradient, is_finite);
  }
}

TEST_CASE("extremes: all logits 1e4, or all -1e4") {
  for (const DType dtype : kTypes) {
    for (const double level : {1e4, -1e4}) {
      for (const Index n : {1, 3, 7, 100}) {
        const Softmax result = run(full({n}, level, dtype));
        const double share = 1 / static_cast<double>(n);
        check_all(result.output, [&](double y) { return std::abs(y - share) <= ulp(share, dtype); });
        check_all(result.gradient, is_finite);
      }
    }
  }
}

TEST_CASE("extremes: logits too far apart for the smaller to count") {
  for (const DType dtype : kTypes) {
    const double far = dtype == DType::f32 ? 104.5 : 746;
    const Softmax result = run(tensor({far, 0, far}, dtype));
    CHECK(result.output == std::vector<double>{0.5, 0, 0.5});
    CHECK(result.gradient[1] == 0);
    // Not even a thousand of them add to the sum.
    const Softmax many = run(concat({tensor({far}, dtype), zeros({1000}, dtype)}));
    CHECK(many.output[0] == 1);
    CHECK(many.output[1000] == 0);
    CHECK(many.gradient[1000] == 0);
  }
}

TEST_CASE("extremes: one logit -inf") {
  for (const DType dtype : kTypes) {
    const Softmax with = run(tensor({0.5, -kInfinity, -1, 2}, dtype));
    const Softmax without = run(tensor({0.5, -1, 2}, dtype));
    CHECK(with.output[1] == 0);
    CHECK(with.gradient[1] == 0);
    const std::size_t places[] = {0, 2, 3};
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(std::abs(with.output[places[i]] - without.output[i]) <= ulp(without.output[i], dtype));
      CHECK(std::isfinite(with.gradient[places[i]]));
    }
    const Softmax log = run(tensor({0.5, -kInfinity, -1, 2}, dtype), true);
    CHECK(log.output[1] == -kInfinity);
    CHECK(log.output[3] == doctest::Approx(std::log(with.output[3])).epsilon(4 * epsilon(dtype)));
    check_all(log.gradient, is_finite);

    Tensor x = tensor({{0.5, -kInfinity, 2}}, dtype).requires_grad_();
    const Tensor loss = cross_entropy(x, zeros({1}, DType::i64));
    loss.backward();
    const double expected = std::log(1 + std::exp(1.5));
    CHECK(loss.item() == doctest::Approx(expected).epsilon(4 * epsilon(dtype)));
    CHECK(x.grad().at({0, 1}) == 0);
    check_all(numbers(x.grad()), is_finite);
  }
}

TEST_CASE("extremes: nothing but -inf, or a +inf") {
  for (const DType dtype : kTypes) {
    for (const double other : {-kInfinity, kInfinity, kNaN}) {
      for (const bool log : {false, true}) {
        CAPTURE(other);
        CAPTURE(log);
        const Tensor x = tensor({-kInfinity, other, -kInfinity}, dtype);
        const Softmax result = run(x, log);
        if (!log || std::isnan(other)) check_all(result.output, is_nan);
        if (log) CHECK(std::isnan(result.output[1]));
        check_all(result.gradient, is_nan);
        const std::string text = anomaly([&] { log ? log_softmax(x) : softmax(x); });
        CHECK_MESSAGE(text.starts_with(log ? "log_softmax: result" : "softmax: result"), text);
      }
    }
    CHECK(logsumexp(full({3}, -kInfinity, dtype)).item() == -kInfinity);
  }
}

TEST_CASE("extremes: a NaN in one row stays there") {
  for (const DType dtype : kTypes) {
    NumpyRandom random(3);
    const Tensor clean = to(random.randn({5, 70}), dtype);
    Tensor spoilt = clone(clean);
    const Tensor where_nan = full({1}, kNaN, dtype);
    spoilt = concat({slice(clean, 0, {.stop = 2}), clean * 0.0 + where_nan, slice(clean, 0, {.start = 3})}, 0);
    spoilt = concat({slice(spoilt, 0, {.stop = 3}), slice(clean, 0, {.start = 3})}, 0);
    const Tensor targets = zeros({5}, DType::i64);
    const std::function<Tensor(const Tensor&)> functions[] = {
        [](const Tensor& x) { return softmax(x); },
        [](const Tensor& x) { return log_softmax(x); },
        [](const Tensor& x) { return layer_norm(x); },
        [](const Tensor& x) { return rms_norm(x); },
        [&](const Tensor& x) { return cross_entropy(x, targets, {.reduction = Reduction::none}); },
    };
    for (const auto& f : functions) {
      Tensor a = clone(clean).requires_grad_(), b = clone(spoilt).requires_grad_();
      const Tensor ya = f(a), yb = f(b);
      sum(ya * ya).backward();
      sum(yb * yb).backward();
      for (const auto& [good, bad] : {std::pair{ya, yb}, std::pair{a.grad(), b.grad()}}) {
        for (const Index row : {0, 1, 3, 4}) CHECK(same_bits(select(good, 0, row), select(bad, 0, row)));
        check_all(numbers(select(bad, 0, 2)), is_nan);
      }
    }
  }
}

TEST_CASE("extremes: the loss of a target far below the top") {
  for (const DType dtype : kTypes) {
    const Tensor targets = full({1}, 2, DType::i64);
    Tensor x = tensor({{1e4, 0, -1e4}}, dtype).requires_grad_();
    const Tensor loss = cross_entropy(x, targets);
    CHECK(loss.item() == 20000);
    loss.backward();
    CHECK(numbers(x.grad()) == std::vector<double>{1, 0, -1});
    Tensor again = clone(x.detach()).requires_grad_();
    const Tensor likelihood = nll_loss(log_softmax(again), targets);
    CHECK(likelihood.item() == 20000);
    likelihood.backward();
    CHECK(numbers(again.grad()) == std::vector<double>{1, 0, -1});
  }
}

TEST_CASE("extremes: no target counts") {
  for (const DType dtype : kTypes) {
    Tensor x = ones({2, 3}, dtype).requires_grad_();
    const Tensor targets = full({2}, -100, DType::i64);
    CHECK_THROWS_WITH_AS(cross_entropy(x, targets), doctest::Contains("none of the 2 targets counts"), ValueError);
    CHECK_THROWS_WITH_AS(nll_loss(x, targets), doctest::Contains("none of the 2 targets counts"), ValueError);
    const Tensor total = cross_entropy(x, targets, {.reduction = Reduction::sum});
    CHECK(total.item() == 0);
    total.backward();
    CHECK(numbers(x.grad()) == std::vector<double>(6, 0));
  }
}

TEST_CASE("extremes: layer norm of a constant row, and of a small variance on a large mean") {
  for (const DType dtype : kTypes) {
    for (const double level : {0.0, 1e-3, 1.0, 1e6, -1e6}) {
      Tensor x = full({2, 7}, level, dtype).requires_grad_();
      const Tensor bias = to(arange(7), dtype) * 0.25;
      const Tensor y = layer_norm(x, ones({7}, dtype), bias);
      for (Index i = 0; i < 7; ++i) CHECK(std::abs(y.at({1, i}) - bias.at({i})) <= 1e-5);
      y.backward({.gradient = y.detach()});
      check_all(numbers(x.grad()), is_finite);
    }
    Tensor x = tensor({{1e6, 1e6 + 1, 1e6 + 2}}, dtype).requires_grad_();
    const Tensor y = layer_norm(x);
    const double expected = 1 / std::sqrt(2.0 / 3 + 1e-5);
    CHECK(std::abs(y.at({0, 0}) + expected) <= 1e-4);
    CHECK(std::abs(y.at({0, 1})) <= 1e-4);
    CHECK(std::abs(y.at({0, 2}) - expected) <= 1e-4);
    y.backward({.gradient = tensor({{1, 2, 4}}, dtype)});
    check_all(numbers(x.grad()), is_finite);
    CHECK(std::abs(variance(x.detach(), {}, {.correction = 0}).item() - 2.0 / 3) <= 1e-4);
  }
}

TEST_CASE("extremes: subnormal numbers") {
  for (const DType dtype : kTypes) {
    const double tiny = dtype == DType::f32 ? 0x1p-140 : 0x1p-1060;
    const Index n = 100000;  // enough for every thread to take part
    const Tensor x = full({n}, tiny, dtype);
    const auto check_gradual = [&] {
      for (const auto& [y, expected] : {std::pair{x + x, 2 * tiny},
                                        {x * 3.0, 3 * tiny},
                                        {-x, -tiny},
                                        {x / 2.0, tiny / 2},
                                        {relu(x), tiny},
                                        {abs(-x), tiny},
                                        {maximum(x, x), tiny},
                                        {x - x * 0.5, tiny / 2}}) {
        const std::vector<double> values = numbers(y);
        CHECK(values.front() == expected);
        CHECK(values.back() == expected);
        CHECK(std::equal(values.begin() + 1, values.end(), values.begin()));
      }
      volatile double smallest = std::numeric_limits<double>::min();
      CHECK(smallest / 2 > 0);  // this thread rounds as it did
    };
    check_gradual();
    // Products may take subnormal numbers as 0; nobody else may from then on.
    const Tensor square = full({300, 300}, tiny, dtype);
    const double product = max(abs(matmul(square, square))).item();
    CHECK(product == 0);
    const AttentionResult attention = scaled_dot_product_attention(square, square, square);
    CHECK(max(attention.output).item() <= tiny);
    CHECK(max(linear(square, square)).item() == 0);
    Tensor leaf = clone(square).requires_grad_();
    sum(scaled_dot_product_attention(leaf, leaf, leaf).output).backward();
    check_gradual();
  }
}

TEST_CASE("extremes: sizes beyond 32 bits") {
  constexpr Index kBeyond = Index{1} << 32;
  CHECK(Shape{kBeyond, kBeyond / 64}.numel() == Index{1} << 58);
  const Tensor none = zeros({0, kBeyond});
  CHECK(transpose(none, 0, 1).shape() == Shape{kBeyond, 0});
  CHECK(concat({none, none}, 1).shape() == Shape{0, 2 * kBeyond});
  CHECK(sum(zeros({kBeyond, 0}), 0).shape() == Shape{0});
  CHECK(slice(none, 1, {.start = kBeyond - 2}).shape() == Shape{0, 2});
}
