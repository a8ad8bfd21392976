// SPDX-License-Identifier: MIT
#include <cstring>

#include <doctest/doctest.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/runtime.h>

#include "core/central_differences.h"

using namespace tapehead;
using test::check_gradients;
using test::uneven;

namespace {

Tensor numbers(std::initializer_list<double> values) { return tensor(values, DType::i64); }

std::vector<double> values(const Tensor& x) {
  const Tensor converted = to(x, DType::f64);
  return {converted.read<double>().begin(), converted.read<double>().end()};
}

// 0, 7, 14, ... modulo limit, as i64.
Tensor scattered(const Shape& shape, Index limit) {
  Tensor out = empty(shape, DType::i64);
  Index next = 0;
  for (Index& id : out.write<Index>()) id = (next += 7) % limit;
  return out;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.body().storage->data(), b.body().storage->data(), a.body().storage->bytes()) == 0;
}

}  // namespace

TEST_CASE("lookup: embedding picks rows, any shape of ids, any type of weight") {
  const Tensor weight = tensor({{0, 1}, {10, 11}, {20, 21}});
  const Tensor y = embedding(weight, tensor({{2, 0}, {1, 1}}, DType::i64));
  CHECK(y.shape() == Shape{2, 2, 2});
  CHECK(values(y) == std::vector<double>{20, 21, 0, 1, 10, 11, 10, 11});
  CHECK(values(embedding(weight, tensor(1, DType::i64))) == std::vector<double>{10, 11});
  CHECK(values(embedding(to(weight, DType::i64), numbers({2}))) == std::vector<double>{20, 21});
  CHECK(embedding(weight, zeros({3, 0}, DType::i64)).shape() == Shape{3, 0, 2});
  CHECK(embedding(zeros({3, 0}), numbers({2, 0})).shape() == Shape{2, 0});
  CHECK(embedding(zeros({0, 4}), zeros({0}, DType::i64)).shape() == Shape{0, 4});
  const Tensor large = to(reshape(arange(500 * 130), {500, 130}), DType::f32);
  const Tensor ids = scattered({64, 33}, 500);
  const Tensor rows = embedding(large, ids);
  bool all = true;
  for (Index i = 0; i < 64; ++i) {
    for (Index j = 0; j < 33; ++j) {
      for (const Index k : {0, 64, 129})
        all = all && rows.at({i, j, k}) == large.at({static_cast<Index>(ids.at({i, j})), k});
    }
  }
  CHECK(all);
}

TEST_CASE("lookup: embedding names what is wrong") {
  const Tensor weight = ones({5, 3});
  CHECK_THROWS_WITH_AS(embedding(weight, tensor({{0, 1, 2}, {3, 7, 9}}, DType::i64)),
                       "embedding: ids[1, 1] is 7; it must be in [0, 5), the rows of weight [5, 3]", IndexError);
  CHECK_THROWS_WITH_AS(embedding(weight, numbers({-1})),
                       "embedding: ids[0] is -1; it must be in [0, 5), the rows of weight [5, 3]", IndexError);
  CHECK_THROWS_WITH_AS(embedding(weight, tensor(5, DType::i64)),
                       "embedding: ids[] is 5; it must be in [0, 5), the rows of weight [5, 3]", IndexError);
  CHECK_THROWS_WITH_AS(embedding(weight, tensor({1, 2})), "embedding: ids must be i64, is f32", DTypeError);
  CHECK_THROWS_WITH_AS(embedding(ones({5}), numbers({1})), "embedding: weight [5] must have two axes, [count, width]",
                       ShapeError);
  CHECK_THROWS_AS(embedding(Tensor(), numbers({1})), StateError);
}

TEST_CASE("lookup: gradients of embedding") {
  check_gradients(
      [](const Tensor& w) {
        return embedding(w, tensor({{1, 1, 3}, {0, 3, 1}}, DType::i64));
      },
      uneven({4, 3}));
  check_gradients([](const Tensor& w) { return embedding(w * w, numbers({2, 2, 0})); }, uneven({3, 2}));
  check_gradients([](const Tensor& w) { return embedding(w, zeros({0}, DType::i64)); }, uneven({3, 2}));
}

TEST_CASE("lookup: the gradient of embedding is summed in the order of the ids, for any number of threads") {
  const Tensor ids = scattered({4000}, 37);
  const Tensor gradient = to(uneven({4000, 300}), DType::f32);
  const auto run = [&] {
    const Tensor weight = zeros({40, 300}).requires_grad_();
    return grad(embedding(weight, ids), {weight}, {.gradient = gradient})[0];
  };
  const int threads = num_threads();
  set_num_threads(1);
  const Tensor alone = run();
  set_num_threads(3);
  CHECK(same(run(), alone));
  set_num_threads(threads);
  std::vector<float> expected(40 * 300);
  for (std::size_t row = 0; row < 4000; ++row) {
    const std::size_t id = static_cast<std::size_t>(ids.read<Index>()[row]);
    for (std::size_t i = 0; i < 300; ++i) expected[id * 300 + i] += gradient.read<float>()[row * 300 + i];
  }
  CHECK(std::equal(expected.begin(), expected.end(), alone.read<float>().begin()));
}

