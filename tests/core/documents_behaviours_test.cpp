// SPDX-License-Identifier: MIT
// What the documents behind this project do and say beside their figures, item by item. C: what all of them share;
// S0 to S4: the batched notebook, the minimal class, the step-by-step notebook, the article, the tutorial. S2-5 and
// S2-12 have no test: variances of numbers that are not shown, and a slip of the pen.
#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <tapehead/attention.h>
#include <tapehead/error.h>
#include <tapehead/indexing.h>
#include <tapehead/ops.h>
#include <tapehead/random.h>

using namespace tapehead;

namespace {

const double kNever = -std::numeric_limits<double>::infinity();

Tensor normal(const Shape& shape, std::uint32_t seed = 42) { return NumpyRandom(seed).randn(shape); }

double distance(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  return a.numel() == 0 ? 0 : max(abs(a - b)).item();
}

bool same_bits(const Tensor& a, const Tensor& b) { return std::ranges::equal(a.read<double>(), b.read<double>()); }

// As the documents write it, out of plain operations.
AttentionResult written_out(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& added = {}) {
  Tensor scores = matmul(q, k, {.transpose_b = true}) / std::sqrt(static_cast<double>(k.shape()[-1]));
  if (added.defined()) scores = scores + added;
  const Tensor weights = softmax(scores);
  return {matmul(weights, v), weights};
}

}  // namespace

TEST_CASE("documents: C1: a loop gives the softmax of every axis") {
  const Tensor x = normal({2, 3, 4});
  for (const int axis : {0, 1, 2, -1, -2, -3}) {
    const Tensor y = softmax(x, axis);
    const int along = axis < 0 ? axis + 3 : axis;
    for (Index i = 0; i < 2; ++i) {
      for (Index j = 0; j < 3; ++j) {
        for (Index l = 0; l < 4; ++l) {
          double top = kNever, total = 0;
          for (Index t = 0; t < x.shape()[along]; ++t) {
            top = std::max(top, x.at({along == 0 ? t : i, along == 1 ? t : j, along == 2 ? t : l}));
          }
          for (Index t = 0; t < x.shape()[along]; ++t) {
            total += std::exp(x.at({along == 0 ? t : i, along == 1 ? t : j, along == 2 ? t : l}) - top);
          }
          CHECK(y.at({i, j, l}) == doctest::Approx(std::exp(x.at({i, j, l}) - top) / total).epsilon(1e-14));
        }
      }
    }
  }
}

TEST_CASE("documents: C2: softmax does not change when every entry grows by 10,000") {
  const Tensor x = to(arange(12), DType::f64) * 0.25;  // exact in f64, also 10,000 higher
  CHECK(same_bits(softmax(reshape(x, {3, 4}) + 1e4), softmax(reshape(x, {3, 4}))));
}

TEST_CASE("documents: C3: rows are not negative and sum to 1") {
  for (const auto& [dtype, tolerance] : {std::pair{DType::f64, 1e-12}, std::pair{DType::f32, 1e-6}}) {
    const Tensor rows = softmax(to(normal({50, 64}) * 5.0, dtype));
    CHECK(min(rows).item() >= 0);
    CHECK(max(abs(sum(rows, -1) - 1.0)).item() < tolerance);
    const Tensor q = to(normal({20, 8}), dtype);
    CHECK(max(abs(sum(scaled_dot_product_attention(q, q, q).weights, -1) - 1.0)).item() < tolerance);
  }
}

TEST_CASE("documents: C4, C6, C7, C8: attention is softmax(Q K^T / sqrt(d_k)) V, for lengths and widths that differ") {
  struct {
    Index queries, keys, size, value_size;
  } const cases[] = {{1, 3, 2, 4}, {2, 3, 4, 5}, {4, 4, 8, 8}, {5, 2, 3, 1}, {1, 1, 1, 1}};
  for (const auto& [queries, keys, size, value_size] : cases) {
    NumpyRandom random(3);
    const Tensor q = random.randn({queries, size}), k = random.randn({keys, size}),
                 v = random.randn({keys, value_size});
    const auto [output, weights] = scaled_dot_product_attention(q, k, v);
    CHECK(output.shape() == Shape{queries, value_size});
    CHECK(weights.shape() == Shape{queries, keys});
    const AttentionResult expected = written_out(q, k, v);
    CHECK(distance(output, expected.output) < 1e-14);
    CHECK(distance(weights, expected.weights) < 1e-14);
  }
}

