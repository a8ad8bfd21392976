// SPDX-License-Identifier: MIT
// Expected figures are those of PyTorch 2.15's nn.MultiheadAttention(4, 2, batch_first=True) in f64 on the same weights
// and inputs.
#include <doctest/doctest.h>

#include <cmath>

#include "layers/filled.h"

using namespace tapehead;

namespace {

const std::vector<std::string> kNames = {"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"};

MultiHeadAttention example() { return filled(MultiHeadAttention(4, 2), kNames); }
Tensor input() { return wave({1, 3, 4}, 0.3); }
Tensor memory() { return wave({1, 2, 4}, 1.1); }
Tensor rows_of_four(std::initializer_list<double> values) { return reshape(tensor(values, DType::f64), {1, -1, 4}); }

MultiHeadAttention drawn(const MultiHeadAttentionOptions& options, Index width = 8, Index heads = 4) {
  Generator generator(3);
  MultiHeadAttention attention(width, heads, options, generator);
  attention.to(DType::f64);
  return attention;
}

}  // namespace

TEST_CASE("MultiHeadAttention: PyTorch's output and weights from its weights") {
  std::vector<Tensor> weights;
  const Tensor output = example()(input(), {.weights = &weights});
  CHECK(difference(output, rows_of_four({0.535940034396, -0.046100352355, 0.143844218586, 0.441689765469,  //
                                         0.524703650022, -0.053206217223, 0.142724960794, 0.446849470507,  //
                                         0.541941311467, -0.043457567337, 0.142438202839, 0.436602207327})) < 1e-11);
  REQUIRE(weights.size() == 1);
  const Tensor expected =
      tensor({0.322756081464, 0.348739600487, 0.328504318048, 0.307840325230, 0.359109722294, 0.333049952476,
              0.339432843269, 0.332578068903, 0.327989087829, 0.333477521989, 0.392527095697, 0.273995382314,
              0.334289737846, 0.317783875394, 0.347926386760, 0.331229993878, 0.421323876545, 0.247446129577},
             DType::f64);
  CHECK(difference(weights[0], reshape(expected, {1, 2, 3, 3})) < 1e-11);
}

TEST_CASE("MultiHeadAttention: PyTorch's output over another sequence, and causal") {
  CHECK(difference(example()(input(), memory(), memory()),
                   rows_of_four({0.513458002583, -0.025878167128, 0.201488484572, 0.521699140604,  //
                                 0.516368642892, -0.033287020252, 0.185695367638, 0.501647001273,  //
                                 0.509488753731, -0.024802619050, 0.207327891022, 0.530777123153})) < 1e-11);
  const Tensor causal = rows_of_four({0.524024590058, -0.055353842598, 0.139669740535, 0.443684694231,  //
                                      0.500750590830, -0.037106582025, 0.194671984860, 0.521075060016,  //
                                      0.541941311467, -0.043457567337, 0.142438202839, 0.436602207327});
  CHECK(difference(example()(input(), {.mask = Mask::causal()}), causal) < 1e-11);
  CHECK(difference(example()(input(), input(), input(), {.mask = Mask::causal()}), causal) < 1e-11);
}

TEST_CASE("MultiHeadAttention: starting values and names are PyTorch's") {
  Generator generator(1);
  const MultiHeadAttention attention(64, 8, {}, generator);
  CHECK(names(attention.parameters()) == kNames);
  CHECK(attention.in_proj_weight.shape() == Shape{192, 64});
  const double limit = std::sqrt(6.0 / (64 + 192));
  CHECK(max(abs(attention.in_proj_weight)).item() <= limit);
  CHECK(variance(attention.in_proj_weight).item() == doctest::Approx(limit * limit / 3).epsilon(0.03));
  CHECK(max(abs(attention.in_proj_bias)).item() == 0);
  CHECK(max(abs(attention.out_proj.bias)).item() == 0);
  CHECK(max(abs(attention.out_proj.weight)).item() <= 1.0 / 8);
  CHECK(MultiHeadAttention(4, 2, {.bias = false}).parameters().size() == 2);
}

TEST_CASE("MultiHeadAttention: gradients of every variant") {
  const Tensor x = wave({2, 3, 8}, 0.2), other = wave({2, 5, 8}, 0.9);
  const RotaryTable table = rotary_table(arange(3), 2, 10000, DType::f64);
  for (const Index kv_heads : {0, 1, 2}) {
    const MultiHeadAttention attention = drawn({.kv_heads = kv_heads, .bias = kv_heads != 1});
    CHECK(gradcheck(attention, {x}).passed());
    CHECK(gradcheck(attention, {x, other, other}).passed());
    const auto turned = [&](const std::vector<Tensor>& in) { return attention(in[0], {.rotary = &table}); };
    CHECK(gradcheck(turned, {x}).passed());
  }
  CHECK(gradcheck(drawn({.dropout = 0.4}), {x}).passed());
}

