// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <tapehead/tapehead.h>

#include <string>
#include <utility>
#include <vector>

#include "layers/same.h"

using namespace tapehead;

namespace {

Sequential make() { return Sequential(Linear(2, 4), relu, Dropout(0.5), Linear(4, 1, {.bias = false})); }

}  // namespace

TEST_CASE("Sequential: calls its steps in order") {
  const Linear first(2, 4), second(4, 1);
  const Sequential both(first, relu, second);
  const Tensor x = tensor({{1, -2}, {3, 4}, {0, 1}});
  CHECK(same_values(both(x), second(relu(first(x)))));
  CHECK(same_values(Sequential()(x), x));
  const double factor = 3;
  CHECK(same_values(Sequential([factor](const Tensor& t) { return t * factor; })(x), x * 3));
}

TEST_CASE("Sequential: parameters are named by place, functions count") {
  Sequential list = make();
  CHECK(names(list.parameters()) == std::vector<std::string>{"0.weight", "0.bias", "3.weight"});
  CHECK(list.parameter_count() == 8 + 4 + 4);
  list.eval();
  CHECK(same_values(list(ones({3, 2})), list(ones({3, 2}))));
  list.to(DType::f64);
  CHECK(list(ones({3, 2}, DType::f64)).dtype() == DType::f64);
}

TEST_CASE("Sequential: attention hands on its output") {
  const SelfAttention attention(4, 4);
  const Embedding embedding(10, 4);
  const Sequential list(embedding, attention, Linear(4, 2));
  CHECK(list(arange(6)).shape() == Shape{6, 2});
  CHECK(same_values(Sequential(embedding, attention)(arange(6)), attention(embedding(arange(6))).output));
}

TEST_CASE("Sequential: copies, moves and assignments are those of its layers") {
  Sequential list = make();
  const auto leaves_before = list.parameters();
  const Sequential copy = list;
  CHECK_FALSE(same_leaf(copy.parameters()[0].tensor, leaves_before[0].tensor));
  CHECK(same_values(copy.parameters()[0].tensor, leaves_before[0].tensor));

  const Sequential other = make();
  list = other;
  CHECK(same_leaf(list.parameters()[2].tensor, leaves_before[2].tensor));
  CHECK(same_values(list.parameters()[2].tensor, other.parameters()[2].tensor));

  const Sequential moved = std::move(list);
  CHECK(same_leaf(moved.parameters()[2].tensor, leaves_before[2].tensor));

  Sequential empty;
  empty = moved;
  CHECK(empty.parameters().size() == 3);
  CHECK_FALSE(same_leaf(empty.parameters()[0].tensor, moved.parameters()[0].tensor));
}

TEST_CASE("Sequential: a list of other layers cannot be assigned") {
  Sequential list = make();
  const Sequential before = list;
  const Sequential shorter(Linear(2, 4));
  CHECK_THROWS_AS(list = shorter, StateError);
  const Sequential other(Linear(2, 4), relu, LayerNorm(4), Linear(4, 1));
  CHECK_THROWS_AS(list = other, StateError);
  CHECK(same_values(list.parameters()[0].tensor, before.parameters()[0].tensor));
}