TEST_CASE("documents: C5, C6: sizes that disagree are named") {
  CHECK_THROWS_WITH_AS(scaled_dot_product_attention(ones({2, 4}), ones({3, 5}), ones({3, 4})),
                       doctest::Contains("queries of size 4 cannot be compared with keys of size 5"), ShapeError);
  CHECK_THROWS_WITH_AS(scaled_dot_product_attention(ones({2, 4}), ones({3, 4}), ones({2, 4})),
                       doctest::Contains("as many keys as values, 3 against 2"), ShapeError);
}

TEST_CASE("documents: C9: a mask that allows everything changes no bit, and masks come after the scale") {
  const Tensor q = normal({3, 4}), k = normal({5, 4}, 1), v = normal({5, 2}, 2);
  const AttentionResult plain = scaled_dot_product_attention(q, k, v);
  for (const Mask& mask : {Mask(), Mask::keep(ones({3, 5}, DType::boolean)), Mask::block(zeros({5}, DType::boolean)),
                           Mask::add(zeros({3, 5}, DType::f64)), Mask::causal(4), Mask::window(5, 5)}) {
    const AttentionResult masked = scaled_dot_product_attention(q, k, v, {.mask = mask});
    CHECK(same_bits(masked.output, plain.output));
    CHECK(same_bits(masked.weights, plain.weights));
  }
  const Tensor added = normal({3, 5}, 4);
  const AttentionResult shifted = scaled_dot_product_attention(q, k, v, {.mask = Mask::add(added)});
  CHECK(distance(shifted.weights, written_out(q, k, v, added).weights) < 1e-15);
}

TEST_CASE("documents: C10: masked weights are exactly 0, also with -1e9 in place of -inf") {
  const Tensor q = normal({4, 8});
  const Tensor future = triu(ones({4, 4}, DType::f64), 1);
  for (const Mask& mask :
       {Mask::causal(), Mask::add(future * -1e9), Mask::add(triu(full({4, 4}, kNever, DType::f64), 1)),
        Mask::block(not_equal(future, zeros({}, DType::f64)))}) {
    CHECK(max(abs(scaled_dot_product_attention(q, q, q, {.mask = mask}).weights * future)).item() == 0);
  }
}

TEST_CASE("documents: C11, S0-9, S4-1: any number of leading axes, which broadcast") {
  for (const Shape& leading : {Shape{}, Shape{2}, Shape{2, 3}, Shape{2, 1, 3}}) {
    const int rank = leading.rank();
    const auto with = [&](Index length, Index size) { return leading.inserted(rank, length).inserted(rank + 1, size); };
    const Tensor q = normal(with(4, 6), 1), k = normal(with(5, 6), 2), v = normal(with(5, 3), 3);
    const auto [output, weights] = scaled_dot_product_attention(q, k, v);
    CHECK(output.shape() == with(4, 3));
    CHECK(weights.shape() == with(4, 5));
    CHECK(distance(output, written_out(q, k, v).output) < 1e-14);
  }
  const Tensor q = normal({2, 3, 4, 6}, 1), k = normal({1, 1, 5, 6}, 2), v = normal({3, 5, 2}, 3);
  CHECK(distance(scaled_dot_product_attention(q, k, v).output, written_out(q, k, v).output) < 1e-14);
}

TEST_CASE("documents: C12: the mask broadcasts against the scores") {
  const Tensor x = normal({2, 3, 4, 6});
  const Tensor square = not_equal(tril(ones({4, 4})), zeros({}));
  const AttentionResult expected = scaled_dot_product_attention(x, x, x, {.mask = Mask::causal()});
  for (const Tensor& kept : {square, broadcast_to(square, {2, 3, 4, 4}), broadcast_to(square, {2, 1, 4, 4})}) {
    const AttentionResult result = scaled_dot_product_attention(x, x, x, {.mask = Mask::keep(kept)});
    CHECK(same_bits(result.output, expected.output));
    CHECK(same_bits(result.weights, expected.weights));
  }
}

TEST_CASE("documents: C13: the weights are there to be looked at, and stay when the output is gone") {
  Tensor weights;
  {
    const Tensor x = normal({4, 8}).requires_grad_();
    weights = scaled_dot_product_attention(x, x, x).weights;
  }
  CHECK(weights.shape() == Shape{4, 4});
  CHECK(max(abs(sum(weights.detach(), -1) - 1.0)).item() < 1e-12);
}

