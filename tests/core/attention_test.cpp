// SPDX-License-Identifier: MIT
// Shared heads, capped scores, dropped weights and raw scores: against the same computed from plain operations.
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include <tapehead/attention.h>
#include <tapehead/error.h>
#include <tapehead/gradcheck.h>
#include <tapehead/ops.h>
#include <tapehead/runtime.h>

using namespace tapehead;

namespace {

Tensor normal(const Shape& shape, std::uint64_t seed, DType dtype = DType::f64) {
  Generator generator(seed);
  return randn(shape, dtype, generator);
}

double distance(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  return max(abs(a - b)).item();
}

// [..., T, heads * size] -> [..., T, heads * times * size], each head repeated side by side
Tensor repeat_heads(const Tensor& x, Index heads, Index times) {
  std::vector<Tensor> parts;
  const Index size = x.shape()[-1] / heads;
  for (Index h = 0; h < heads; ++h) {
    const Tensor head = slice(x, -1, {.start = h * size, .stop = (h + 1) * size});
    for (Index i = 0; i < times; ++i) parts.push_back(head);
  }
  return concat(parts, -1);
}

void check_gradients(const AttentionOptions& options, const Shape& q, const Shape& k, const Shape& v) {
  const auto function = [&](const std::vector<Tensor>& x) {
    Generator generator(5);  // the same weights are dropped in every evaluation
    AttentionOptions own = options;
    own.generator = &generator;
    const AttentionResult result = scaled_dot_product_attention(x[0], x[1], x[2], own);
    Tensor out = reshape(result.output, {-1});
    if (options.need_weights) out = concat({out, reshape(result.weights, {-1})});
    return concat({out, reshape(attention_scores(x[0], x[1], options), {-1})});
  };
  const std::vector<Tensor> inputs{normal(q, 1), normal(k, 2), normal(v, 3)};
  const GradcheckResult first = gradcheck(function, inputs);
  CHECK_MESSAGE(first, first);
  const GradcheckResult second = gradgradcheck(function, inputs, {.atol = 1e-6, .rtol = 1e-4});
  CHECK_MESSAGE(second, second);
}

}  // namespace

TEST_CASE("attention: heads that share keys equal heads with copies of them") {
  const Tensor q = normal({2, 3, 24}, 1), k = normal({2, 5, 8}, 2), v = normal({2, 5, 6}, 3);
  const AttentionResult shared = scaled_dot_product_attention(q, k, v, {.heads = 6, .kv_heads = 2});
  const AttentionResult copied =
      scaled_dot_product_attention(q, repeat_heads(k, 2, 3), repeat_heads(v, 2, 3), {.heads = 6});
  CHECK(shared.output.shape() == Shape{2, 3, 18});
  CHECK(distance(shared.output, copied.output) == 0);
  CHECK(distance(shared.weights, copied.weights) == 0);
}

TEST_CASE("attention: shared heads have the gradients that differences give") {
  check_gradients({.mask = Mask::causal(2), .heads = 4, .kv_heads = 2}, {2, 3, 8}, {2, 5, 4}, {1, 5, 6});
  check_gradients({.heads = 3, .kv_heads = 1, .need_weights = false}, {3, 6}, {4, 2}, {4, 3});
}

TEST_CASE("attention: capped scores") {
  const Tensor q = normal({2, 4, 3}, 1) * 4.0, k = normal({2, 5, 3}, 2) * 4.0, v = normal({2, 5, 2}, 3);
  const AttentionResult capped = scaled_dot_product_attention(q, k, v, {.mask = Mask::window(2, 1), .softcap = 1.5});
  const Tensor scores = matmul(q, k, {.transpose_b = true}) / std::sqrt(3.0);
  CHECK(distance(attention_scores(q, k, {.softcap = 1.5}), scores) < 1e-14);
  Tensor blocked = zeros({4, 5}, DType::f64);
  for (Index i = 0; i < 4; ++i) {
    for (Index j = 0; j < 5; ++j) {
      if (j < i - 2 || j > i + 1) blocked.write<double>()[static_cast<std::size_t>(i * 5 + j)] = -INFINITY;
    }
  }
  const Tensor weights = softmax(1.5 * tanh(scores / 1.5) + blocked);
  CHECK(distance(capped.weights, weights) < 1e-14);
  CHECK(distance(capped.output, matmul(weights, v)) < 1e-14);
}

TEST_CASE("attention: capped scores have the gradients that differences give") {
  check_gradients({.mask = Mask::causal(), .softcap = 2}, {2, 4, 3}, {2, 4, 3}, {2, 4, 2});
  check_gradients({.heads = 2, .kv_heads = 1, .softcap = 0.5}, {3, 4}, {5, 2}, {5, 2});
}

