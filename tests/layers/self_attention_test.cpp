// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <tapehead/tapehead.h>

#include <cmath>
#include <string>
#include <vector>

#include "layers/same.h"

using namespace tapehead;

namespace {

// The example of the document: seed 42, X [4, 8], then the three weights times 0.1.
struct Example {
  NumpyRandom random{42};
  Tensor x = random.randn({4, 8});
  SelfAttention attention{8, 8};
  Example() {
    attention.to(DType::f64);
    attention.W_q = random.randn({8, 8}) * 0.1;
    attention.W_k = random.randn({8, 8}) * 0.1;
    attention.W_v = random.randn({8, 8}) * 0.1;
  }
};

SelfAttention with_heads(Index embed_dim, Index head_dim, Index heads) {
  Generator generator(5);
  SelfAttention attention(embed_dim, head_dim, {.heads = heads}, generator);
  attention.to(DType::f64);
  return attention;
}

Tensor drawn(const Shape& shape) { return NumpyRandom(7).randn(shape); }

}  // namespace

TEST_CASE("SelfAttention: the document's example to eight digits") {
  const Example example;
  const auto [output, weights] = example.attention(example.x);
  const Tensor expected_output = tensor({{-0.01035516, -0.27415780, -0.14408016, -0.20593843,  //
                                          0.02155267, 0.06036594, 0.00967804, -0.18386666},
                                         {-0.01214499, -0.22997054, -0.13112747, -0.18788542,  //
                                          0.03592952, 0.04071390, 0.01025643, -0.17372143},
                                         {-0.00617919, -0.22060670, -0.12805948, -0.17880954,  //
                                          0.02524986, 0.05583657, 0.00274535, -0.16358427},
                                         {-0.00930351, -0.26194582, -0.14036100, -0.19973441,  //
                                          0.02230098, 0.05933740, 0.00821298, -0.17942075}},
                                        DType::f64);
  const Tensor expected_weights = tensor({{0.23477085, 0.26403109, 0.24610060, 0.25509746},
                                          {0.25656560, 0.23464604, 0.24361217, 0.26517620},
                                          {0.26811614, 0.24296143, 0.25373332, 0.23518912},
                                          {0.24213999, 0.25864585, 0.24825651, 0.25095765}},
                                         DType::f64);
  CHECK(difference(output, expected_output) < 5.1e-9);
  CHECK(difference(weights, expected_weights) < 5.1e-9);
}

TEST_CASE("SelfAttention: weights are [embed_dim, head_dim], normal with deviation 0.1, drawn in order") {
  Generator generator(4), again(4);
  const SelfAttention attention(128, 96, {}, generator);
  CHECK(names(attention.parameters()) == std::vector<std::string>{"W_q", "W_k", "W_v"});
  for (const Tensor& weight : {Tensor(attention.W_q), Tensor(attention.W_k), Tensor(attention.W_v)}) {
    CHECK(weight.shape() == Shape{128, 96});
    CHECK(same_values(weight, randn({128, 96}, DType::f32, again) * 0.1));
    CHECK(mean(weight * weight).item() == doctest::Approx(0.01).epsilon(5 * std::sqrt(2.0 / (128 * 96))));
  }
  CHECK_FALSE(attention.W_o.defined());
}

TEST_CASE("SelfAttention: a batch gives what its sequences give alone") {
  const Example example;
  const Tensor batch = drawn({2, 3, 4, 8});
  const auto [output, weights] = example.attention(batch);
  CHECK(output.shape() == Shape{2, 3, 4, 8});
  CHECK(weights.shape() == Shape{2, 3, 4, 4});
  for (Index i = 0; i < 2; ++i) {
    for (Index j = 0; j < 3; ++j) {
      const auto alone = example.attention(select(select(batch, 0, i), 0, j));
      CHECK(difference(select(select(output, 0, i), 0, j), alone.output) < 1e-14);
      CHECK(difference(select(select(weights, 0, i), 0, j), alone.weights) < 1e-14);
    }
  }
}