TEST_CASE("documents: S0-10: matrices print as the notebook prints them") {
  NumpyRandom random(42);
  const Tensor q = random.randn({2, 4, 8}) * 0.1, k = random.randn({2, 4, 8}) * 0.1, v = random.randn({2, 4, 8}) * 0.1;
  const auto [output, weights] = scaled_dot_product_attention(q, k, v);
  CHECK(to_string(select(weights, 0, 0)) ==
        "[[0.25239951 0.24751685 0.25106345 0.24902019]\n"
        " [0.24893051 0.25202596 0.24813962 0.25090392]\n"
        " [0.24710991 0.25421605 0.24841189 0.25026215]\n"
        " [0.25241656 0.24979312 0.24903318 0.24875714]]");
  CHECK(to_string(select(select(output, 0, 0), 0, 0)) ==
        "[-0.02728092  0.00473303 -0.04275996 -0.07967607  0.03838312  0.06356303\n"
        " -0.08637104  0.06873783]");
  const AttentionResult causal = scaled_dot_product_attention(q, k, v, {.mask = Mask::causal()});
  CHECK(to_string(slice(select(causal.weights, 0, 0), 0, {.stop = 2})) ==
        "[[1.         0.         0.         0.        ]\n"
        " [0.49691046 0.50308954 0.         0.        ]]");
}

TEST_CASE("documents: S1-2, S1-3, S1-5: the minimal class's shapes, and gradients for X and the three weights") {
  NumpyRandom random(42);
  Tensor x = random.randn({4, 8});
  Tensor w_q = random.randn({8, 6}) * 0.1, w_k = random.randn({8, 6}) * 0.1, w_v = random.randn({8, 6}) * 0.1;
  for (Tensor* leaf : {&x, &w_q, &w_k, &w_v}) leaf->requires_grad_();
  const Tensor q = matmul(x, w_q), k = matmul(x, w_k), v = matmul(x, w_v);
  CHECK(q.shape() == Shape{4, 6});
  CHECK(attention_scores(q, k).shape() == Shape{4, 4});
  const auto [output, weights] = scaled_dot_product_attention(q, k, v);
  CHECK(output.shape() == Shape{4, 6});
  CHECK(weights.shape() == Shape{4, 4});
  sum(output * output).backward();
  for (const Tensor& leaf : {x, w_q, w_k, w_v}) {
    REQUIRE(leaf.grad().defined());
    CHECK(leaf.grad().shape() == leaf.shape());
    CHECK(max(abs(leaf.grad())).item() > 0);
  }
}

TEST_CASE("documents: S2-1, S2-6, S2-7: product, scale, mask, softmax, product; and the mask made of ones") {
  const Tensor products = tensor({{-0.6565045, -3.76956714, 3.08105246, 2.43434131},
                                  {2.07802559, 1.21139921, 7.93190485, -1.00497858},
                                  {4.20399631, -0.29168475, -1.308575, -5.64194761},
                                  {4.73150822, -1.13656296, 2.20243154, -5.90394453}},
                                 DType::f64);
  Tensor mask = tril(ones({4, 4}, DType::f64));
  CHECK(to_string(mask) == "[[1. 0. 0. 0.]\n [1. 1. 0. 0.]\n [1. 1. 1. 0.]\n [1. 1. 1. 1.]]");
  const Tensor kept = equal(mask, ones({}, DType::f64));
  mask = masked_fill(mask, equal(mask, zeros({}, DType::f64)), kNever);
  mask = masked_fill(mask, kept, 0);
  const Tensor masked = products / std::sqrt(8.0) + mask;
  CHECK(to_string(masked) ==
        "[[-0.23210939        -inf        -inf        -inf]\n"
        " [ 0.73469299  0.4282943         -inf        -inf]\n"
        " [ 1.48633715 -0.10312613 -0.46265113        -inf]\n"
        " [ 1.67284077 -0.40183569  0.77867714 -2.08735961]]");
  // Queries that are the products, against unit keys, have the products as their scores.
  const AttentionResult result = scaled_dot_product_attention(products, eye(4, DType::f64), eye(4, DType::f64),
                                                              {.mask = Mask::add(mask), .scale = 1 / std::sqrt(8.0)});
  CHECK(distance(result.weights, softmax(masked)) < 1e-15);
}

