// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <tapehead/tapehead.h>

#include <type_traits>
#include <utility>
#include <vector>

#include "layers/same.h"

using namespace tapehead;

TEST_CASE("parameter: a leaf that wants a gradient, with values of its own") {
  Tensor values = tensor({1, 2, 3});
  Parameter parameter(values);
  CHECK(parameter.requires_grad());
  CHECK(parameter.is_leaf());
  values.write<float>()[0] = 9;
  CHECK(parameter.at({0}) == 1);
  CHECK_THROWS_AS(Parameter(arange(3)), DTypeError);
  CHECK_FALSE(Parameter().defined());
}

TEST_CASE("parameter: made from a recorded result it is off that tape") {
  Parameter first(tensor({1, 2}));
  Parameter second(first * 3);
  CHECK(second.is_leaf());
  sum(second * second).backward();
  CHECK_FALSE(first.grad().defined());
}

TEST_CASE("parameter: copying makes another leaf with the same values, name and wish, and no gradient") {
  Parameter original(tensor({1, 2}));
  original.set_name("w");
  sum(original * original).backward();
  Parameter copy(original);
  CHECK_FALSE(same_leaf(copy, original));
  CHECK(same_values(copy, original));
  CHECK(copy.name() == "w");
  CHECK(copy.requires_grad());
  CHECK_FALSE(copy.grad().defined());
  original.write<float>()[0] = 7;
  CHECK(copy.at({0}) == 1);

  original.requires_grad_(false);
  CHECK_FALSE(Parameter(original).requires_grad());
  CHECK_FALSE(Parameter(Parameter()).defined());
}

TEST_CASE("parameter: moving hands over the leaf") {
  static_assert(std::is_nothrow_move_constructible_v<Parameter>);
  Parameter original(tensor({1, 2}));
  const Tensor handle = original;
  CHECK(same_leaf(handle, original));
  Parameter moved(std::move(original));
  CHECK(same_leaf(moved, handle));
  Parameter target(tensor({5}));
  target = std::move(moved);
  CHECK(same_leaf(target, handle));
}

TEST_CASE("parameter: assigning writes into the leaf that is there") {
  Parameter target(tensor({1, 2}));
  const Tensor handle = target;
  const Parameter source(tensor({3, 4}));
  target = source;
  CHECK(same_leaf(target, handle));
  CHECK(handle.at({1}) == 4);
  target = tensor({5, 6});
  CHECK(same_leaf(target, handle));
  CHECK(handle.at({1}) == 6);
  const Parameter& itself = target;
  target = itself;
  CHECK(handle.at({1}) == 6);

  CHECK_THROWS_AS(target = tensor({1, 2, 3}), ShapeError);
  CHECK_THROWS_WITH_AS(target = tensor({1, 2}, DType::f64),
                       "assignment: parameter is f32, the values are f64; convert one of them with to()", DTypeError);
  CHECK_THROWS_AS(target = Tensor(), StateError);
  CHECK(same_values(handle, tensor({5, 6})));
  target.set_name("head.bias");
  CHECK_THROWS_WITH_AS(target = tensor({1, 2, 3}),
                       "assignment: head.bias [2] cannot take values [3]; shapes must be equal", ShapeError);

  Parameter empty;
  empty = source;
  CHECK_FALSE(same_leaf(empty, source));
  CHECK(same_values(empty, source));
}

TEST_CASE("parameter: assigning between forward and backward is noticed") {
  Parameter parameter(tensor({1, 2}));
  const Tensor loss = sum(parameter * parameter);
  parameter = tensor({3, 4});
  CHECK_THROWS_AS(loss.backward(), GraphError);
}