TEST_CASE("SelfAttention: gradients reach the three weights and the input") {
  Example example;
  example.x.requires_grad_();
  const auto [output, weights] = example.attention(example.x);
  sum(output * output).backward();
  for (const NamedTensor& parameter : example.attention.parameters()) {
    CAPTURE(parameter.name);
    REQUIRE(parameter.tensor.grad().defined());
    CHECK(max(abs(parameter.tensor.grad())).item() > 1e-3);
  }
  REQUIRE(example.x.grad().defined());
  CHECK(max(abs(example.x.grad())).item() > 1e-3);
}

TEST_CASE("SelfAttention: a mask blocks keys") {
  const Example example;
  const auto [output, weights] = example.attention(example.x, Mask::causal());
  CHECK(same_values(weights, tril(weights)));
  CHECK(weights.at({0, 0}) == 1);
  CHECK(difference(select(output, 0, 0), select(matmul(example.x, example.attention.W_v), 0, 0)) < 1e-15);
}

TEST_CASE("SelfAttention: heads are attentions side by side, put together by W_o") {
  const Index embed_dim = 6, head_dim = 4, heads = 3;
  const SelfAttention attention = with_heads(embed_dim, head_dim, heads);
  CHECK(attention.W_q.shape() == Shape{6, 12});
  CHECK(attention.W_o.shape() == Shape{12, 6});
  CHECK(names(attention.parameters()) == std::vector<std::string>{"W_q", "W_k", "W_v", "W_o"});

  const Tensor x = drawn({2, 5, 6});
  const auto [output, weights] = attention(x);
  CHECK(output.shape() == Shape{2, 5, 6});
  CHECK(weights.shape() == Shape{2, 3, 5, 5});

  std::vector<Tensor> outputs;
  for (Index head = 0; head < heads; ++head) {
    const Slice columns{.start = head * head_dim, .stop = (head + 1) * head_dim};
    SelfAttention one(embed_dim, head_dim);
    one.to(DType::f64);
    one.W_q = slice(attention.W_q, 1, columns);
    one.W_k = slice(attention.W_k, 1, columns);
    one.W_v = slice(attention.W_v, 1, columns);
    const AttentionResult alone = one(x);
    CHECK(difference(select(weights, 1, head), alone.weights) < 1e-14);
    outputs.push_back(alone.output);
  }
  CHECK(difference(output, matmul(concat(outputs, -1), attention.W_o)) < 1e-14);
}

TEST_CASE("SelfAttention: one head with W_o is not the documents' form without") {
  const SelfAttention attention = with_heads(6, 4, 1);
  const auto [output, weights] = attention(drawn({5, 6}));
  CHECK(output.shape() == Shape{5, 6});
  CHECK(weights.shape() == Shape{1, 5, 5});
}

TEST_CASE("SelfAttention: without weights the output is the same") {
  Example example;
  const auto with = example.attention(example.x);
  example.attention.need_weights = false;
  const auto without = example.attention(example.x);
  CHECK_FALSE(without.weights.defined());
  CHECK(difference(with.output, without.output) < 1e-14);
}

TEST_CASE("SelfAttention: another input is an error that names the parameter") {
  struct Model : Module {
    SelfAttention attention{8, 8};
    void members(Members& m) override { m("attention", attention); }
  } model;
  CHECK_THROWS_AS(model.attention(ones({4, 7})), ShapeError);
  CHECK_THROWS_AS(model.attention(ones({8})), ShapeError);
  CHECK_THROWS_AS(model.attention(ones({4, 8}, DType::f64)), DTypeError);
  (void)model.parameters();
  CHECK_THROWS_WITH_AS(model.attention(ones({4, 7})),
                       "self_attention: x [4, 7] does not fit attention.W_q [8, 8]; x must be [..., T, 8]", ShapeError);
}
