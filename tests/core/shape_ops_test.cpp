// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include <doctest/doctest.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/runtime.h>

#include "core/central_differences.h"

using namespace tapehead;
using test::check_gradients;
using test::uneven;

namespace {

// 0, 1, 2, ... so that every element says where it came from.
Tensor counting(const Shape& shape, DType dtype = DType::f64) {
  return to(reshape(arange(shape.numel()), shape), dtype);
}

void check_values(const Tensor& x, const Shape& shape, const std::vector<double>& expected) {
  REQUIRE(x.shape() == shape);
  const Tensor values = to(x, DType::f64);
  const std::vector<double> got(values.read<double>().begin(), values.read<double>().end());
  CHECK(got == expected);
}

bool same(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  return std::memcmp(a.body().storage->data(), b.body().storage->data(), a.body().storage->bytes()) == 0;
}

}  // namespace

TEST_CASE("shape: reshape shares storage and fills in -1") {
  Tensor x = counting({2, 6});
  Tensor y = reshape(x, {3, -1});
  CHECK(y.shape() == Shape{3, 4});
  x.write<double>()[5] = 77;
  CHECK(y.at({1, 1}) == 77);
  CHECK(reshape(x, Shape{12}).shape() == Shape{12});
  CHECK(reshape(tensor(5), {1, 1}).shape() == Shape{1, 1});
  CHECK(reshape(tensor({5}), {}).item() == 5);
  CHECK(reshape(zeros({0, 3}), {-1, 7}).shape() == Shape{0, 7});
  CHECK_THROWS_WITH_AS(
      reshape(x, {5, 2}),
      "reshape: x [2, 6] has 12 elements and shape [5, 2] takes 10; choose sizes with the same product", ShapeError);
  CHECK_THROWS_WITH_AS(reshape(x, {-1, -1}),
                       "reshape: shape [-1, -1] leaves more than one size open; only one may be -1", ShapeError);
  CHECK_THROWS_WITH_AS(
      reshape(x, {5, -1}),
      "reshape: x [2, 6] has 12 elements, the known sizes of shape [5, -1] take 5; no size in place of -1 fits",
      ShapeError);
  CHECK_THROWS_AS(reshape(zeros({0, 3}), {0, -1}), ShapeError);
  CHECK_THROWS_AS(reshape(x, {-2, 6}), ShapeError);
  CHECK_THROWS_AS(reshape(Tensor(), {1}), StateError);
  check_gradients([](const Tensor& t) { return reshape(t, {2, 2, 3}); }, uneven({3, 4}));
}

TEST_CASE("shape: permute against a loop, every order of four axes") {
  const Tensor x = counting({3, 2, 5, 4});
  std::vector<int> order{0, 1, 2, 3};
  do {
    const Tensor y = permute(x, order);
    bool all = true;
    std::array<Index, 4> at{};
    for (at[0] = 0; at[0] < 3; ++at[0]) {
      for (at[1] = 0; at[1] < 2; ++at[1]) {
        for (at[2] = 0; at[2] < 5; ++at[2]) {
          for (at[3] = 0; at[3] < 4; ++at[3]) {
            const auto from = [&](int i) { return at[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])]; };
            all = all && y.at({from(0), from(1), from(2), from(3)}) == x.at({at[0], at[1], at[2], at[3]});
          }
        }
      }
    }
    CHECK(all);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("shape: permute and transpose of large, small and empty tensors, any type, any thread count") {
  for (const DType dtype : {DType::f32, DType::f64, DType::i64}) {
    const Tensor x = counting({67, 45, 131}, dtype);
    const Tensor y = permute(x, {2, 0, 1});
    CHECK(y.dtype() == dtype);
    bool all = true;
    for (Index i = 0; i < 67; i += 3) {
      for (Index j = 0; j < 45; ++j) {
        for (Index k = 0; k < 131; ++k) all = all && y.at({k, i, j}) == x.at({i, j, k});
      }
    }
    CHECK(all);
    CHECK(same(permute(y, {1, 2, 0}), x));
    CHECK(same(transpose(transpose(x, 0, -1), 2, 0), x));
    const int threads = num_threads();
    set_num_threads(3);
    CHECK(same(permute(x, {2, 0, 1}), y));
    set_num_threads(threads);
  }
  check_values(transpose(tensor({{1, 0, 1}, {0, 0, 1}}, DType::boolean), 0, 1), {3, 2}, {1, 0, 0, 0, 1, 1});
  CHECK(permute(zeros({3, 0, 2}), {2, 1, 0}).shape() == Shape{2, 0, 3});
  CHECK(permute(tensor(4), {}).item() == 4);
  Tensor x = counting({2, 2});
  Tensor y = permute(x, {0, 1});
  x.write<double>()[0] = 9;
  CHECK(y.at({0, 0}) == 0);
}

