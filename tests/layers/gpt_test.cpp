// SPDX-License-Identifier: MIT
// Figures are PyTorch 2.15's, from nanoGPT's model written in it (a vocabulary of 7, context 6, 2 layers, 2 heads,
// width 4) in f64, on weights that layers/filled.h makes.
#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "layers/filled.h"

using namespace tapehead;

namespace {

GPTOptions tiny(bool bias, Positions positions = Positions::learned) {
  return {.vocabulary = 7, .context = 6, .layers = 2, .heads = 2, .width = 4, .bias = bias, .positions = positions};
}

// In the order of PyTorch's model.
std::vector<std::string> parameter_names(bool bias) {
  std::vector<std::string> all = {"token_embedding.weight", "position_embedding.weight"};
  const auto add = [&](const std::string& layer, const std::string& weight, const std::string& bias_name) {
    all.push_back(layer + weight);
    if (bias) all.push_back(layer + bias_name);
  };
  for (const std::string block : {"blocks.0.", "blocks.1."}) {
    add(block, "norm1.weight", "norm1.bias");
    add(block, "norm2.weight", "norm2.bias");
    add(block, "self_attn.in_proj_weight", "self_attn.in_proj_bias");
    add(block, "self_attn.out_proj.weight", "self_attn.out_proj.bias");
    add(block, "linear1.weight", "linear1.bias");
    add(block, "linear2.weight", "linear2.bias");
  }
  add("norm.", "weight", "bias");
  return all;
}

GPT example(bool bias) { return filled(GPT(tiny(bias)), parameter_names(bias)); }
Tensor ids() { return tensor({{3, 1, 4, 1, 5}}, DType::i64); }

struct Step {
  double loss, norm;
};

// Five steps of AdamW on one batch, as nanoGPT trains: decay on matrices only, gradients clipped at 1.
void check_steps(bool bias, const std::array<Step, 5>& expected) {
  GPT model = example(bias);
  AdamW optimizer(decay_groups(model.parameters(), 0.1), {.lr = 1e-2, .beta2 = 0.99});
  for (const Step& step : expected) {
    const Tensor loss = cross_entropy(model(ids()), tensor({{1, 4, 1, 5, 2}}, DType::i64));
    loss.backward();
    CHECK(std::abs(loss.item() - step.loss) < 1e-11);
    CHECK(std::abs(clip_grad_norm(optimizer.parameters(), 1.0) - step.norm) < 1e-11);
    optimizer.step();
  }
}

}  // namespace

TEST_CASE("GPT: logits, losses and gradient norms of five steps are PyTorch's") {
  const auto last = [](bool bias) { return select(select(example(bias)(ids()), 0, 0), 0, -1); };
  CHECK(difference(last(false), tensor({-0.059347163846, -0.076051876323, -0.072891456977, -0.050691423204,
                                        -0.015250535255, 0.024173869050, 0.057283937423},
                                       DType::f64)) < 1e-11);
  CHECK(difference(last(true), tensor({0.258942946435, 0.008519764017, -0.244128823526, -0.433009737008,
                                       -0.508786333778, -0.451665386413, -0.276567173073},
                                      DType::f64)) < 1e-11);
  check_steps(false, {{{1.961893756745, 0.315686068160},
                       {1.943304623277, 0.300397673142},
                       {1.924994674923, 0.302642790619},
                       {1.905769741654, 0.317101483854},
                       {1.884917849518, 0.341885858929}}});
  check_steps(true, {{{1.981640528315, 0.419889718735},
                      {1.956860744108, 0.389153980546},
                      {1.933918392469, 0.365830914316},
                      {1.912021533633, 0.351265894253},
                      {1.890841598073, 0.344805880259}}});
}

TEST_CASE("GPT: gradients with every kind of positions") {
  for (const Positions positions :
       {Positions::learned, Positions::sinusoidal, Positions::rotary, Positions::alibi, Positions::none}) {
    Generator generator(2);
    GPTOptions options = tiny(positions != Positions::rotary, positions);
    options.activation = positions == Positions::rotary ? Activation::swiglu : Activation::gelu_tanh;
    options.norm = positions == Positions::rotary ? NormKind::rms_norm : NormKind::layer_norm;
    options.kv_heads = positions == Positions::rotary ? 1 : 0;
    GPT model(options, generator);
    model.to(DType::f64);
    CHECK(gradcheck(model, {tensor({{3, 1, 4}, {0, 6, 2}}, DType::i64)}).passed());
    CHECK(orphans(sum(model(ids())), model).empty());
  }
}

