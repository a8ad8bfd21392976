// SPDX-License-Identifier: MIT
// Bad calls of layers: the exception names the place in the model, and a valid step afterwards gives the bits that it
// would have given without. The classes are those of core/bad_calls.h.
#include <doctest/doctest.h>
#include <tapehead/tapehead.h>

#include <functional>
#include <string>
#include <typeinfo>
#include <vector>

#include "layers/same.h"

using namespace tapehead;

namespace {

// A reader of eight tokens in the middle of training.
struct Reader : Module {
  Generator generator{7};
  Embedding words{9, 8, generator};
  PositionEmbedding positions{8, 8, generator};
  MultiHeadAttention attention{8, 2, {}, generator};
  LayerNorm norm{8};
  Linear head{8, 9, {}, generator};
  void members(Members& m) override {
    m("words", words);
    m("positions", positions);
    m("attention", attention);
    m("norm", norm);
    m("head", head);
  }
  Tensor operator()(const Tensor& ids) const {
    const Tensor x = positions(words(ids));
    return head(norm(x + attention(x)));
  }
};

struct Training {
  Reader reader;
  Adam adam{reader.parameters(), {.lr = 0.01}};
  Tensor ids = reshape(arange(8), {2, 4});

  Training() { step(); }
  void step() {
    cross_entropy(reader(ids), ids).backward();
    adam.step();
  }
};

struct BadCall {
  int number;
  const std::type_info* type;
  std::vector<std::string> parts;
  std::function<void(Training&)> call;
};

void check_all(const std::vector<BadCall>& calls) {
  Training expected;
  expected.step();
  for (const BadCall& bad : calls) {
    CAPTURE(bad.number);
    INFO(bad.parts[0]);
    Training training;
    const std::int64_t nodes = live_nodes();
    bool thrown = false;
    try {
      bad.call(training);
    } catch (const Error& error) {
      thrown = true;
      const std::string text = error.what();
      INFO(text);
      CHECK(typeid(error) == *bad.type);
      for (const std::string& part : bad.parts)
        CHECK_MESSAGE(text.find(part) != std::string::npos, part, " is missing");
    }
    CHECK(thrown);
    CHECK(live_nodes() == nodes);
    training.step();
    const auto before = expected.reader.parameters(), after = training.reader.parameters();
    for (std::size_t i = 0; i < before.size(); ++i) CHECK(same_values(before[i].tensor, after[i].tensor));
  }
}

Tensor x_of(Index width) { return ones({2, 4, width}); }

}  // namespace

TEST_CASE("bad calls of layers: inputs that do not fit, at their place in the model") {
  check_all({
      {5,
       &typeid(ShapeError),
       {"head.weight", "[2, 4, 7]", "[9, 8]", "7", "8"},
       [](Training& t) { t.reader.head(x_of(7)); }},
      {5, &typeid(ShapeError), {"head.weight", "[9]", "[9, 8]"}, [](Training& t) { t.reader.head(ones({9})); }},
      {5, &typeid(ShapeError), {"norm.weight", "[2, 4, 6]", "[8]"}, [](Training& t) { t.reader.norm(x_of(6)); }},
      {5, &typeid(ShapeError), {"attention.", "[2, 4, 7]", "8"}, [](Training& t) { t.reader.attention(x_of(7)); }},
      {6,
       &typeid(DTypeError),
       {"f32", "f64"},
       [](Training& t) {
         t.reader.head(ones({2, 8}, DType::f64));
       }},
      {7, &typeid(DTypeError), {"embedding", "i64", "f32"}, [](Training& t) { t.reader.words(ones({2})); }},
      {14,
       &typeid(ShapeError),
       {"mask", "[3, 4]", "[2, 2, 4, 4]"},
       [](Training& t) {
         t.reader.attention(x_of(8), {.mask = Mask::keep(ones({3, 4}, DType::boolean))});
       }},
      {19,
       &typeid(IndexError),
       {"embedding", "9"},
       [](Training& t) {
         t.reader(full({1, 2}, 9, DType::i64));
       }},
      {18,
       &typeid(ValueError),
       {"positions.weight", "0 to 8", "has 8"},
       [](Training& t) {
         t.reader(zeros({1, 9}, DType::i64));
       }},
      {18,
       &typeid(ValueError),
       {"positions.weight", "6 to 9", "has 8"},
       [](Training& t) { t.reader.positions(x_of(8), 6); }},
      {18,
       &typeid(ValueError),
       {"GPT", "7 positions", "context of 6"},
       [](Training&) {
         Generator generator(1);
         const GPT model({.vocabulary = 5, .context = 6, .layers = 1, .heads = 1, .width = 4}, generator);
         model(zeros({1, 7}, DType::i64));
       }},
  });
}

TEST_CASE("bad calls of layers: models that cannot be built") {
  check_all({
      {11, &typeid(ValueError), {"MultiHeadAttention", "3 heads", "8"}, [](Training&) { MultiHeadAttention(8, 3); }},
      {11, &typeid(ValueError), {"MultiHeadAttention", "heads", "0"}, [](Training&) { MultiHeadAttention(8, 0); }},
      {11,
       &typeid(ValueError),
       {"MultiHeadAttention", "4 heads", "3 heads"},
       [](Training&) { MultiHeadAttention(8, 4, {.kv_heads = 3}); }},
      {17, &typeid(ValueError), {"SelfAttention", "head_dim", "0"}, [](Training&) { SelfAttention(8, 0); }},
      {17, &typeid(ValueError), {"MultiHeadAttention", "embed_dim", "0"}, [](Training&) { MultiHeadAttention(0, 1); }},
      {17, &typeid(ValueError), {"SelfAttention", "heads", "0"}, [](Training&) { SelfAttention(8, 4, {.heads = 0}); }},
      {38, &typeid(ValueError), {"1"}, [](Training&) { Dropout(1.0); }},
  });
}