TEST_CASE("shape: permute and transpose refuse bad axes") {
  const Tensor x = counting({2, 3});
  CHECK_THROWS_WITH_AS(permute(x, {0}), "permute: 1 axes [0] for x [2, 3] of rank 2; name each axis once", ShapeError);
  CHECK_THROWS_WITH_AS(permute(x, {1, -1}), "permute: axes [1, -1] of x [2, 3] name axis 1 twice; name each axis once",
                       ShapeError);
  CHECK_THROWS_WITH_AS(permute(x, {0, 2}), "permute: axis 2 is out of range for rank 2; use -2 to 1", IndexError);
  CHECK_THROWS_WITH_AS(transpose(x, 0, -3), "transpose: axis -3 is out of range for rank 2; use -2 to 1", IndexError);
  CHECK_THROWS_WITH_AS(transpose(tensor(1), 0, 0), "transpose: axis 0 of a scalar; it has no axes", ShapeError);
  check_gradients([](const Tensor& t) { return permute(t, {2, 0, 1}); }, uneven({3, 2, 4}));
  check_gradients([](const Tensor& t) { return transpose(t, 1, 2) * transpose(t, 1, 2); }, uneven({2, 3, 2}));
}

TEST_CASE("shape: unsqueeze and squeeze") {
  const Tensor x = counting({2, 3});
  CHECK(unsqueeze(x, 0).shape() == Shape{1, 2, 3});
  CHECK(unsqueeze(x, -1).shape() == Shape{2, 3, 1});
  CHECK(unsqueeze(tensor(1), 0).shape() == Shape{1});
  CHECK(squeeze(counting({2, 1, 3}), -2).shape() == Shape{2, 3});
  CHECK_THROWS_WITH_AS(unsqueeze(x, 3), "unsqueeze: axis 3 is out of range for rank 3; use -3 to 2", IndexError);
  CHECK_THROWS_WITH_AS(squeeze(x, 1), "squeeze: axis 1 of x [2, 3] has size 3; only an axis of size 1 can be taken out",
                       ShapeError);
  CHECK_THROWS_AS(squeeze(x, 2), IndexError);
  CHECK_THROWS_AS(unsqueeze(zeros({1, 1, 1, 1, 1, 1, 1, 1}), 0), ShapeError);
  check_gradients([](const Tensor& t) { return squeeze(unsqueeze(t, 1), 1); }, uneven({3}));
}