TEST_CASE("GPT: logits from a cache are those of the whole text, to the bit") {
  const NoGrad off;
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Positions positions :
         {Positions::learned, Positions::sinusoidal, Positions::rotary, Positions::alibi, Positions::none}) {
      Generator generator(2);
      GPT model({.vocabulary = 65,
                 .context = 70,
                 .layers = 2,
                 .heads = 4,
                 .width = 64,
                 .kv_heads = 2,
                 .positions = positions},
                generator);
      model.to(dtype);
      const Tensor text = randint(0, 65, {2, 70}, generator);
      const Tensor whole = model(text);
      GPTCache cache = model.make_cache(2);
      std::vector<Tensor> parts = {model(slice(text, 1, {.stop = 3}), &cache)};
      for (Index i = 3; i < 70; ++i) parts.push_back(model(slice(text, 1, {.start = i, .stop = i + 1}), &cache));
      CHECK(same_values(concat(parts, 1), whole));
      CHECK(cache.length() == 70);
    }
  }
}

TEST_CASE("GPT: checkpointed blocks give the same gradients from less memory") {
  for (const Positions positions : {Positions::learned, Positions::rotary, Positions::alibi}) {
    GPTOptions options{.vocabulary = 20, .context = 32, .layers = 6, .heads = 2, .width = 32, .dropout = 0.1};
    options.positions = positions;
    std::vector<Tensor> gradients[2];
    std::size_t kept[2];
    for (const bool checkpointed : {false, true}) {
      options.checkpoint_blocks = checkpointed;
      Generator generator(3);
      const GPT model(options, generator);
      const Tensor text = randint(0, 20, {8, 32}, generator);
      manual_seed(4);
      const std::size_t before = live_bytes();
      const Tensor loss = cross_entropy(model(text), text);
      kept[checkpointed] = live_bytes() - before;
      loss.backward();
      for (const NamedTensor& parameter : model.parameters()) {
        gradients[checkpointed].push_back(parameter.tensor.grad());
      }
    }
    CHECK(kept[1] < kept[0] / 3);
    for (std::size_t i = 0; i < gradients[0].size(); ++i) {
      CHECK(difference(gradients[0][i], gradients[1][i]) < 1e-7);
    }
  }
}

TEST_CASE("GPT: starts as GPT-2 does") {
  Generator generator(3);
  const GPT model({.vocabulary = 200, .context = 100, .layers = 2, .heads = 4, .width = 64}, generator);
  for (const auto& [name, parameter] : model.parameters()) {
    const Tensor w = parameter;
    if (w.rank() > 1) {
      const bool ends_branch = name.ends_with("out_proj.weight") || name.ends_with("linear2.weight");
      CHECK(standard_deviation(w).item() == doctest::Approx(ends_branch ? 0.01 : 0.02).epsilon(0.05));
    } else {
      CHECK(max(abs(w - (name.ends_with("bias") ? 0.0 : 1.0))).item() == 0);
    }
  }
  std::vector<Tensor> weights;
  model(randint(0, 200, {3, 10}, generator), weights);
  REQUIRE(weights.size() == 2);
  CHECK(weights[0].shape() == Shape{3, 4, 10, 10});
}

TEST_CASE("GPT: errors name the value and the limit") {
  CHECK_THROWS_WITH_AS(GPT({.vocabulary = 0, .context = 6, .layers = 1, .heads = 1, .width = 4}),
                       "GPT: vocabulary must be at least 1, is 0", ValueError);
  CHECK_THROWS_AS(GPT({.vocabulary = 7, .context = 6, .layers = 1, .heads = 3, .width = 4}), ValueError);
  CHECK_THROWS_WITH_AS(
      GPT({.vocabulary = 7, .context = 6, .layers = 1, .heads = 2, .width = 6, .positions = Positions::rotary}),
      "GPT: rotary positions turn pairs, but 2 heads of width 6 have the odd size 3", ValueError);
  const GPT model = example(true);
  CHECK_THROWS_WITH_AS(model(zeros({1, 7}, DType::i64)),
                       "GPT: 7 positions do not fit the context of 6; shorten the input or make the model with a "
                       "longer context",
                       ValueError);
  CHECK_THROWS_AS(model(full({1, 1}, 7, DType::i64)), IndexError);
  CHECK_THROWS_AS(model(tensor(1, DType::i64)), ShapeError);
  const NoGrad off;
  GPTCache cache = model.make_cache(1);
  model(ids(), &cache);
  CHECK_THROWS_WITH_AS(model(zeros({1, 2}, DType::i64), &cache),
                       "GPT: 7 positions, 5 of them in the cache, do not fit the context of 6; shorten the input or "
                       "make the model with a longer context",
                       ValueError);
  cache.clear();
  CHECK_THROWS_AS(model(zeros({2, 2}, DType::i64), &cache), ShapeError);
}
