// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <tapehead/tapehead.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "layers/same.h"

using namespace tapehead;

namespace {

struct Block : Module {
  Linear first, second;
  explicit Block(Index width) : first(width, width), second(width, width, {.bias = false}) {}
  Tensor operator()(const Tensor& x) const { return x + second(relu(first(x))); }
  void members(Members& m) override { m("first", first), m("second", second); }
};

struct Model : Module {
  std::vector<Block> blocks;
  Dropout dropout{0.1};
  Linear head{4, 2};
  Model() {
    for (int i = 0; i < 2; ++i) blocks.emplace_back(4);
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = x;
    for (const Block& block : blocks) y = block(y);
    return head(dropout(y));
  }
  void members(Members& m) override { m("blocks", blocks), m("dropout", dropout), m("head", head); }
};

Model make_model() {
  Model model;
  return model;
}

bool same_leaves(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same_leaf(a[i].tensor, b[i].tensor)) return false;
  }
  return a.size() == b.size();
}

bool same_weights(const Module& a, const Module& b) {
  const auto left = a.parameters(), right = b.parameters();
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!same_values(left[i].tensor, right[i].tensor)) return false;
  }
  return left.size() == right.size();
}

void train_step(const Model& model, Optimizer& optimizer) {
  const Tensor y = model(ones({3, 4}));
  sum(y * y).backward();
  optimizer.step();
}

}  // namespace

TEST_CASE("module: parameters come in the order of members() with dotted names") {
  const Model model;
  const std::vector<std::string> expected{"blocks.0.first.weight",
                                          "blocks.0.first.bias",
                                          "blocks.0.second.weight",
                                          "blocks.1.first.weight",
                                          "blocks.1.first.bias",
                                          "blocks.1.second.weight",
                                          "head.weight",
                                          "head.bias"};
  CHECK(names(model.parameters()) == expected);
  CHECK(model.parameter_count() == 2 * (16 + 4 + 16) + 8 + 2);
  CHECK(same_leaf(model.parameters()[6].tensor, model.head.weight));
  CHECK(Module().parameters().empty());
}

TEST_CASE("module: listing names the leaves for messages and the tape") {
  const Model model;
  CHECK(model.head.weight.name().empty());
  (void)model.parameters();
  CHECK(model.head.weight.name() == "head.weight");
  CHECK(model.blocks[1].second.weight.name() == "blocks.1.second.weight");
  const std::string table = tape_table(model(ones({1, 4})));
  CHECK(table.find("blocks.0.first.bias") != std::string::npos);
}

TEST_CASE("module: nothing is cached") {
  Model model;
  (void)model.parameters();
  model.head.weight = Parameter(zeros({2, 4}));
  CHECK(same_leaf(model.parameters()[6].tensor, model.head.weight));
  model.blocks.emplace_back(4);
  CHECK(model.parameters().size() == 11);
}

TEST_CASE("module: a copy is a snapshot, and assigning it back writes into the leaves that are trained") {
  Model model;
  SGD optimizer(model.parameters(), {.lr = 0.1});
  const auto best = model;
  CHECK(same_weights(best, model));
  CHECK_FALSE(same_leaf(best.head.weight, model.head.weight));
  train_step(model, optimizer);
  CHECK_FALSE(same_weights(best, model));

  model = best;
  CHECK(same_weights(best, model));
  CHECK(same_leaves(optimizer.parameters(), model.parameters()));
  train_step(model, optimizer);
  CHECK_FALSE(same_weights(best, model));
}

TEST_CASE("module: moving keeps the leaves, so an optimizer follows") {
  static_assert(std::is_nothrow_move_constructible_v<Block>);
  Model first = make_model();
  const auto before = first.parameters();
  SGD optimizer(before, {.lr = 0.1});
  const Model second = std::move(first);
  CHECK(same_leaves(before, second.parameters()));
  const Model untouched = second;
  train_step(second, optimizer);
  CHECK_FALSE(same_weights(untouched, second));
}