TEST_CASE("shape: slice names the same elements as a Python slice, every start, stop and step") {
  const Tensor x = counting({2, 5, 3});
  std::vector<std::optional<Index>> places{std::nullopt};
  for (Index i = -8; i <= 8; ++i) places.push_back(i);
  for (const Index step : {-7, -5, -2, -1, 1, 2, 3, 5, 6}) {
    for (const auto& start : places) {
      for (const auto& stop : places) {
        // Python's rule: negative positions count from the end, then walk while inside and before stop.
        const Index from = start ? (*start < 0 ? *start + 5 : *start) : (step > 0 ? 0 : 4);
        const Index until = stop ? (*stop < 0 ? *stop + 5 : *stop) : (step > 0 ? 5 : -1);
        std::vector<Index> rows;
        for (Index i = step > 0 ? std::max<Index>(from, 0) : std::min<Index>(from, 4);
             step > 0 ? i < std::min<Index>(until, 5) : i > std::max<Index>(until, -1); i += step) {
          rows.push_back(i);
        }
        const Tensor y = slice(x, 1, {start, stop, step});
        REQUIRE(y.shape() == Shape{2, static_cast<Index>(rows.size()), 3});
        for (Index a = 0; a < 2; ++a) {
          for (std::size_t b = 0; b < rows.size(); ++b) {
            for (Index c = 0; c < 3; ++c) REQUIRE(y.at({a, static_cast<Index>(b), c}) == x.at({a, rows[b], c}));
          }
        }
      }
    }
  }
}

TEST_CASE("shape: slice of several axes, of extreme limits, of any type, of nothing") {
  const Tensor x = counting({4, 5});
  check_values(slice(x, {{1, 3}, {.step = -2}}), {2, 3}, {9, 7, 5, 14, 12, 10});
  check_values(slice(x, {{-1, std::nullopt}}), {1, 5}, {15, 16, 17, 18, 19});
  check_values(slice(counting({4, 5}, DType::i64), -1, {.start = 3}), {4, 2}, {3, 4, 8, 9, 13, 14, 18, 19});
  check_values(slice(tensor({1, 0, 1, 1}, DType::boolean), 0, {.step = 2}), {2}, {1, 1});
  constexpr Index least = std::numeric_limits<Index>::min();
  constexpr Index most = std::numeric_limits<Index>::max();
  check_values(slice(x, 1, {least, most, most}), {4, 1}, {0, 5, 10, 15});
  check_values(slice(x, 1, {most, least, least}), {4, 1}, {4, 9, 14, 19});
  CHECK(slice(zeros({0, 3}), 0, {.step = -1}).shape() == Shape{0, 3});
  CHECK(slice(zeros({3, 0}), 0, {1, 2}).shape() == Shape{1, 0});
  CHECK(slice(tensor(3), std::initializer_list<Slice>{}).item() == 3);
  CHECK_THROWS_WITH_AS(slice(x, 0, {.step = 0}), "slice: the step must not be 0", ValueError);
  CHECK_THROWS_WITH_AS(slice(x, 2, {}), "slice: axis 2 is out of range for rank 2; use -2 to 1", IndexError);
  CHECK_THROWS_WITH_AS(slice(x, {{}, {}, {}}), "slice: 3 ranges for x [4, 5] of rank 2; give at most one for each axis",
                       ShapeError);
  CHECK_THROWS_AS(slice(tensor(1), 0, {}), ShapeError);
}

TEST_CASE("shape: gradients of slice and select") {
  check_gradients([](const Tensor& t) { return slice(t, 1, {1, 3}); }, uneven({3, 4, 2}));
  check_gradients([](const Tensor& t) { return slice(t, -1, {.step = -2}); }, uneven({3, 5}));
  check_gradients([](const Tensor& t) { return slice(t, {{1, 2}, {.start = 2}, {.step = 2}}); }, uneven({2, 4, 3}));
  check_gradients([](const Tensor& t) { return slice(t, 0, {2, 2}); }, uneven({3, 2}));
  check_gradients([](const Tensor& t) { return select(t, 1, -1) * select(t, 1, 0); }, uneven({2, 3, 2}));
}