TEST_CASE("documents: S2-10: a softmax that takes off the maximum gives what one without it gives") {
  const Tensor x = normal({4, 4});
  CHECK(distance(softmax(x), exp(x) / sum(exp(x), -1, true)) < 1e-15);
  CHECK(sum(softmax(x * 1000.0)).item() == doctest::Approx(4).epsilon(1e-12));  // where that one overflows
}

TEST_CASE("documents: S3-1: words become the rows of a matrix") {
  const Tensor the = tensor({1.0, 0.0, 0.5}, DType::f64), cat = tensor({0.0, 1.0, 0.3}, DType::f64);
  const Tensor x = stack({the, cat, tensor({1.0, 1.0, 0.2}, DType::f64)});
  CHECK(to_string(x) == "[[1.  0.  0.5]\n [0.  1.  0.3]\n [1.  1.  0.2]]");
}

TEST_CASE("documents: S3-7: stack, eye, diagonals of triangles, and no 0 times infinity") {
  CHECK(to_string(eye(3, DType::f64)) == "[[1. 0. 0.]\n [0. 1. 0.]\n [0. 0. 1.]]");
  const Tensor infinite = full({3, 3}, kNever, DType::f64);
  CHECK(to_string(triu(infinite, 1)) == "[[  0. -inf -inf]\n [  0.   0. -inf]\n [  0.   0.   0.]]");
  CHECK(to_string(tril(infinite, -1)) == "[[  0.   0.   0.]\n [-inf   0.   0.]\n [-inf -inf   0.]]");
  const Tensor x = tensor({{1, 0, 1}, {0, 1, 1}, {1, 1, 0}}, DType::f64);
  CHECK(to_string(matmul(x, eye(3, DType::f64), {.transpose_b = true}) * 2.0 / std::sqrt(3.0) + triu(infinite, 1)) ==
        "[[1.15470054       -inf       -inf]\n"
        " [0.         1.15470054       -inf]\n"
        " [1.15470054 1.15470054 0.        ]]");
}

TEST_CASE("documents: S3-5: the masked scores as the article prints them") {
  const Tensor x = tensor({{1, 0, 1}, {0, 1, 1}, {1, 1, 0}}, DType::f64);
  const Tensor scores = matmul(x, x, {.transpose_b = true}) / std::sqrt(3.0);
  CHECK(to_string(scores + triu(full({3, 3}, kNever, DType::f64), 1)) ==
        "[[1.15470054       -inf       -inf]\n"
        " [0.57735027 1.15470054       -inf]\n"
        " [0.57735027 0.57735027 1.15470054]]");
}

TEST_CASE("documents: S4-2: 1 blocks and 0 attends, told as whole numbers") {
  const Tensor x = normal({2, 3, 4});
  const Tensor ones_block = triu(ones({3, 3}, DType::i64), 1);
  const Mask blocked = Mask::block(not_equal(ones_block, zeros({}, DType::i64)));
  const Mask kept = Mask::keep(equal(ones_block, zeros({}, DType::i64)));
  CHECK_THROWS_AS(Mask::block(ones_block), DTypeError);  // a number says neither
  const Tensor expected = scaled_dot_product_attention(x, x, x, {.mask = Mask::causal()}).weights;
  for (const Mask& mask : {blocked, kept}) {
    CHECK(same_bits(scaled_dot_product_attention(x, x, x, {.mask = mask}).weights, expected));
  }
}

TEST_CASE("documents: S4-5: without the scale, wide heads leave the softmax no gradient") {
  // The mean norm of the Jacobian of the weights by their scores.
  const auto slope = [](Index size, bool scaled) {
    NumpyRandom random(11);
    const Tensor q = random.randn({64, size}), k = random.randn({16, size});
    const Tensor w =
        scaled_dot_product_attention(q, k, k, {.scale = scaled ? 1 / std::sqrt(static_cast<double>(size)) : 1}).weights;
    const Tensor jacobian = unsqueeze(w, -1) * eye(16, DType::f64) - unsqueeze(w, -1) * unsqueeze(w, -2);
    return mean(sqrt(sum(jacobian * jacobian, {1, 2}))).item();
  };
  CHECK(slope(64, false) < 0.65 * slope(8, false));
  CHECK(slope(512, false) < 0.65 * slope(64, false));
  CHECK(slope(512, false) < 0.2 * slope(512, true));
  for (const Index size : {8, 64, 512}) CHECK(slope(size, true) == doctest::Approx(slope(8, true)).epsilon(0.15));
}
