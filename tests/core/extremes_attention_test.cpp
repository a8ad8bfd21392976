// SPDX-License-Identifier: MIT
// Attention at the edge of what f32 and f64 hold, with and without weights.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include <tapehead/attention.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/random.h>
#include <tapehead/runtime.h>

using namespace tapehead;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> numbers(const Tensor& x) {
  const Tensor wide = to(x.detach(), DType::f64);
  return {wide.read<double>().begin(), wide.read<double>().end()};
}

bool all_finite(const Tensor& x) {
  return std::ranges::all_of(numbers(x), [](double value) { return std::isfinite(value); });
}
bool all_zero(const Tensor& x) {
  return std::ranges::all_of(numbers(x), [](double value) { return value == 0; });
}

struct Called {
  AttentionResult result;
  Tensor query, key, value;  // leaves with their gradients
  Tensor upstream;
};

// Forward and backward in one of the paths.
Called call(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options, bool need_weights) {
  Called out{{}, clone(q).requires_grad_(), clone(k).requires_grad_(), clone(v).requires_grad_(), {}};
  options.need_weights = need_weights;
  out.result = scaled_dot_product_attention(out.query, out.key, out.value, options);
  NumpyRandom random(8);
  out.upstream = to(random.randn(out.result.output.shape()), q.dtype());
  out.result.output.backward({.gradient = out.upstream});
  return out;
}

template <class F>
void in_every_path(F f) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool need_weights : {true, false}) {
      CAPTURE(name_of(dtype));
      CAPTURE(need_weights);
      f(dtype, need_weights);
    }
  }
}

std::size_t resident_bytes(const char* field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::stoull(line.substr(line.find(':') + 1)) * 1024;
  }
  return 0;
}

}  // namespace

TEST_CASE("extremes: attention with scores 1e4 and 0, and too far apart to count") {
  in_every_path([](DType dtype, bool need_weights) {
    const Tensor v = tensor({{1, 2}, {3, 4}}, dtype);
    for (const double score : {1e4, dtype == DType::f32 ? 104.5 : 746}) {
      const Called c =
          call(ones({1, 1}, dtype), reshape(tensor({score, 0}, dtype), {2, 1}), v, {.scale = 1}, need_weights);
      CHECK(numbers(c.result.output) == std::vector<double>{1, 2});
      if (need_weights) CHECK(numbers(c.result.weights) == std::vector<double>{1, 0});
      CHECK(all_finite(c.query.grad()));
      CHECK(all_finite(c.key.grad()));
      CHECK(c.key.grad().at({1, 0}) == 0);
      CHECK(c.value.grad().at({1, 0}) == 0);
    }
  });
}

TEST_CASE("extremes: attention with all scores alike, and additive masks that drown them, is uniform") {
  in_every_path([](DType dtype, bool need_weights) {
    const double lowest = dtype == DType::f32 ? -static_cast<double>(std::numeric_limits<float>::max())
                                              : -std::numeric_limits<double>::max();
    const double ulp = dtype == DType::f32 ? 0x1p-26 : 0x1p-55;  // of a seventh
    NumpyRandom random(4);
    const Tensor v = to(random.randn({7, 3}), dtype), noise = to(random.randn({7, 2}), dtype);
    const Tensor mean_value = mean(v, 0);
    struct {
      Tensor key;
      Mask mask;
    } const cases[] = {
        {full({7, 2}, 1e4, dtype), Mask()},
        {full({7, 2}, -1e4, dtype), Mask()},
        {ones({7, 2}, dtype), Mask::add(full({1, 7}, -1e4, dtype))},
        {noise, Mask::add(full({1, 7}, lowest, dtype))},
    };
    for (const auto& [key, mask] : cases) {
      const Called c = call(ones({1, 2}, dtype), key, v, {.mask = mask}, need_weights);
      if (need_weights) {
        for (const double weight : numbers(c.result.weights)) CHECK(std::abs(weight - 1.0 / 7) <= 2 * ulp);
      }
      CHECK(max(abs(c.result.output - mean_value)).item() <= 100 * ulp);
      for (const Tensor& leaf : {c.query, c.key, c.value}) CHECK(all_finite(leaf.grad()));
    }
  });
}