TEST_CASE("lookup: gather against a loop, every axis, index shorter or longer") {
  const Tensor x = to(reshape(arange(3 * 4 * 5), {3, 4, 5}), DType::f64);
  for (int axis = -3; axis < 3; ++axis) {
    for (const Shape& shape : {Shape{3, 4, 5}, Shape{2, 3, 4}, Shape{1, 1, 1}}) {
      const int along = axis < 0 ? axis + 3 : axis;
      const Tensor index = scattered(shape.with(along, 7), x.shape()[along]);
      const Tensor y = gather(x, axis, index);
      REQUIRE(y.shape() == index.shape());
      bool all = true;
      for (Index i = 0; i < y.shape()[0]; ++i) {
        for (Index j = 0; j < y.shape()[1]; ++j) {
          for (Index k = 0; k < y.shape()[2]; ++k) {
            const Index id = static_cast<Index>(index.at({i, j, k}));
            all = all && y.at({i, j, k}) == x.at({along == 0 ? id : i, along == 1 ? id : j, along == 2 ? id : k});
          }
        }
      }
      CHECK(all);
    }
  }
}

TEST_CASE("lookup: gather of other types, of nothing, and over threads") {
  CHECK(values(gather(numbers({5, 6, 7}), 0, numbers({2, 2}))) == std::vector<double>{7, 7});
  CHECK(values(gather(tensor({1, 0}, DType::boolean), 0, numbers({1, 0}))) == std::vector<double>{0, 1});
  CHECK(gather(ones({3, 0}), 0, zeros({2, 0}, DType::i64)).shape() == Shape{2, 0});
  CHECK(gather(ones({0, 3}), 0, zeros({0, 3}, DType::i64)).shape() == Shape{0, 3});
  const Tensor x = uneven({700, 90});
  const Tensor index = scattered({700, 50}, 90);
  const auto run = [&] {
    const Tensor leaf = clone(x).detach().requires_grad_();
    return grad(gather(leaf, 1, index), {leaf}, {.gradient = slice(x, 1, {0, 50})})[0];
  };
  const int threads = num_threads();
  set_num_threads(1);
  const Tensor alone = run();
  set_num_threads(3);
  CHECK(same(run(), alone));
  set_num_threads(threads);
}

TEST_CASE("lookup: gather names what is wrong") {
  const Tensor x = ones({4, 5});
  CHECK_THROWS_WITH_AS(gather(x, 1, tensor({{0, 4, 5}}, DType::i64)),
                       "gather: index[0, 2] is 5; it must be in [0, 5), the size of axis 1 of x [4, 5]", IndexError);
  CHECK_THROWS_WITH_AS(gather(x, -2, tensor({{0, -4}}, DType::i64)),
                       "gather: index[0, 1] is -4; it must be in [0, 4), the size of axis 0 of x [4, 5]", IndexError);
  CHECK_THROWS_WITH_AS(
      gather(x, 0, zeros({1, 6}, DType::i64)),
      "gather: x [4, 5] and index [1, 6]; they must have the same rank, and index no more than x on every "
      "axis but 0",
      ShapeError);
  CHECK_THROWS_AS(gather(x, 0, zeros({3}, DType::i64)), ShapeError);
  CHECK_THROWS_WITH_AS(gather(x, 0, ones({1, 1})), "gather: index must be i64, is f32", DTypeError);
  CHECK_THROWS_WITH_AS(gather(x, 2, zeros({1, 1}, DType::i64)),
                       "gather: axis 2 is out of range for rank 2; use -2 to 1", IndexError);
  CHECK_THROWS_AS(gather(tensor(1), 0, tensor(0, DType::i64)), ShapeError);
}

TEST_CASE("lookup: gradients of gather") {
  const Tensor index = tensor({{0, 2, 2, 1}, {1, 1, 1, 0}}, DType::i64);
  check_gradients([&](const Tensor& x) { return gather(x, 1, index); }, uneven({2, 3}));
  check_gradients([&](const Tensor& x) { return gather(x, 0, index); }, uneven({3, 5}));
  check_gradients([&](const Tensor& x) { return gather(x * x, -2, reshape(index, {2, 4, 1})); }, uneven({3, 3, 2}));
}

TEST_CASE("lookup: one_hot") {
  const Tensor y = one_hot(numbers({2, 0}), 3);
  CHECK(y.dtype() == DType::f32);
  CHECK(y.shape() == Shape{2, 3});
  CHECK(values(y) == std::vector<double>{0, 0, 1, 1, 0, 0});
  CHECK(one_hot(tensor(1, DType::i64), 2, DType::boolean).shape() == Shape{2});
  CHECK(values(one_hot(numbers({1}), 2, DType::i64)) == std::vector<double>{0, 1});
  CHECK(one_hot(zeros({0, 2}, DType::i64), 4).shape() == Shape{0, 2, 4});
  CHECK_THROWS_WITH_AS(one_hot(numbers({0, 3}), 3), "one_hot: ids[1] is 3; it must be in [0, 3), the number of classes",
                       IndexError);
  CHECK_THROWS_WITH_AS(one_hot(tensor({1}), 3), "one_hot: ids must be i64, is f32", DTypeError);
  CHECK_THROWS_WITH_AS(one_hot(numbers({0}), 0), "one_hot: classes must be at least 1, is 0", ValueError);
}