TEST_CASE("shape: select") {
  const Tensor x = counting({2, 3, 2});
  check_values(select(x, 1, 2), {2, 2}, {4, 5, 10, 11});
  check_values(select(x, -1, -2), {2, 3}, {0, 2, 4, 6, 8, 10});
  CHECK(select(counting({4}), 0, 3).item() == 3);
  CHECK_THROWS_WITH_AS(select(x, 1, 3), "select: index 3 is out of range for axis 1 of x [2, 3, 2]; its size is 3",
                       IndexError);
  CHECK_THROWS_AS(select(x, 1, -4), IndexError);
  CHECK_THROWS_AS(select(x, 3, 0), IndexError);
  CHECK_THROWS_AS(select(zeros({0}), 0, 0), IndexError);
}

TEST_CASE("shape: concat and stack") {
  const Tensor a = counting({2, 2});
  const Tensor b = counting({2, 1}) + 10.0;
  check_values(concat({a, b}, 1), {2, 3}, {0, 1, 10, 2, 3, 11});
  check_values(concat({a, a}), {4, 2}, {0, 1, 2, 3, 0, 1, 2, 3});
  check_values(concat({a, zeros({2, 0}, DType::f64), b}, -1), {2, 3}, {0, 1, 10, 2, 3, 11});
  check_values(concat({tensor({1, 0}, DType::boolean), tensor({1}, DType::boolean)}), {3}, {1, 0, 1});
  check_values(concat({arange(2), arange(3)}), {5}, {0, 1, 0, 1, 2});
  CHECK(concat({zeros({0, 3}), zeros({0, 2})}, 1).shape() == Shape{0, 5});
  check_values(stack({a, a + 4.0}, 2), {2, 2, 2}, {0, 4, 1, 5, 2, 6, 3, 7});
  check_values(stack({a, a + 4.0}, -2), {2, 2, 2}, {0, 1, 4, 5, 2, 3, 6, 7});
  check_values(stack({tensor(1), tensor(2)}), {2}, {1, 2});
  CHECK(stack({zeros({0}), zeros({0})}).shape() == Shape{2, 0});
  const Tensor large = counting({300, 200});
  CHECK(same(slice(concat({large, large + 1.0}, 1), 1, {.start = 200}), large + 1.0));
}

TEST_CASE("shape: concat and stack refuse what does not fit") {
  const Tensor a = counting({2, 3});
  CHECK_THROWS_WITH_AS(concat({}), "concat: the list of tensors is empty; give at least one", ValueError);
  CHECK_THROWS_WITH_AS(stack({}), "stack: the list of tensors is empty; give at least one", ValueError);
  CHECK_THROWS_WITH_AS(concat({a, a, counting({3, 3})}, 1),
                       "concat: tensor 0 [2, 3] and tensor 2 [3, 3]; all sizes but that of axis 1 must be equal",
                       ShapeError);
  CHECK_THROWS_AS(concat({a, counting({2})}), ShapeError);
  CHECK_THROWS_WITH_AS(concat({a, ones({2, 3})}),
                       "concat: tensor 0 [2, 3] is f64 and tensor 1 [2, 3] is f32; convert one with to()", DTypeError);
  CHECK_THROWS_WITH_AS(concat({tensor(1)}), "concat: axis 0 of a scalar; it has no axes", ShapeError);
  CHECK_THROWS_AS(concat({a}, 2), IndexError);
  CHECK_THROWS_WITH_AS(stack({a, counting({3, 2})}),
                       "stack: tensor 0 [2, 3] and tensor 1 [3, 2]; all shapes must be equal", ShapeError);
  CHECK_THROWS_AS(stack({a}, 3), IndexError);
  CHECK_THROWS_AS(concat({a, Tensor()}), StateError);
}

TEST_CASE("shape: gradients of concat and stack, also next to constants") {
  const Tensor constant = uneven({2, 2}, 3);
  check_gradients([&](const Tensor& t) { return concat({constant, t, t * t}, 1); }, uneven({2, 3}));
  check_gradients([&](const Tensor& t) { return stack({t, constant, t * t}, 1); }, uneven({2, 2}));
  CHECK(!concat({constant, constant}).requires_grad());
}

