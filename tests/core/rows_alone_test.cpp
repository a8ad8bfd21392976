// SPDX-License-Identifier: MIT
// One token through an operation has the bits that it has among many: what a cache of keys and values rests on.
#include <cmath>
#include <cstring>

#include <doctest/doctest.h>

#include <tapehead/attention.h>
#include <tapehead/ops.h>

using namespace tapehead;

namespace {

Tensor waves(const Shape& shape, DType dtype, double phase) {
  Tensor out = empty(shape, dtype);
  visit_float(dtype, "waves", [&](auto zero) {
    for (auto& value : out.write<decltype(zero)>()) value = static_cast<decltype(zero)>(std::sin(phase += 1.7));
  });
  return out;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.body().storage->data(), b.body().storage->data(), a.body().storage->bytes()) == 0;
}

// Rows [from, from + count) of axis -2.
Tensor rows(const Tensor& x, Index from, Index count) { return slice(x, -2, {from, from + count}); }

constexpr DType kFloats[] = {DType::f32, DType::f64};

}  // namespace

TEST_CASE("rows alone: linear") {
  for (const DType dtype : kFloats) {
    const Tensor x = waves({70, 130}, dtype, 0.1), weight = waves({65, 130}, dtype, 0.2),
                 bias = waves({65}, dtype, 0.3);
    const Tensor all = linear(x, weight, bias), plain = linear(x, weight);
    for (Index count = 1; count <= 70; count += count < 20 ? 1 : 7) {
      CAPTURE(count);
      CHECK(same_bits(linear(rows(x, 70 - count, count), weight, bias), rows(all, 70 - count, count)));
      CHECK(same_bits(linear(rows(x, 70 - count, count), weight), rows(plain, 70 - count, count)));
    }
  }
}

TEST_CASE("rows alone: a layer large enough for threads") {
  const Tensor x = waves({300, 600}, DType::f32, 0.1), weight = waves({700, 600}, DType::f32, 0.2);
  const Tensor all = linear(x, weight), turned = transpose(weight, 0, 1), same = matmul(x, turned);
  CHECK(same_bits(all, same));
  for (const Index row : {0, 1, 150, 299}) {
    CHECK(same_bits(linear(rows(x, row, 1), weight), rows(all, row, 1)));
    CHECK(same_bits(matmul(rows(x, row, 1), turned), rows(all, row, 1)));
  }
}

TEST_CASE("rows alone: batches of products") {
  for (const DType dtype : kFloats) {
    const Tensor a = waves({3, 4, 33, 40}, dtype, 0.1), b = waves({3, 4, 40, 50}, dtype, 0.2);
    const Tensor all = matmul(a, b);
    for (const Index row : {0, 8, 31, 32}) CHECK(same_bits(matmul(rows(a, row, 1), b), rows(all, row, 1)));
  }
}

TEST_CASE("rows alone: the newest query against all keys is the last row of causal attention") {
  for (const DType dtype : kFloats) {
    for (const Index length : {1, 5, 64, 65, 130, 700}) {
      CAPTURE(length);
      const Tensor q = waves({2, length, 48}, dtype, 0.1), k = waves({2, length, 48}, dtype, 0.2);
      const Tensor v = waves({2, length, 48}, dtype, 0.3);
      const auto attend = [&](Index from, Index count) {
        return scaled_dot_product_attention(rows(q, from, count), k, v, {.mask = Mask::causal(from), .heads = 3})
            .output;
      };
      const Tensor all = attend(0, length);
      for (Index from = length - 1; from >= 0; from -= length / 4 + 1) {
        CHECK(same_bits(attend(from, 1), rows(all, from, 1)));
        CHECK(same_bits(attend(from, length - from), rows(all, from, length - from)));
        const Tensor cached =
            scaled_dot_product_attention(rows(q, from, 1), rows(k, 0, from + 1), rows(v, 0, from + 1), {.heads = 3})
                .output;
        CHECK(same_bits(cached, rows(all, from, 1)));  // without the keys that come later
      }
    }
  }
}
