// SPDX-License-Identifier: MIT
// Expected figures are PyTorch 2.15's, from nn.TransformerEncoderLayer(4, 2, 6, dropout=0) and so on in f64 on the same
// weights and inputs; its state_dict gave the names.
#include <doctest/doctest.h>

#include "layers/filled.h"

using namespace tapehead;

namespace {

using Strings = std::vector<std::string>;

Strings attention_names(const std::string& name) {
  return with_prefix(name + ".", {"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"});
}
const Strings kFeedForward = {"linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias"};
const Strings kTwoNorms = {"norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"};

Strings encoder_layer_names() { return joined(joined(attention_names("self_attn"), kFeedForward), kTwoNorms); }
Strings decoder_layer_names() {
  return joined(
      joined(joined(joined(attention_names("self_attn"), attention_names("multihead_attn")), kFeedForward), kTwoNorms),
      {"norm3.weight", "norm3.bias"});
}

TransformerOptions small(bool norm_first, Activation activation = Activation::relu) {
  return {.feedforward = 6, .dropout = 0, .activation = activation, .norm_first = norm_first};
}
Tensor input() { return wave({1, 3, 4}, 0.3); }
Tensor memory() { return wave({1, 2, 4}, 1.1); }
Tensor rows_of_four(std::initializer_list<double> values) { return reshape(tensor(values, DType::f64), {1, -1, 4}); }

template <class Model>
Model in_f64(Model model) {
  model.to(DType::f64);
  return model;
}

}  // namespace

TEST_CASE("TransformerEncoderLayer: PyTorch's output, norm after and before, relu and gelu") {
  const auto output = [](bool norm_first, Activation activation) {
    return filled(TransformerEncoderLayer(4, 2, small(norm_first, activation)), encoder_layer_names())(input());
  };
  CHECK(difference(output(false, Activation::relu),
                   rows_of_four({-0.029567136923, -0.582785413481, 0.376505602249, 0.278861990130,  //
                                 0.094349424101, -0.262646527528, 0.318716287844, -0.035911822635,  //
                                 -0.034405313135, -0.630345879651, 0.373801954579, 0.224596881090})) < 1e-11);
  CHECK(difference(output(false, Activation::gelu),
                   rows_of_four({-0.032141986139, -0.525917025487, 0.379328717720, 0.361546328799,  //
                                 0.090765517029, -0.254634984573, 0.333201846365, 0.068557968328,   //
                                 -0.034948513517, -0.572921755628, 0.378083359417, 0.311735174058})) < 1e-11);
  CHECK(difference(output(true, Activation::relu),
                   rows_of_four({1.019407758130, 1.159136854814, 0.930817930196, 0.986818321078,     //
                                 0.732478640167, -0.269735237523, -1.041049824366, -0.594182603964,  //
                                 0.364358448716, 0.609546951286, 0.803250698240, 1.300804671166})) < 1e-11);
  CHECK(difference(output(true, Activation::gelu),
                   rows_of_four({1.000811655722, 1.200714035220, 0.890019728859, 1.003522648429,     //
                                 0.743693622298, -0.251226208127, -1.078705534398, -0.558899272804,  //
                                 0.322221461664, 0.666958532423, 0.763373444422, 1.300358995427})) < 1e-11);
}

TEST_CASE("TransformerDecoderLayer: PyTorch's output, norm after and before") {
  const auto output = [](bool norm_first) {
    const auto layer = filled(TransformerDecoderLayer(4, 2, small(norm_first)), decoder_layer_names());
    return layer(input(), memory(), {.mask = Mask::causal()});
  };
  CHECK(difference(output(false), rows_of_four({0.150763554075, -0.402017048159, 0.446111478490, 0.730344578568,  //
                                                0.116820736396, -0.484395108380, 0.488032445398, 0.650341473860,  //
                                                0.141849811001, -0.405424839374, 0.445545791876, 0.730138200469})) <
        1e-11);
  CHECK(difference(output(true), rows_of_four({1.214295813723, 1.284936622320, 1.266096408897, 1.580426604243,    //
                                               0.977723308864, -0.151299412389, -0.754399853983, 0.087336329439,  //
                                               0.521375461175, 0.760076559681, 1.149154171938, 1.890349841242})) <
        1e-11);
}