TEST_CASE("shape: broadcast_to") {
  check_values(broadcast_to(unsqueeze(tensor({1, 2}), 1), {2, 3}), {2, 3}, {1, 1, 1, 2, 2, 2});
  check_values(broadcast_to(tensor({1, 2}), {2, 2, 2}), {2, 2, 2}, {1, 2, 1, 2, 1, 2, 1, 2});
  check_values(broadcast_to(tensor(7, DType::i64), {3}), {3}, {7, 7, 7});
  check_values(broadcast_to(reshape(tensor({1, 2, 3, 4}), {2, 2, 1}), {2, 2, 2}), {2, 2, 2}, {1, 1, 2, 2, 3, 3, 4, 4});
  check_values(broadcast_to(reshape(tensor({1, 2, 3, 4}), {2, 1, 2}), {2, 2, 2}), {2, 2, 2}, {1, 2, 1, 2, 3, 4, 3, 4});
  CHECK(broadcast_to(zeros({1, 3}), {0, 3}).shape() == Shape{0, 3});
  CHECK(broadcast_to(tensor(1), {}).item() == 1);
  CHECK_THROWS_WITH_AS(broadcast_to(counting({3}), {2, 4}),
                       "broadcast_to: x [3] does not broadcast to shape [2, 4]; counted from the back, each size of x "
                       "must be 1 or equal",
                       ShapeError);
  CHECK_THROWS_AS(broadcast_to(counting({2, 3}), {3}), ShapeError);
  CHECK_THROWS_AS(broadcast_to(counting({3}), {1}), ShapeError);
  check_gradients([](const Tensor& t) { return broadcast_to(t, {2, 3, 4}); }, uneven({3, 1}));
  check_gradients([](const Tensor& t) { return broadcast_to(t, {0, 2}); }, uneven({2}));
}

TEST_CASE("shape: tril and triu against a loop, every diagonal") {
  const Tensor x = counting({2, 3, 4}) + 1.0;
  for (Index diagonal = -5; diagonal <= 5; ++diagonal) {
    const Tensor low = tril(x, diagonal);
    const Tensor high = triu(x, diagonal);
    for (Index a = 0; a < 2; ++a) {
      for (Index i = 0; i < 3; ++i) {
        for (Index j = 0; j < 4; ++j) {
          CHECK(low.at({a, i, j}) == (j - i <= diagonal ? x.at({a, i, j}) : 0));
          CHECK(high.at({a, i, j}) == (j - i >= diagonal ? x.at({a, i, j}) : 0));
        }
      }
    }
  }
  constexpr Index most = std::numeric_limits<Index>::max();
  CHECK(same(tril(x, most), x));
  CHECK(same(triu(x, -most - 1), x));
  check_values(tril(ones({2, 2}, DType::boolean)), {2, 2}, {1, 0, 1, 1});
  check_values(triu(full({2, 2}, -HUGE_VAL, DType::f64), 1), {2, 2}, {0, -HUGE_VAL, 0, 0});
  CHECK(tril(zeros({0, 3})).shape() == Shape{0, 3});
  CHECK(triu(zeros({3, 0})).shape() == Shape{3, 0});
  CHECK_THROWS_WITH_AS(tril(tensor({1, 2})), "tril: x [2] has rank 1; at least 2 axes are needed", ShapeError);
  CHECK_THROWS_AS(triu(tensor(1)), ShapeError);
  check_gradients([](const Tensor& t) { return tril(t, -1); }, uneven({3, 3}));
  check_gradients([](const Tensor& t) { return triu(t, 1); }, uneven({2, 3, 3}));
}

TEST_CASE("shape: only floating tensors are recorded") {
  Tensor x = counting({2, 2});
  x.requires_grad_();
  CHECK(permute(x, {1, 0}).requires_grad());
  CHECK(!permute(to(x, DType::i64), {1, 0}).requires_grad());
}
