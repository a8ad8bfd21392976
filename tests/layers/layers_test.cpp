// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <tapehead/tapehead.h>

#include <cmath>
#include <string>

#include "layers/same.h"

using namespace tapehead;

namespace {

// Inputs that differ from element to element, without a generator.
Tensor waves(const Shape& shape, DType dtype = DType::f32) {
  Tensor out = empty(shape, DType::f64);
  double i = 0;
  for (double& value : out.write<double>()) {
    ++i;
    value = std::sin(1.7 * i) + 0.1 * i;
  }
  return to(out, dtype);
}

// Smallest, largest, mean and variance of a drawn weight.
void check_uniform(const Tensor& drawn, double limit) {
  const double n = static_cast<double>(drawn.numel());
  const double variance = limit * limit / 3;
  CHECK(min(drawn).item() >= -limit);
  CHECK(max(drawn).item() <= limit);
  CHECK(max(drawn).item() > 0.95 * limit);
  CHECK(min(drawn).item() < -0.95 * limit);
  CHECK(std::abs(mean(drawn).item()) < 5 * std::sqrt(variance / n));
  CHECK(mean(drawn * drawn).item() == doctest::Approx(variance).epsilon(5 * std::sqrt(0.8 / n)));
}

}  // namespace

TEST_CASE("Linear: x weight^T + bias, computed by hand") {
  Linear layer(3, 2);
  CHECK(layer.weight.shape() == Shape{2, 3});
  CHECK(layer.bias.shape() == Shape{2});
  layer.weight = tensor({{1, 2, 3}, {4, 5, 6}});
  layer.bias = tensor({10, 20});
  CHECK(same_values(layer(tensor({{1, 0, -1}, {2, 1, 0}})), tensor({{8, 18}, {14, 33}})));
  CHECK(layer(ones({2, 5, 3})).shape() == Shape{2, 5, 2});

  const Linear bare(3, 2, {.bias = false});
  CHECK_FALSE(bare.bias.defined());
  CHECK(names(bare.parameters()) == std::vector<std::string>{"weight"});
  CHECK(bare.parameter_count() == 6);
}

TEST_CASE("Linear: starts uniform in +-1/sqrt(in) from the generator it is given") {
  Generator generator(1);
  const Linear layer(64, 500, {}, generator);
  check_uniform(layer.weight, 0.125);
  check_uniform(layer.bias, 0.125);
  Generator again(1);
  CHECK(same_values(Linear(64, 500, {}, again).weight, layer.weight));
}

TEST_CASE("Linear: an error names the parameter by its place in the model") {
  const Linear layer(3, 2);
  CHECK_THROWS_AS(layer(ones({2, 4})), ShapeError);
  struct Model : Module {
    Linear head{3, 2};
    void members(Members& m) override { m("head", head); }
  } model;
  (void)model.parameters();
  std::string message;
  try {
    model.head(ones({2, 4}));
  } catch (const ShapeError& error) {
    message = error.what();
  }
  CHECK(message.find("head.weight") != std::string::npos);
  CHECK(message.find("[2, 4]") != std::string::npos);
}

TEST_CASE("layers: sizes below 1 and other impossible numbers are refused") {
  CHECK_THROWS_WITH_AS(Linear(0, 2), "Linear: in must be at least 1, is 0", ValueError);
  CHECK_THROWS_AS(Linear(2, -1), ValueError);
  CHECK_THROWS_AS(SelfAttention(0, 8), ValueError);
  CHECK_THROWS_AS(SelfAttention(8, 0), ValueError);
  CHECK_THROWS_WITH_AS(SelfAttention(8, 8, {.heads = 0}), "SelfAttention: heads must be at least 1, is 0", ValueError);
  CHECK_THROWS_AS(Embedding(0, 4), ValueError);
  CHECK_THROWS_AS(Embedding(4, 0), ValueError);
  CHECK_THROWS_AS(LayerNorm(0), ValueError);
  CHECK_THROWS_AS(LayerNorm(4, {.eps = 0}), ValueError);
  CHECK_THROWS_AS(LayerNorm(4, {.eps = NAN}), ValueError);
  CHECK_THROWS_AS(RMSNorm(0), ValueError);
  CHECK_THROWS_AS(RMSNorm(4, {.eps = 0}), ValueError);
  CHECK_THROWS_AS(Dropout(1), ValueError);
  CHECK_THROWS_AS(Dropout(-0.1), ValueError);
  CHECK_THROWS_AS(Dropout(NAN), ValueError);
}