TEST_CASE("extremes: attention with one key masked by -inf is attention without it") {
  in_every_path([](DType dtype, bool need_weights) {
    NumpyRandom random(5);
    const Tensor q = to(random.randn({3, 4}), dtype), k = to(random.randn({5, 4}), dtype);
    const Tensor v = to(random.randn({5, 2}), dtype);
    const auto others = [&](const Tensor& x) {
      return concat({slice(x, 0, {.stop = 2}), slice(x, 0, {.start = 3})}, 0);
    };
    const Called with = call(q, k, v, {.mask = Mask::add(tensor({0, 0, -kInfinity, 0, 0}, dtype))}, need_weights);
    const Called without = call(q, others(k), others(v), {}, need_weights);
    const double tolerance = dtype == DType::f32 ? 5e-7 : 1e-15;
    CHECK(max(abs(with.result.output - without.result.output)).item() <= tolerance);
    if (need_weights) CHECK(all_zero(slice(with.result.weights, 1, {.start = 2, .stop = 3})));
    CHECK(all_zero(select(with.key.grad(), 0, 2)));
    CHECK(all_zero(select(with.value.grad(), 0, 2)));
    CHECK(max(abs(with.query.grad() - without.query.grad())).item() <= tolerance);
    CHECK(max(abs(others(with.key.grad()) - without.key.grad())).item() <= tolerance);
    CHECK(max(abs(others(with.value.grad()) - without.value.grad())).item() <= tolerance);
  });
}

TEST_CASE("extremes: attention where everything is blocked") {
  in_every_path([](DType dtype, bool need_weights) {
    const Tensor x = ones({2, 4, 3}, dtype);
    const Tensor nothing = zeros({}, DType::boolean);
    for (const Mask& mask : {Mask::keep(nothing), Mask::causal(-4), Mask::lengths(zeros({}, DType::i64)),
                             Mask::add(full({1}, -kInfinity, dtype))}) {
      const Called c = call(x, x, x, {.mask = mask}, need_weights);
      CHECK(all_zero(c.result.output));
      if (need_weights) CHECK(all_zero(c.result.weights));
      for (const Tensor& leaf : {c.query, c.key, c.value}) CHECK(all_zero(leaf.grad()));
    }
  });
}

TEST_CASE("extremes: attention's scores are scaled before they can overflow") {
  in_every_path([](DType dtype, bool need_weights) {
    const double most = dtype == DType::f32 ? static_cast<double>(std::numeric_limits<float>::max())
                                            : std::numeric_limits<double>::max();
    const double element = std::sqrt(1.5 * (most / 4));  // q k is 1.5 times the largest number, scaled 0.75 times
    const Tensor q = full({1, 4}, element, dtype);
    const Tensor k = concat({full({1, 4}, element, dtype), zeros({1, 4}, dtype)}, 0);
    const Called c = call(q, k, tensor({{1, 2}, {3, 4}}, dtype), {}, need_weights);
    CHECK(numbers(c.result.output) == std::vector<double>{1, 2});
    for (const Tensor& leaf : {c.query, c.key, c.value}) CHECK(all_finite(leaf.grad()));
  });
}

TEST_CASE("extremes: attention over one key passes the value through, bit for bit") {
  in_every_path([](DType dtype, bool need_weights) {
    NumpyRandom random(6);
    for (const Index heads : {0, 1, 3}) {
      const Index width = heads > 0 ? heads : 1;
      const Tensor q = to(random.randn({2, 1, width * 5}), dtype), k = to(random.randn({2, 1, width * 5}), dtype);
      const Tensor v = to(random.randn({2, 1, width * 7}), dtype);
      for (const Mask& mask : {Mask(), Mask::causal(), Mask::keep(ones({1}, DType::boolean))}) {
        const Called c = call(q, k, v, {.mask = mask, .heads = heads}, need_weights);
        CHECK(numbers(c.result.output) == numbers(v));
        CHECK(all_zero(c.query.grad()));
        CHECK(all_zero(c.key.grad()));
        CHECK(numbers(c.value.grad()) == numbers(c.upstream));
      }
    }
  });
}

TEST_CASE("extremes: attention without queries, batches or keys") {
  in_every_path([](DType dtype, bool need_weights) {
    const auto check = [&](const Shape& q, const Shape& k, const Shape& v, const Shape& output, const Shape& weights) {
      const Called c = call(ones(q, dtype), ones(k, dtype), ones(v, dtype), {}, need_weights);
      CHECK(c.result.output.shape() == output);
      CHECK(all_zero(c.result.output));
      if (need_weights) CHECK(c.result.weights.shape() == weights);
      for (const Tensor& leaf : {c.query, c.key, c.value}) {
        CHECK(leaf.grad().shape() == leaf.shape());
        CHECK(all_zero(leaf.grad()));
      }
    };
    check({2, 0, 4}, {2, 5, 4}, {2, 5, 3}, {2, 0, 3}, {2, 0, 5});
    check({0, 3, 4}, {0, 5, 4}, {0, 5, 3}, {0, 3, 3}, {0, 3, 5});
    check({2, 3, 4}, {2, 0, 4}, {2, 0, 3}, {2, 3, 3}, {2, 3, 0});
    CHECK_THROWS_WITH_AS(call(ones({3, 0}, dtype), ones({5, 0}, dtype), ones({5, 2}, dtype), {}, need_weights),
                         doctest::Contains("head size 0"), ValueError);
  });
}

