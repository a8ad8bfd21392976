// SPDX-License-Identifier: MIT
// Rearrangements and order. Expected values are NumPy's (2.x) and PyTorch's (2.15).
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>

using namespace tapehead;

namespace {

const double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor counting(const Shape& shape, DType dtype = DType::i64) {
  return to(reshape(arange(shape.numel()), shape), dtype);
}

void check_values(const Tensor& x, const Shape& shape, const std::vector<double>& expected) {
  REQUIRE(x.shape() == shape);
  const Tensor values = to(x, DType::f64);
  const std::vector<double> got(values.read<double>().begin(), values.read<double>().end());
  CHECK(got == expected);
}

}  // namespace

TEST_CASE("rearrange: flip and roll") {
  check_values(flip(counting({2, 3})), {2, 3}, {5, 4, 3, 2, 1, 0});
  check_values(flip(counting({2, 3}), 0), {2, 3}, {3, 4, 5, 0, 1, 2});
  check_values(flip(to(counting({3}), DType::boolean), -1), {3}, {1, 1, 0});
  check_values(roll(counting({5}), 7), {5}, {3, 4, 0, 1, 2});
  check_values(roll(counting({2, 3}), -1, 1), {2, 3}, {1, 2, 0, 4, 5, 3});
  check_values(roll(counting({0}), 1), {0}, {});
  CHECK_THROWS_AS(flip(counting({2}), {0, 0}), IndexError);
  CHECK_THROWS_AS(roll(counting({2}), 1, 1), IndexError);
}

TEST_CASE("rearrange: pad") {
  check_values(pad(counting({2, 2}), {{1, 0}, {0, 2}}, 9), {3, 4}, {9, 9, 9, 9, 0, 1, 9, 9, 2, 3, 9, 9});
  check_values(pad(counting({2, 2}), {{0, 1}}), {2, 3}, {0, 1, 0, 2, 3, 0});
  check_values(pad(zeros({0}, DType::f64), {{1, 1}}, -kInfinity), {2}, {-kInfinity, -kInfinity});
  check_values(pad(counting({}), {}), {}, {0});
  CHECK_THROWS_WITH_AS(pad(counting({2}), {{1, 0}, {0, 1}}),
                       "pad: 2 paddings for x [2] of rank 1; give at most one for each axis", ShapeError);
  CHECK_THROWS_WITH_AS(pad(counting({2, 3}), {{0, -1}}),
                       "pad: padding 0 and -1 of axis 1 of x [2, 3]; neither may be negative, slice() takes away",
                       ValueError);
}

TEST_CASE("rearrange: tile and repeat_interleave") {
  check_values(tile(counting({2, 2}), {2, 1, 2}), {2, 2, 4}, {0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3});
  check_values(tile(counting({2, 2}), {3}), {2, 6}, {0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3});
  check_values(tile(counting({}), {2}), {2}, {0, 0});
  check_values(tile(counting({2, 2}), {0, 1}), {0, 2}, {});
  check_values(repeat_interleave(counting({3, 2}), 2, 0), {6, 2}, {0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5});
  check_values(repeat_interleave(counting({3}), 2), {6}, {0, 0, 1, 1, 2, 2});
  check_values(repeat_interleave(counting({3}), 0), {0}, {});
  CHECK(tile(counting({1, 1, 1, 1, 1, 1, 1, 2}), {2, 1, 1, 1, 1, 1, 1, 2}).shape() == Shape{2, 1, 1, 1, 1, 1, 1, 4});
  CHECK_THROWS_WITH_AS(tile(counting({2}), {2, -1}), "tile: repeats [2, -1] of x [2]; none may be negative",
                       ValueError);
  CHECK_THROWS_WITH_AS(repeat_interleave(counting({2}), -1),
                       "repeat_interleave: repeats is -1; it must not be negative", ValueError);
}

TEST_CASE("order: equal elements stay in order and a NaN counts as largest") {
  const Tensor x = tensor({3, kNaN, 1, 3, -kInfinity}, DType::f64);
  check_values(sort(x).indices, {5}, {4, 2, 0, 3, 1});
  check_values(sort(x, 0, true).indices, {5}, {1, 0, 3, 2, 4});
  check_values(topk(x, 2).indices, {2}, {1, 0});
  check_values(topk(x, 3, 0, false).indices, {3}, {4, 2, 0});
  check_values(topk(x, 3, 0, false).values, {3}, {-kInfinity, 1, 3});
  check_values(sort(tensor({kNaN, 1, kNaN})).indices, {3}, {1, 0, 2});
  check_values(sort(zeros({3}, DType::boolean), 0, true).indices, {3}, {0, 1, 2});
}

TEST_CASE("order: along any axis, against sorting each line alone, over threads") {
  Generator generator(7);
  const Tensor x = randint(0, 40, {7, 90, 11}, generator);
  const SortResult result = sort(x, 1);
  const SortResult some = topk(x, 13, 1);
  for (Index i = 0; i < 7; ++i) {
    for (Index j = 0; j < 11; ++j) {
      const Tensor line = select(select(x, 2, j), 0, i);
      std::vector<std::pair<double, double>> expected;
      for (Index r = 0; r < 90; ++r) expected.emplace_back(line.at({r}), r);
      std::stable_sort(expected.begin(), expected.end(), [](auto& a, auto& b) { return a.first < b.first; });
      bool same = true;
      for (Index r = 0; r < 90; ++r) {
        const auto& [value, place] = expected[static_cast<std::size_t>(r)];
        same = same && result.values.at({i, r, j}) == value && result.indices.at({i, r, j}) == place;
      }
      CHECK(same);
      std::stable_sort(expected.begin(), expected.end(), [](auto& a, auto& b) { return a.first > b.first; });
      for (Index r = 0; r < 13; ++r) {
        const auto& [value, place] = expected[static_cast<std::size_t>(r)];
        same = same && some.values.at({i, r, j}) == value && some.indices.at({i, r, j}) == place;
      }
      CHECK(same);
    }
  }
}

TEST_CASE("order: what sort and topk give over nothing and refuse") {
  CHECK(sort(zeros({0, 3}), 0).values.shape() == Shape{0, 3});
  CHECK(topk(zeros({2, 3}), 0).indices.shape() == Shape{2, 0});
  CHECK(topk(zeros({2, 3}), 0).indices.dtype() == DType::i64);
  CHECK_THROWS_WITH_AS(topk(zeros({2, 3}), 4),
                       "topk: k is 4 and x [2, 3] has 3 elements along axis 1; take k in [0, 3]", ValueError);
  CHECK_THROWS_AS(topk(zeros({2, 3}), -1), ValueError);
  CHECK_THROWS_AS(sort(zeros({}), 0), ShapeError);
}