TEST_CASE("Softmax: sums to 1 along its axis") {
  const Tensor x = waves({2, 3, 4}, DType::f64);
  for (const int axis : {0, 1, 2, -1, -2, -3}) {
    CAPTURE(axis);
    const Tensor total = sum(Softmax(axis)(x), axis);
    CHECK(difference(total, ones(total.shape(), DType::f64)) < 1e-14);
  }
  CHECK(same_values(Softmax()(x), softmax(x, -1)));
  CHECK(Softmax().parameters().empty());
  CHECK_THROWS_AS(Softmax(3)(x), IndexError);
}

TEST_CASE("Embedding: rows by number, starting normal") {
  Generator generator(2);
  const Embedding layer(1000, 50, generator);
  const double n = static_cast<double>(layer.weight.numel());
  CHECK(std::abs(mean(layer.weight).item()) < 5 / std::sqrt(n));
  CHECK(mean(layer.weight * layer.weight).item() == doctest::Approx(1).epsilon(5 * std::sqrt(2 / n)));
  const Tensor ids = reshape(to(tensor({3, 999, 0, 3, 3, 1}), DType::i64), {2, 3});
  const Tensor rows = layer(ids);
  CHECK(rows.shape() == Shape{2, 3, 50});
  CHECK(rows.at({0, 1, 7}) == layer.weight.at({999, 7}));
  CHECK(rows.at({1, 1, 49}) == layer.weight.at({3, 49}));
  CHECK_THROWS_AS(layer(to(tensor({1000}), DType::i64)), IndexError);
}

TEST_CASE("RMSNorm: mean square 1 over the last axis, then the weight") {
  RMSNorm layer(5, {.eps = 1e-12});
  layer.weight = full({5}, 2);
  const Tensor y = layer(tensor({{1, 2, 3, 4, 5}, {-2, 0, 7, 1, 1}})) / 2.0;
  const Tensor squares = mean(y * y, -1);
  for (const Index row : {0, 1}) CHECK(squares.at({row}) == doctest::Approx(1).epsilon(1e-6));
  CHECK(names(layer.parameters()) == std::vector<std::string>{"weight"});
}

TEST_CASE("LayerNorm: mean 0 and variance 1 over the last axis, then weight and bias") {
  LayerNorm layer(5, {.eps = 1e-12});
  layer.to(DType::f64);
  const Tensor x = waves({3, 5}, DType::f64);
  const Tensor y = layer(x);
  CHECK(difference(mean(y, -1), zeros({3}, DType::f64)) < 1e-14);
  CHECK(difference(mean(y * y, -1), ones({3}, DType::f64)) < 1e-10);
  layer.weight = full({5}, 3, DType::f64);
  layer.bias = full({5}, -2, DType::f64);
  CHECK(difference(layer(x), y * 3 - 2) < 1e-14);
  CHECK(LayerNorm(5).eps == 1e-5);
  CHECK(names(LayerNorm(5, {.bias = false}).parameters()) == std::vector<std::string>{"weight"});
}

TEST_CASE("Dropout: only while training") {
  Dropout layer(0.25);
  const Tensor x = ones({100, 100});
  Generator generator(3);
  const Tensor y = layer(x, generator);
  Index zeros_seen = 0;
  for (const float value : y.read<float>()) {
    zeros_seen += value == 0;
    CHECK_UNARY(value == 0 || value == 1 / 0.75f);
  }
  CHECK(std::abs(static_cast<double>(zeros_seen) - 2500) < 5 * std::sqrt(10000 * 0.25 * 0.75));
  layer.eval();
  CHECK(same_values(layer(x), x));
  layer.train();
  CHECK_FALSE(same_values(layer(x), x));
}