TEST_CASE("module: a vector of modules grows without changing leaves") {
  std::vector<Block> blocks;
  blocks.emplace_back(2);
  const Tensor weight = blocks[0].first.weight;
  for (int i = 0; i < 20; ++i) blocks.emplace_back(2);
  CHECK(same_leaf(blocks[0].first.weight, weight));

  const std::vector<Block> copies(3, blocks[0]);
  CHECK(same_values(copies[0].first.weight, copies[2].first.weight));
  CHECK_FALSE(same_leaf(copies[0].first.weight, copies[2].first.weight));
}

TEST_CASE("module: names given twice and parameters listed twice are errors") {
  struct SameName : Module {
    Parameter a{ones({1})}, b{ones({1})};
    void members(Members& m) override { m("weight", a), m("weight", b); }
  };
  CHECK_THROWS_WITH_AS(SameName().parameters(), "parameters: two members are called weight; give each its own name",
                       StateError);
  struct Twice : Module {
    Linear head{2, 2};
    void members(Members& m) override { m("head", head), m("weight", head.weight); }
  };
  CHECK_THROWS_WITH_AS(Twice().parameters(),
                       "parameters: head.weight and weight are one parameter; list it once and use it twice",
                       StateError);
}

TEST_CASE("module: train and eval reach every layer inside") {
  Model model;
  CHECK(model.dropout.training);
  model.eval();
  CHECK_FALSE(model.training);
  CHECK_FALSE(model.dropout.training);
  CHECK_FALSE(model.blocks[1].second.training);
  CHECK_FALSE(Model(model).dropout.training);
  model.train();
  CHECK(model.training);
  CHECK(model.dropout.training);
  CHECK(model.blocks[1].second.training);
}

TEST_CASE("module: to() changes the element type of all parameters and keeps values, names and wishes") {
  Model model;
  model.head.bias.requires_grad_(false);
  (void)model.parameters();
  const Model before = model;
  model.to(DType::f64);
  for (const NamedTensor& parameter : model.parameters()) CHECK(parameter.tensor.dtype() == DType::f64);
  CHECK(model.head.weight.name() == "head.weight");
  CHECK(model.head.weight.requires_grad());
  CHECK(model.head.weight.is_leaf());
  CHECK_FALSE(model.head.bias.requires_grad());
  CHECK(same_values(to(model.head.weight.detach(), DType::f32), before.head.weight));
  CHECK(model(ones({1, 4}, DType::f64)).dtype() == DType::f64);
  CHECK_THROWS_AS(model.to(DType::i64), DTypeError);

  const Tensor leaf = model.head.weight;
  model.to(DType::f64);
  CHECK(same_leaf(model.head.weight, leaf));
}

TEST_CASE("module: load_state writes by name, in any order, into the leaves that are there") {
  Model source, target;
  CHECK_FALSE(same_weights(source, target));
  auto state = source.parameters();
  std::swap(state.front(), state.back());
  const auto leaves_before = target.parameters();
  target.load_state(state);
  CHECK(same_weights(source, target));
  CHECK(same_leaves(leaves_before, target.parameters()));
  target.load_state(target.parameters());
  CHECK(same_weights(source, target));
}

TEST_CASE("module: load_state lists everything that does not fit and changes nothing") {
  Model model;
  const Model before = model;
  auto state = Model().parameters();
  state.erase(state.begin());
  state[0].tensor = zeros({5});
  state[1].tensor = zeros({4, 4}, DType::f64);
  state.push_back({"head.scale", zeros({2})});
  state.push_back({"head.bias", zeros({2})});
  CHECK_THROWS_WITH_AS(
      model.load_state(state),
      "load_state: the state belongs to something else; nothing was loaded; names, shapes and types must agree\n"
      "  twice        head.bias\n"
      "  missing      blocks.0.first.weight [4, 4]\n"
      "  other shape  blocks.0.first.bias: here it is [4], in the state [5]\n"
      "  other type   blocks.0.second.weight: here it is f32, in the state f64\n"
      "  unexpected   head.scale [2]",
      StateError);
  CHECK(same_weights(before, model));
}