TEST_CASE("attention: dropout drops its share of the weights and scales the rest") {
  const Tensor q = normal({2, 64, 8}, 1), k = normal({2, 150, 8}, 2);
  // With the unit matrix as values the output is the dropped weights themselves.
  Generator generator(7);
  const AttentionResult result =
      scaled_dot_product_attention(q, k, eye(150, DType::f64), {.dropout = 0.25, .generator = &generator});
  Index dropped = 0;
  const auto out = result.output.read<double>(), weights = result.weights.read<double>();
  for (std::size_t i = 0; i < out.size(); ++i) {
    dropped += out[i] == 0;
    if (out[i] != 0) REQUIRE(out[i] == doctest::Approx(weights[i] / 0.75).epsilon(1e-13));
  }
  // 19,200 weights: the share is within five deviations of a quarter.
  CHECK(static_cast<double>(dropped) / 19200 == doctest::Approx(0.25).epsilon(0.0625));
  CHECK(generator.position() == 2 * 64 * 38);
}

TEST_CASE("attention: the same weights are dropped for every number of threads, and none that a mask leaves out") {
  const Tensor q = normal({3, 130, 4}, 1, DType::f32), k = normal({3, 130, 4}, 2, DType::f32);
  Tensor first;
  const int before = num_threads();
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    Generator generator(7);
    const Tensor y =
        scaled_dot_product_attention(
            q, k, k, {.mask = Mask::causal(), .dropout = 0.5, .generator = &generator, .need_weights = false})
            .output;
    if (!first.defined()) first = y;
    CHECK(max(abs(y - first)).item() == 0);
  }
  set_num_threads(before);
}

TEST_CASE("attention: dropped weights have the gradients that differences give") {
  check_gradients({.mask = Mask::causal(1), .dropout = 0.4}, {2, 3, 2}, {2, 5, 2}, {2, 5, 3});
  check_gradients({.heads = 2, .kv_heads = 1, .softcap = 3, .dropout = 0.3, .need_weights = false}, {3, 4}, {5, 2},
                  {5, 3});
}

TEST_CASE("attention: options without sense are refused") {
  const Tensor q = zeros({3, 12}), k = zeros({5, 8});
  const auto call = [&](const AttentionOptions& options) { scaled_dot_product_attention(q, k, k, options); };
  CHECK_THROWS_WITH_AS(call({.heads = 3, .kv_heads = 2}),
                       "scaled_dot_product_attention: 3 heads cannot share 2 heads of key and value evenly",
                       ValueError);
  CHECK_THROWS_WITH_AS(call({.kv_heads = 2}), doctest::Contains("kv_heads needs heads"), ValueError);
  CHECK_THROWS_WITH_AS(call({.heads = 6, .kv_heads = 3}), doctest::Contains("or 3 the widths 8 of the key"),
                       ValueError);
  CHECK_THROWS_WITH_AS(call({.heads = 3, .kv_heads = 1}),
                       doctest::Contains("queries of size 4 cannot be compared with keys of size 8"), ShapeError);
  CHECK_THROWS_WITH_AS(call({.heads = 6, .kv_heads = 4, .dropout = 1}), doctest::Contains("cannot share"), ValueError);
  CHECK_THROWS_WITH_AS(scaled_dot_product_attention(k, k, k, {.dropout = 1}), doctest::Contains("dropout is 1"),
                       ValueError);
  CHECK_THROWS_WITH_AS(scaled_dot_product_attention(k, k, k, {.softcap = -1}), doctest::Contains("softcap is -1"),
                       ValueError);
}

TEST_CASE("attention: a scale, masks and joined tensors that fit nothing are refused by name") {
  const Tensor q = ones({2, 3, 4}), k = ones({2, 5, 4});
  const auto attend = [&](const AttentionOptions& options) { (void)scaled_dot_product_attention(q, k, k, options); };
  CHECK_THROWS_WITH_AS(attend({.scale = INFINITY}), doctest::Contains("scale is inf; it must be finite"), ValueError);
  CHECK_THROWS_WITH_AS(attend({.mask = Mask::lengths(full({7, 2}, 3, DType::i64))}),
                       doctest::Contains("lengths [7, 2] do not broadcast to the leading axes [2]"), ShapeError);
  CHECK_THROWS_WITH_AS(attend({.mask = Mask::keep(full({7, 2, 3, 5}, 1, DType::boolean))}),
                       doctest::Contains("mask [7, 2, 3, 5] does not broadcast to the scores [2, 3, 5]"), ShapeError);
  CHECK_THROWS_WITH_AS(scaled_dot_product_attention(ones({2, 3, 12}), {.heads = 0}),
                       doctest::Contains("needs heads of at least 1"), ValueError);
  CHECK_THROWS_WITH_AS(scaled_dot_product_attention(ones({2, 3, 12}), {.heads = 4, .kv_heads = 3}),
                       doctest::Contains("got 4 and 3"), ValueError);
  CHECK_THROWS_WITH_AS(scaled_dot_product_attention(ones({2, 3, 13}), {.heads = 4}),
                       doctest::Contains("must be [..., T, width]"), ShapeError);
}