TEST_CASE("Transformer: PyTorch's output and names, whole and with a padded source") {
  Strings all;
  for (const std::string layer : {"encoder.layers.0.", "encoder.layers.1."}) {
    all = joined(all, with_prefix(layer, encoder_layer_names()));
  }
  all = joined(all, {"encoder.norm.weight", "encoder.norm.bias"});
  all = joined(all, with_prefix("decoder.layers.0.", decoder_layer_names()));
  all = joined(all, {"decoder.norm.weight", "decoder.norm.bias"});
  const Transformer model = filled(Transformer(4, 2, 2, 1, small(false)), all);
  CHECK(difference(model(memory(), input()),
                   rows_of_four({0.663624256457, -0.245827812510, 0.321352676371, 0.526707222657,  //
                                 0.665923100207, -0.245244100335, 0.319214612371, 0.524284532568,  //
                                 0.653185145200, -0.301494583573, 0.397943426644, 0.511940957942})) < 1e-11);
  CHECK(difference(model(memory(), input(), Mask::lengths(tensor({1}, DType::i64))),
                   rows_of_four({0.663600642061, -0.245835077593, 0.321376442964, 0.526731652842,  //
                                 0.665890795499, -0.245254525501, 0.319248440092, 0.524318271187,  //
                                 0.653193184255, -0.301505319722, 0.397950446962, 0.511924993050})) < 1e-11);
}

TEST_CASE("Transformer layers: gradients of every variant") {
  const Tensor x = wave({2, 3, 4}, 0.2), other = wave({2, 2, 4}, 0.9);
  Generator generator(2);
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::swiglu}) {
    TransformerOptions options = small(activation == Activation::gelu, activation);
    options.norm = activation == Activation::swiglu ? NormKind::rms_norm : NormKind::layer_norm;
    options.bias = activation != Activation::swiglu;
    CHECK(gradcheck(in_f64(TransformerEncoderLayer(4, 2, options, generator)), {x}).passed());
    CHECK(gradcheck(in_f64(TransformerDecoderLayer(4, 2, options, generator)), {x, other}).passed());
  }
  TransformerOptions dropped = small(true);
  dropped.dropout = 0.3;
  CHECK(gradcheck(in_f64(Transformer(4, 2, 1, 1, dropped, generator)), {other, x}).passed());
}

TEST_CASE("FeedForward: swiglu is silu(gate) times the other product") {
  Generator generator(2);
  const FeedForward layer = in_f64(FeedForward(4, small(true, Activation::swiglu), generator));
  CHECK(names(layer.parameters()) ==
        Strings{"linear1.weight", "linear1.bias", "gate.weight", "gate.bias", "linear2.weight", "linear2.bias"});
  const Tensor x = wave({3, 4}, 0.2), gate = layer.gate->operator()(x);
  CHECK(difference(layer(x), layer.linear2(gate * sigmoid(gate) * layer.linear1(x))) < 1e-15);
}

TEST_CASE("Transformer layers: dropout only while training, and copies are copies") {
  Generator generator(4);
  TransformerEncoder model(2, 4, 2, {.feedforward = 6, .norm_first = true}, generator);
  const Tensor x = to(wave({2, 3, 4}, 0.2), DType::f32);
  CHECK(difference(model(x), model(x)) > 0);
  model.eval();
  CHECK(same_values(model(x), model(x)));
  const TransformerEncoder copy = model;
  model.layers[1].feed_forward.linear1.weight = zeros({6, 4});
  CHECK(difference(model(x), copy(x)) > 0);
  std::vector<Tensor> weights;
  copy(x, {.weights = &weights});
  REQUIRE(weights.size() == 2);
  CHECK(weights[1].shape() == Shape{2, 2, 3, 3});
  CHECK(orphans(sum(copy(x)), copy).empty());
}

TEST_CASE("Transformer layers: wrong sizes") {
  CHECK_THROWS_WITH_AS(TransformerEncoder(0, 4, 2), "TransformerEncoder: count must be at least 1, is 0", ValueError);
  CHECK_THROWS_AS(TransformerEncoderLayer(4, 3), ValueError);
  CHECK_THROWS_AS(TransformerEncoderLayer(4, 2, {.feedforward = 0}), ValueError);
  CHECK_THROWS_AS(TransformerEncoderLayer(4, 2, {.dropout = -0.1}), ValueError);
  CHECK_THROWS_AS(TransformerDecoderLayer(4, 2, {.norm_eps = 0}), ValueError);
}
