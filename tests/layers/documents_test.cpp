// SPDX-License-Identifier: MIT
// What the documents behind this project say of layers, item by item; their figures are in self_attention_test.cpp.
#include <doctest/doctest.h>
#include <tapehead/tapehead.h>

#include <cmath>

#include "layers/same.h"

using namespace tapehead;

TEST_CASE("documents: S1-1: SelfAttention(embed_dim, head_dim) has three weights without bias, normal times 0.1") {
  Generator generator(2);
  SelfAttention attention(64, 48, {}, generator);
  const auto parameters = attention.parameters();
  CHECK(names(parameters) == std::vector<std::string>{"W_q", "W_k", "W_v"});
  for (const NamedTensor& parameter : parameters) {
    CHECK(parameter.tensor.shape() == Shape{64, 48});
    CHECK(std::sqrt(mean(parameter.tensor * parameter.tensor).item()) == doctest::Approx(0.1).epsilon(0.05));
  }
}

TEST_CASE("documents: S1-6: batched input, and several heads") {
  Generator generator(2);
  SelfAttention one(8, 4, {}, generator), many(8, 4, {.heads = 3}, generator);
  for (const Shape& shape : {Shape{5, 8}, Shape{2, 5, 8}, Shape{3, 2, 5, 8}}) {
    const Tensor x = ones(shape);
    CHECK(one(x).output.shape() == shape.with(-1, 4));
    CHECK(many(x).output.shape() == shape);
    CHECK(many(x).weights.shape() == shape.with(-1, 5).inserted(shape.rank() - 2, 3));
  }
}

TEST_CASE("documents: S4-7: heads have projections of Q, K and V that are learned apart") {
  Generator generator(2);
  SelfAttention attention(6, 2, {.heads = 3}, generator);
  const Tensor x = randn({5, 6}, DType::f32, generator);
  // Only the second head is asked for: the others' columns get no gradient.
  sum(select(attention(x).weights, -3, 1) * randn({5, 5}, DType::f32, generator)).backward();
  for (const Tensor& weight : {Tensor(attention.W_q), Tensor(attention.W_k)}) {
    CHECK(max(abs(slice(weight.grad(), 1, {.start = 2, .stop = 4}))).item() > 0);
    CHECK(max(abs(slice(weight.grad(), 1, {.stop = 2}))).item() == 0);
    CHECK(max(abs(slice(weight.grad(), 1, {.start = 4}))).item() == 0);
  }
}

TEST_CASE("documents: S4-6: in \"I have a cat and i love her\" a trained attention looks from \"her\" to \"cat\"") {
  // i 0, have 1, a 2, cat 3, and 4, love 5, her 6: the answer at "her" is the animal that was named before it.
  constexpr Index kAnimals = 4, kWords = 6 + kAnimals, kWidth = 16;
  manual_seed(3);
  struct Reader : Module {
    Embedding words{kWords, kWidth};
    SelfAttention attention{kWidth, kWidth};
    Linear answer{kWidth, kAnimals};
    void members(Members& m) override {
      m("words", words);
      m("attention", attention);
      m("answer", answer);
    }
  } reader;
  const auto sentence = [](Index animal) {
    const Index words[] = {0, 1, 2, 6 + animal, 3, 0, 4, 5};
    return from_data(std::span<const Index>(words), {8});
  };
  Adam adam(reader.parameters(), {.lr = 0.02});
  Tensor batch = stack({sentence(0), sentence(1), sentence(2), sentence(3)});
  for (int step = 0; step < 150; ++step) {
    const Tensor mixed = reader.attention(reader.words(batch)).output;
    cross_entropy(reader.answer(select(mixed, 1, 7)), arange(kAnimals)).backward();
    adam.step();
  }
  for (Index animal = 0; animal < kAnimals; ++animal) {
    const AttentionResult read = reader.attention(reader.words(sentence(animal)));
    CHECK(argmax(select(read.weights, 0, 7)).at({}) == 3);
    CHECK(argmax(reader.answer(select(read.output, 0, 7))).at({}) == static_cast<double>(animal));
  }
}
