// SPDX-License-Identifier: MIT
#include <cmath>

#include <doctest/doctest.h>

#include <tapehead/error.h>
#include <tapehead/indexing.h>
#include <tapehead/ops.h>
#include <tapehead/runtime.h>
#include <tapehead/tape.h>

using namespace tapehead;

namespace {

std::vector<double> values(const Tensor& x) {
  const Tensor wide = to(x, DType::f64);
  return {wide.read<double>().begin(), wide.read<double>().end()};
}

Tensor ids(std::initializer_list<double> numbers) { return tensor(numbers, DType::i64); }
Tensor table() { return tensor({{0, 1, 2}, {10, 11, 12}, {20, 21, 22}}); }
Tensor flags(std::initializer_list<double> numbers) { return to(tensor(numbers), DType::boolean); }

}  // namespace

TEST_CASE("indexing: index_select takes parts along any axis") {
  CHECK(values(index_select(table(), 0, ids({2, 0, 2}))) == std::vector<double>{20, 21, 22, 0, 1, 2, 20, 21, 22});
  CHECK(values(index_select(table(), 1, ids({2, 0}))) == std::vector<double>{2, 0, 12, 10, 22, 20});
  CHECK(values(index_select(to(table(), DType::i64), -1, ids({1}))) == std::vector<double>{1, 11, 21});
  CHECK(index_select(zeros({2, 0, 3}), 2, ids({1, 1, 0, 2})).shape() == Shape{2, 0, 4});
  CHECK(index_select(zeros({2, 3}), 1, zeros({0}, DType::i64)).shape() == Shape{2, 0});
}

TEST_CASE("indexing: index takes tuples of indices") {
  CHECK(values(index(table(), {ids({2, 0}), ids({1, 2})})) == std::vector<double>{21, 2});
  CHECK(values(index(table(), {ids({1})})) == std::vector<double>{10, 11, 12});
  const Tensor rows = reshape(ids({0, 2}), {2, 1});
  CHECK(values(index(table(), {rows, ids({1, 0})})) == std::vector<double>{1, 0, 21, 20});
  CHECK(index(zeros({2, 3, 4, 5}), {rows - rows, ids({1, 0})}).shape() == Shape{2, 2, 4, 5});
  CHECK(index(table(), {tensor(1, DType::i64), tensor(2, DType::i64)}).item() == 12);
}

TEST_CASE("indexing: scatter replaces, the last of several values stays") {
  const Tensor index = tensor({{0, 2, 0}, {0, 2, 1}}, DType::i64);
  const Tensor x = table().requires_grad_();
  const Tensor put = tensor({{1, 2, 3}, {4, 5, 6}}).requires_grad_();
  const Tensor y = scatter(x, 0, index, put);
  CHECK(values(y) == std::vector<double>{4, 1, 3, 10, 11, 6, 20, 5, 22});
  const std::vector<Tensor> gradients = grad(y, {x, put}, {.gradient = table() + 1.0});
  CHECK(values(gradients[0]) == std::vector<double>{0, 2, 0, 11, 12, 0, 21, 0, 23});
  CHECK(values(gradients[1]) == std::vector<double>{0, 0, 3, 1, 22, 13});
  CHECK(values(x) == values(table()));
  CHECK(values(scatter(to(table(), DType::i64), 1, full({1, 1}, 1, DType::i64), full({1, 1}, 7, DType::i64))) ==
        std::vector<double>{0, 7, 2, 10, 11, 12, 20, 21, 22});
}

TEST_CASE("indexing: scatter_add adds every value") {
  const Tensor index = tensor({{0, 2, 0}, {0, 2, 1}}, DType::i64);
  const Tensor put = tensor({{1, 2, 3}, {4, 5, 6}}).requires_grad_();
  const Tensor y = scatter_add(table(), 0, index, put);
  CHECK(values(y) == std::vector<double>{5, 1, 5, 10, 11, 18, 20, 28, 22});
  CHECK(values(grad(y, {put}, {.gradient = table() + 1.0})[0]) == std::vector<double>{1, 22, 3, 1, 22, 13});
}

