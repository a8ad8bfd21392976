// SPDX-License-Identifier: MIT
#include <cmath>

#include <doctest/doctest.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/rotary.h>
#include <tapehead/tape.h>

using namespace tapehead;

namespace {

void check_values(const Tensor& x, const std::vector<double>& expected) {
  REQUIRE(x.numel() == static_cast<Index>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(x.read<double>()[i] - expected[i]) <= 1e-14);
  }
}

Tensor numbered(const Shape& shape) {
  return to(reshape(arange(1, 1 + static_cast<double>(shape.numel())), shape), DType::f64);
}

}  // namespace

TEST_CASE("rotary: pairs turn by position times base^(-2i/dims)") {
  const RotaryTable table = rotary_table(tensor({0, 3}, DType::i64), 4, 10000, DType::f64);
  CHECK(table.cos.shape() == Shape{2, 2});
  check_values(table.cos, {1, 1, std::cos(3.0), std::cos(0.03)});
  check_values(table.sin, {0, 0, std::sin(3.0), std::sin(0.03)});
  // Printed by PyTorch 2.15 in float64: a product of complex numbers, and x cos + concat(-x2, x1) sin.
  check_values(rotary(numbered({2, 4}), table),
               {1.0, 2.0, 3.0, 4.0, -5.79668253136143, -5.234354939303337, 6.7568862346229475, 8.20636877140937});
  check_values(rotary(numbered({2, 4}), table, {.pairs = RotaryPairs::halves}),
               {1.0, 2.0, 3.0, 4.0, -5.937802539421297, 5.75733620087396, -6.224347435903782, 8.176373271206874});
}

TEST_CASE("rotary: each head turns alike, dims beyond the table stay") {
  const RotaryTable table = rotary_table(arange(3), 2, 10, DType::f64);
  const Tensor x = numbered({2, 3, 6});
  const Tensor y = rotary(x, table, {.heads = 2});
  for (Index b = 0; b < 2; ++b) {
    for (Index t = 0; t < 3; ++t) {
      for (const Index head : {0, 3}) {
        const double c = std::cos(static_cast<double>(t)), s = std::sin(static_cast<double>(t));
        const double p = x.at({b, t, head}), q = x.at({b, t, head + 1});
        CHECK(std::abs(y.at({b, t, head}) - (p * c - q * s)) <= 1e-14);
        CHECK(std::abs(y.at({b, t, head + 1}) - (p * s + q * c)) <= 1e-14);
        CHECK(y.at({b, t, head + 2}) == x.at({b, t, head + 2}));
      }
    }
  }
}

TEST_CASE("rotary: products of turned vectors depend on the distance alone, and the gradient is turned back") {
  const Tensor q = numbered({1, 8}), k = 0.25 * numbered({1, 8}) - 1.0;
  const auto score = [&](Index at_q, Index at_k) {
    const auto turned = [](const Tensor& x, Index at) {
      return rotary(x,
                    rotary_table(arange(static_cast<double>(at), static_cast<double>(at + 1)), 8, 10000, DType::f64));
    };
    return sum(turned(q, at_q) * turned(k, at_k)).item();
  };
  CHECK(std::abs(score(7, 3) - score(104, 100)) <= 1e-11);
  CHECK(std::abs(score(7, 3) - score(7, 4)) > 1e-3);
  const RotaryTable table = rotary_table(arange(5), 8, 10000, DType::f64);
  const Tensor x = numbered({5, 8}).requires_grad_();
  const Tensor y = rotary(x, table);
  const Tensor back = grad(y, {x}, {.gradient = y.detach()})[0];
  for (Index i = 0; i < 40; ++i)
    CHECK(std::abs(back.read<double>()[static_cast<std::size_t>(i)] - static_cast<double>(i + 1)) <= 1e-13);
}

TEST_CASE("rotary: what is wrong is named") {
  const RotaryTable table = rotary_table(arange(3), 4);
  CHECK_THROWS_WITH_AS(
      rotary(ones({4, 8}), table, {.heads = 2}),
      "rotary: x [4, 8] with 2 heads, cos [3, 2] and sin [3, 2]; x must be [..., T, heads * size], cos "
      "and sin [..., T, dims / 2] with dims up to size and leading axes that broadcast to those of x",
      ShapeError);
  CHECK_THROWS_AS(rotary(ones({3, 9}), table, {.heads = 2}), ShapeError);
  CHECK_THROWS_AS(rotary(ones({3, 4}), table, {.heads = 2}), ShapeError);
  CHECK_THROWS_AS(rotary(ones({4}), table), ShapeError);
  CHECK_THROWS_AS(rotary(ones({3, 4}, DType::f64), table), DTypeError);
  CHECK_THROWS_AS(rotary(ones({3, 4}), table, {.heads = 0}), ValueError);
  CHECK_THROWS_WITH_AS(rotary(ones({3, 4}), {clone(table.cos).requires_grad_(), table.sin}),
                       "rotary: the table wants a gradient; its angles are constants, detach() them", GraphError);
  CHECK_THROWS_WITH_AS(rotary_table(arange(3), 5), "rotary_table: dims 5 must be even, at least 2", ValueError);
  CHECK_THROWS_AS(rotary_table(arange(3), 4, 0), ValueError);
  CHECK_THROWS_AS(rotary_table(ones({3}), 4), DTypeError);
}
