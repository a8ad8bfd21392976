// SPDX-License-Identifier: MIT
// Making tensors and reading single elements.
#include <algorithm>
#include <array>
#include <vector>

#include <doctest/doctest.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/runtime.h>
#include <tapehead/tape.h>

using namespace tapehead;

TEST_CASE("from_data copies elements of every type, and only as many as the shape has") {
  const std::vector<float> narrow = {1, 2, 3, 4, 5, 6};
  const std::vector<double> wide = {1, 2, 3, 4, 5, 6};
  const std::vector<Index> whole = {1, 2, 3, 4, 5, 6};
  const std::array<bool, 2> flags = {true, false};
  CHECK(from_data(narrow, {2, 3}).dtype() == DType::f32);
  CHECK(from_data(wide, {2, 3}).dtype() == DType::f64);
  CHECK(from_data(whole, {2, 3}).dtype() == DType::i64);
  CHECK(std::ranges::equal(from_data(narrow, {2, 3}).read<float>(), narrow));
  CHECK(std::ranges::equal(from_data(wide, {2, 3}).read<double>(), wide));
  CHECK(std::ranges::equal(from_data(whole, {2, 3}).read<Index>(), whole));
  CHECK(std::ranges::equal(from_data(flags, {2}).read<bool>(), flags));
  CHECK_THROWS_WITH_AS(from_data(narrow, {2, 2}), "from_data: 6 values do not fill shape [2, 2] of 4 elements",
                       ShapeError);
  CHECK_THROWS_AS(from_data(flags, {3}), ShapeError);
}

TEST_CASE("tensor() takes values as written, up to blocks of rows") {
  const Tensor x = tensor({{{1, 2}, {3, 4}, {5, 6}}, {{7, 8}, {9, 10}, {11, 12}}});
  CHECK(x.shape() == Shape{2, 3, 2});
  CHECK(x.dtype() == DType::f32);
  for (Index i = 0; i < 12; ++i) CHECK(x.at({i / 6, i / 2 % 3, i % 2}) == static_cast<double>(i + 1));
  CHECK(tensor({{{1, 2}}}, DType::i64).read<Index>()[1] == 2);
  CHECK_THROWS_WITH_AS(tensor({{1, 2, 3}, {4, 5}}), "tensor: rows of 3 and 2 values; all must be equal", ShapeError);
  CHECK_THROWS_WITH_AS(tensor({{{1, 2}, {3, 4}}, {{5, 6}}}), "tensor: blocks of 2 and 1 rows; all must be equal",
                       ShapeError);
  CHECK_THROWS_AS(tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7}}}), ShapeError);
}

TEST_CASE("single elements are read by as many indices as there are axes") {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  CHECK(x.at({1, -1}) == 6);
  CHECK(tensor(2.5).item() == 2.5);
  CHECK_THROWS_WITH_AS((void)x.item(), "item: the tensor is [2, 3] with 6 elements; exactly one is needed", ShapeError);
  CHECK_THROWS_WITH_AS((void)x.at({1}), "at: 1 indices for a tensor of rank 2", IndexError);
  CHECK_THROWS_AS((void)x.at({2, 0}), IndexError);
  CHECK_THROWS_WITH_AS((void)x.shape()[2], "shape: axis 2 is out of range for [2, 3] of rank 2", IndexError);
}

TEST_CASE("whole numbers are summed exactly along every axis") {
  const Index large = (Index{1} << 60) + 1;  // more digits than f64 holds
  const std::vector<Index> values = {large, 1, 2, large, 3, 4};
  const Tensor x = from_data(values, {2, 3});
  CHECK(std::ranges::equal(sum(x, 0).read<Index>(), std::vector<Index>{2 * large, 4, 6}));
  CHECK(std::ranges::equal(sum(x, 1).read<Index>(), std::vector<Index>{large + 3, large + 7}));
  CHECK(sum(x).read<Index>()[0] == 2 * large + 10);
}

TEST_CASE("what few callers do wrong has its own words") {
  const Tensor vector = ones({3}), matrix = ones({2, 3});
  CHECK_THROWS_WITH_AS(matmul(vector, matrix, {.transpose_a = true}),
                       doctest::Contains("a vector cannot be transposed"), ShapeError);
  CHECK_THROWS_WITH_AS(linear(matrix, vector), doctest::Contains("must be [out, in]"), ShapeError);
  CHECK_THROWS_WITH_AS(sum_to(matrix, {4, 2, 3}), "sum_to: x [2, 3] is not what broadcasting [4, 2, 3] gives",
                       ShapeError);
  const Tensor wrong = record("wrong", clone(matrix), {&matrix}, {}, [](Backward&) {});
  CHECK_FALSE(wrong.requires_grad());
  const Tensor leaf = ones({2}).requires_grad_();
  const Tensor other_type = record("other_type", clone(leaf.detach()), {&leaf}, {},
                                   [](Backward& back) { back.to(0, to(back.gradient(), DType::f64)); });
  CHECK_THROWS_WITH_AS(sum(other_type).backward(),
                       "other_type: its rule gives a gradient of f64 for input 0, which is f32", DTypeError);
}

TEST_CASE("grad() of a result in the middle leaves older branches alone") {
  const Tensor x = tensor({2}).requires_grad_(), w = tensor({3}).requires_grad_();
  const Tensor older = x * x, middle = w * w, y = sum(older * middle);
  CHECK(grad(y, {middle})[0].item() == 4);  // the older branch
  CHECK_FALSE(x.grad().defined());
  older.backward({.gradient = ones({1})});  // was not played, so it still can be
  CHECK(x.grad().item() == 4);
}

TEST_CASE("the name of OpenBLAS's kernels is known") { CHECK_FALSE(blas_core().empty()); }