TEST_CASE("MultiHeadAttention: heads that share keys are heads with equal keys") {
  const MultiHeadAttention shared = drawn({.kv_heads = 2});
  MultiHeadAttention whole = drawn({});
  const Index size = 2, width = 8;
  const NoGrad off;
  std::vector<Tensor> rows = {slice(shared.in_proj_weight, 0, {.stop = width})};
  std::vector<Tensor> biases = {slice(shared.in_proj_bias, 0, {.stop = width})};
  for (const Index part : {0, 1}) {
    for (const Index head : {0, 0, 1, 1}) {
      const Slice own{.start = width + (2 * part + head) * size, .stop = width + (2 * part + head + 1) * size};
      rows.push_back(slice(shared.in_proj_weight, 0, own));
      biases.push_back(slice(shared.in_proj_bias, 0, own));
    }
  }
  whole.in_proj_weight = concat(rows);
  whole.in_proj_bias = concat(biases);
  whole.out_proj = shared.out_proj;
  const Tensor x = wave({2, 5, 8}, 0.4);
  CHECK(difference(shared(x), whole(x)) < 1e-14);
}

TEST_CASE("MultiHeadAttention: a cache gives what the whole sequence gives") {
  const Tensor x = wave({2, 7, 8}, 0.5);
  const RotaryTable table = rotary_table(arange(7), 2, 10000, DType::f64);
  for (const bool turn : {false, true}) {
    const MultiHeadAttention attention = drawn({.kv_heads = 2});
    const NoGrad off;
    const Tensor whole = attention(x, {.mask = Mask::causal(), .rotary = turn ? &table : nullptr});
    KeyValueCache cache = attention.make_cache(2, 9);
    std::vector<Tensor> parts;
    for (const auto& [from, to] : std::vector<std::array<Index, 2>>{{0, 3}, {3, 4}, {4, 7}}) {
      const Slice range{.start = from, .stop = to};
      const RotaryTable here{slice(table.cos, 0, range), slice(table.sin, 0, range)};
      parts.push_back(attention(slice(x, 1, range), {.rotary = turn ? &here : nullptr, .cache = &cache}));
    }
    CHECK(cache.length == 7);
    CHECK(difference(concat(parts, 1), whole) < 1e-14);
  }
}

TEST_CASE("MultiHeadAttention: errors say what to do") {
  CHECK_THROWS_WITH_AS(MultiHeadAttention(10, 4), "MultiHeadAttention: 4 heads do not divide embed_dim 10", ValueError);
  CHECK_THROWS_WITH_AS(MultiHeadAttention(8, 4, {.kv_heads = 3}),
                       "MultiHeadAttention: 4 heads cannot share 3 heads of key and value evenly", ValueError);
  CHECK_THROWS_AS(MultiHeadAttention(8, 0), ValueError);
  CHECK_THROWS_AS(MultiHeadAttention(8, 2, {.kv_heads = -1}), ValueError);
  CHECK_THROWS_AS(MultiHeadAttention(8, 2, {.dropout = 1}), ValueError);
  const MultiHeadAttention attention = drawn({});
  CHECK_THROWS_WITH_AS(attention(zeros({2, 3, 5}, DType::f64)),
                       "MultiHeadAttention: x [2, 3, 5] does not fit in_proj_weight [24, 8]; it must be [..., T, 8]",
                       ShapeError);
  KeyValueCache cache = attention.make_cache(2, 4);
  CHECK_THROWS_AS(attention(zeros({2, 3, 8}, DType::f64), {.cache = &cache}), GraphError);
  const NoGrad off;
  CHECK_THROWS_WITH_AS(attention(zeros({3, 3, 8}, DType::f64), {.cache = &cache}),
                       "MultiHeadAttention: keys f64 [3, 3, 8] do not fit the cache f64 [2, 4, 8]; make a cache for "
                       "this batch and model",
                       ShapeError);
  CHECK(cache.length == 0);
  attention(zeros({2, 3, 8}, DType::f64), {.cache = &cache});
  CHECK_THROWS_WITH_AS(attention(zeros({2, 2, 8}, DType::f64), {.cache = &cache}),
                       "MultiHeadAttention: the cache holds 3 of 4 positions, 2 more do not fit; make it longer or set "
                       "its length to 0",
                       ValueError);
  KeyValueCache none;
  CHECK_THROWS_AS(attention(zeros({2, 3, 8}, DType::f64), {.cache = &none}), StateError);
  const Tensor x = zeros({2, 3, 8}, DType::f64);
  CHECK_THROWS_AS(attention(x, x, x, {.cache = &cache}), ValueError);
}
