// SPDX-License-Identifier: MIT
// A whole model against another program: two blocks of a transformer, trained on batches that differ.
#include <doctest/doctest.h>
#include <tapehead/tapehead.h>

#include <cmath>
#include <vector>

#include "layers/transformer_reference.h"

using namespace tapehead;

namespace {

constexpr reference::Sizes kSizes = {
    .batch = 3, .time = 9, .vocabulary = 13, .width = 12, .heads = 3, .head_width = 5, .hidden = 40, .blocks = 2};
constexpr Index kWidth = kSizes.width, kHidden = kSizes.hidden;

struct Block : Module {
  LayerNorm norm1{kWidth}, norm2{kWidth};
  SelfAttention attention{kWidth, kSizes.head_width, {.heads = kSizes.heads, .need_weights = false}};
  Linear up{kWidth, kHidden}, down{kHidden, kWidth};

  Tensor operator()(const Tensor& x) const {
    const Tensor y = x + attention(norm1(x), Mask::causal()).output;
    return y + down(gelu(up(norm2(y))));
  }
  void members(Members& m) override {
    m("norm1", norm1), m("norm2", norm2), m("attention", attention), m("up", up), m("down", down);
  }
};

struct Model : Module {
  Embedding token{kSizes.vocabulary, kWidth}, position{kSizes.time, kWidth};
  std::vector<Block> blocks = std::vector<Block>(kSizes.blocks);
  LayerNorm norm{kWidth};
  Linear head{kWidth, kSizes.vocabulary, {.bias = false}};

  Tensor operator()(const Tensor& ids) const {
    Tensor x = token(ids) + position(arange(ids.shape()[-1]));
    for (const Block& block : blocks) x = block(x);
    return head(norm(x));
  }
  void members(Members& m) override {
    m("token", token), m("position", position), m("blocks", blocks), m("norm", norm), m("head", head);
  }
};

Model model_of(const reference::Transformer& other, DType dtype) {
  Model model;
  model.to(dtype);
  std::vector<NamedTensor> state;
  for (const NamedTensor& parameter : model.parameters()) {
    const Tensor values = from_data(other.values.at(parameter.name), parameter.tensor.shape());
    state.push_back({parameter.name, to(values, dtype)});
  }
  CHECK(state.size() == other.values.size());
  model.load_state(state);
  return model;
}

// The largest distance of an element from the other program's; NaN counts as infinite.
double distance(const Tensor& ours, const reference::Numbers& other) {
  const Tensor wide = to(ours.detach(), DType::f64);
  const auto values = wide.read<double>();
  if (values.size() != other.size()) return INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < other.size(); ++i) {
    const double apart = std::abs(values[i] - other[i]);
    if (!(apart <= largest)) largest = std::isnan(apart) ? INFINITY : apart;
  }
  return largest;
}

std::vector<std::size_t> tokens(std::size_t step) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i <= kSizes.batch * kSizes.time; ++i) out.push_back((i * i + 5 * i * step + step) % 11);
  return out;  // two of the 13 tokens never occur
}

Tensor ids_of(const std::vector<std::size_t>& tokens) {
  const std::vector<Index> ids(tokens.begin(), tokens.end());
  return from_data(std::span<const Index>(ids), {kSizes.batch, kSizes.time});
}

}  // namespace

TEST_CASE("a transformer against an independent program: every gradient, 50 steps of AdamW") {
  const struct {
    DType dtype;
    double gradient, loss;
  } limits[] = {{DType::f64, 1e-9, 1e-10}, {DType::f32, 1e-5, 2e-5}};
  for (const auto& limit : limits) {
    CAPTURE(limit.dtype == DType::f32);
    reference::Transformer other(kSizes);
    Model model = model_of(other, limit.dtype);
    AdamW optimizer(model.parameters(), {.lr = 1e-2, .weight_decay = 0.1});
    double first = 0, last = 0;
    for (std::size_t step = 0; step < 50; ++step) {
      CAPTURE(step);
      std::vector<std::size_t> ids = tokens(step), targets = ids;
      ids.pop_back();
      targets.erase(targets.begin());
      const double expected = other.loss(ids, targets);
      const Tensor loss = cross_entropy(model(ids_of(ids)), ids_of(targets));
      CHECK(std::abs(loss.item() - expected) <= limit.loss);
      loss.backward();
      if (step == 0) {
        for (const NamedTensor& parameter : optimizer.parameters()) {
          CAPTURE(parameter.name);
          CHECK(distance(parameter.tensor.grad(), other.gradients.at(parameter.name)) <= limit.gradient);
        }
      }
      optimizer.step();
      other.step({.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1});
      (step == 0 ? first : last) = expected;
    }
    CHECK(last < 0.8 * first);  // otherwise the optimizers would hardly matter
  }
}