TEST_CASE("indexing: scatter and scatter_add give the same bits for any number of threads") {
  const Index n = 300, m = 400;
  Tensor index = empty({n, m}, DType::i64);
  Tensor put = empty({n, m});
  Index next = 0;
  for (Index& id : index.write<Index>()) id = (next = (next * 131 + 7) % 100003) % 50;
  for (float& value : put.write<float>()) value = 1.0F / static_cast<float>((next = (next * 131 + 7) % 100003) + 1);
  for (const auto operation : {scatter, scatter_add}) {
    set_num_threads(1);
    const std::vector<double> alone = values(operation(zeros({50, m}), 0, index, put));
    set_num_threads(3);
    CHECK(values(operation(zeros({50, m}), 0, index, put)) == alone);
    set_num_threads(2);
  }
}

TEST_CASE("indexing: masked_fill and masked_select") {
  CHECK(values(masked_fill(table(), flags({1, 0, 1}), -1)) == std::vector<double>{-1, 1, -1, -1, 11, -1, -1, 21, -1});
  CHECK(values(masked_select(table(), flags({1, 0, 1}))) == std::vector<double>{0, 2, 10, 12, 20, 22});
  CHECK(values(masked_select(to(table(), DType::i64), less(table(), tensor(11)))) == std::vector<double>{0, 1, 2, 10});
  CHECK(masked_select(table(), flags({0})).shape() == Shape{0});
  const Tensor x = table().requires_grad_();
  CHECK(values(grad(masked_select(x, flags({1, 0, 0})), {x}, {.gradient = tensor({1, 2, 3})})[0]) ==
        std::vector<double>{1, 0, 0, 2, 0, 0, 3, 0, 0});
}

TEST_CASE("indexing: what is wrong is named") {
  CHECK_THROWS_WITH_AS(index_select(table(), 1, ids({0, 3})),
                       "index_select: ids[1] is 3; it must be in [0, 3), the size of axis 1 of x [3, 3]", IndexError);
  CHECK_THROWS_WITH_AS(index_select(table(), 0, zeros({1, 1}, DType::i64)),
                       "index_select: ids [1, 1] must have one axis", ShapeError);
  CHECK_THROWS_AS(index_select(table(), 2, ids({0})), IndexError);
  CHECK_THROWS_AS(index_select(table(), 0, tensor({1})), DTypeError);
  CHECK_THROWS_WITH_AS(index(table(), {ids({0, 1}), ids({2, -1})}),
                       "index: ids[1][1] is -1; it must be in [0, 3), the size of axis 1 of x [3, 3]", IndexError);
  CHECK_THROWS_AS(index(table(), {}), ValueError);
  CHECK_THROWS_AS(index(table(), {ids({0}), ids({0}), ids({0})}), ShapeError);
  CHECK_THROWS_AS(index(table(), {ids({0, 1}), ids({0, 1, 2})}), ShapeError);
  const Tensor two = tensor({{0, 3}}, DType::i64);
  CHECK_THROWS_WITH_AS(scatter(table(), 0, two, ones({1, 2})),
                       "scatter: index[0, 1] is 3; it must be in [0, 3), the size of axis 0 of x [3, 3]", IndexError);
  CHECK_THROWS_WITH_AS(scatter_add(table(), 0, zeros({1, 2}, DType::i64), ones({2, 1})),
                       "scatter_add: index [1, 2] and values [2, 1] must have one shape", ShapeError);
  CHECK_THROWS_AS(scatter(table(), 0, zeros({1, 4}, DType::i64), ones({1, 4})), ShapeError);
  CHECK_THROWS_WITH_AS(masked_fill(table(), flags({1, 0}), 0), doctest::Contains("masked_fill"), ShapeError);
  CHECK_THROWS_WITH_AS(masked_fill(to(table(), DType::i64), flags({1, 0, 1}), 0.5),
                       "masked_fill: value 0.5 has no place in x, which is i64", ValueError);
  CHECK_THROWS_AS(masked_fill(to(table(), DType::i64), flags({1, 0, 1}), -INFINITY), ValueError);
  CHECK(values(masked_fill(ids({3, 4, 5}), flags({1, 0, 1}), -100)) == std::vector<double>{-100, 4, -100});
  CHECK_THROWS_WITH_AS(masked_select(ones({3}), to(table(), DType::boolean)),
                       "masked_select: mask [3, 3] must broadcast to x [3]", ShapeError);
  CHECK_THROWS_WITH_AS(masked_select(table(), table()), "masked_select: mask must be bool, is f32", DTypeError);
}