TEST_CASE("extremes: attention with a NaN in one query stays in its row") {
  in_every_path([](DType dtype, bool need_weights) {
    NumpyRandom random(7);
    const Tensor q = to(random.randn({5, 4}), dtype), k = to(random.randn({6, 4}), dtype);
    Tensor hurt = zeros({5, 1}, dtype);
    hurt = concat({slice(hurt, 0, {.stop = 2}), full({1, 1}, std::nan(""), dtype), slice(hurt, 0, {.start = 3})}, 0);
    const Called clean = call(q, k, k, {}, need_weights), spoilt = call(q + hurt, k, k, {}, need_weights);
    for (const auto& [good, bad] :
         {std::pair{clean.result.output, spoilt.result.output}, std::pair{clean.query.grad(), spoilt.query.grad()}}) {
      for (const Index row : {0, 1, 3, 4}) CHECK(numbers(select(good, 0, row)) == numbers(select(bad, 0, row)));
      for (const double value : numbers(select(bad, 0, 2))) CHECK(std::isnan(value));
    }
  });
}

TEST_CASE("extremes: attention over 16,384 tokens never holds the scores") {
  constexpr Index kTokens = 16384, kSize = 64;
  NumpyRandom random(9);
  const auto draw = [&] { return to(random.randn({kTokens, kSize}), DType::f32); };
  const Tensor q = draw().requires_grad_(), k = draw().requires_grad_(), v = draw().requires_grad_();
  const Tensor upstream = draw();
  const std::size_t before = resident_bytes("VmRSS");
  const bool fresh_peak = (std::ofstream("/proc/self/clear_refs") << 5 << std::flush).good();
  const Tensor output = scaled_dot_product_attention(q, k, v, {.need_weights = false}).output;
  output.backward({.gradient = upstream});
  if (fresh_peak) CHECK(resident_bytes("VmHWM") <= before + (std::size_t{512} << 20));
  for (const Tensor& leaf : {q, k, v}) CHECK(all_finite(leaf.grad()));
  const Tensor keys = to(k.detach(), DType::f64), values = to(v.detach(), DType::f64);
  // Every row's weights sum to 1, so the upstream gradient arrives at the values as a whole.
  CHECK(max(abs(sum(to(v.grad(), DType::f64), 0) - sum(to(upstream, DType::f64), 0))).item() <= 1e-3);
  for (Index sample = 0; sample < 64; ++sample) {
    const Index row = sample * 257 % kTokens;
    const Tensor x = to(select(q.detach(), 0, row), DType::f64), g = to(select(upstream, 0, row), DType::f64);
    const Tensor weights = softmax(matmul(keys, x) / 8.0), expected = matmul(weights, values);
    CHECK(max(abs(to(select(output.detach(), 0, row), DType::f64) - expected)).item() <= 1e-4);
    const Tensor slope = weights * (matmul(values, g) - sum(g * expected)) / 8.0;
    CHECK(max(abs(to(select(q.grad(), 0, row), DType::f64) - matmul(slope, keys))).item() <= 1e-4);
  }
}

TEST_CASE("extremes: attention with more pairs than 32 bits count") {
  constexpr Index kTokens = 50000;  // 2.5e9 pairs, of which each query sees three
  NumpyRandom random(10);
  const Tensor q = to(random.randn({kTokens, 2}), DType::f32).requires_grad_();
  const Tensor v = to(random.randn({kTokens, 1}), DType::f32).requires_grad_();
  const Tensor output =
      scaled_dot_product_attention(q, q, v, {.mask = Mask::window(1, 1), .need_weights = false}).output;
  sum(output).backward();
  for (const Index row : {Index{1}, Index{42949}, Index{42950}, kTokens - 2}) {
    double total = 0, expected = 0;
    for (Index j = row - 1; j <= row + 1; ++j) {
      const double score = (q.at({row, 0}) * q.at({j, 0}) + q.at({row, 1}) * q.at({j, 1})) / std::sqrt(2.0);
      total += std::exp(score);
      expected += std::exp(score) * v.at({j, 0});
    }
    CHECK(output.at({row, 0}) == doctest::Approx(expected / total).epsilon(1e-5));
  }
  // Every weight belongs to some value.
  CHECK(sum(v.grad()).item() == doctest::Approx(kTokens).epsilon(1e-5));
}
