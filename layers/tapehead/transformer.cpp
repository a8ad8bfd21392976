// SPDX-License-Identifier: MIT
#include <tapehead/transformer.h>

#include <tapehead/ops.h>

namespace tapehead {
namespace {

using detail::apply;
using detail::list;
using detail::make_norm;

MultiHeadAttentionOptions attention_options(const TransformerOptions& options) {
  return {.kv_heads = options.kv_heads,
          .bias = options.bias,
          .dropout = options.dropout,
          .rotary_pairs = options.rotary_pairs};
}

// x + branch(x) with the norm before the branch or after the sum. By reference: a copied layer has other weights.
template <class Branch>
Tensor residual(const Tensor& x, const NormLayer& norm, bool norm_first, const Dropout& dropout, const Branch& branch) {
  if (norm_first) return x + dropout(branch(detail::apply(norm, x)));
  return detail::apply(norm, x + dropout(branch(x)));
}

template <class Layer>
std::vector<Layer> make_layers(const char* name, Index count, Index embed_dim, Index heads,
                               const TransformerOptions& options, Generator& generator) {
  detail::at_least_one(name, "count", count);
  std::vector<Layer> layers;
  for (Index i = 0; i < count; ++i) layers.emplace_back(embed_dim, heads, options, generator);
  return layers;
}

}  // namespace

NormLayer detail::make_norm(Index width, const TransformerOptions& options) {
  if (options.norm == NormKind::rms_norm) return RMSNorm(width, {.eps = options.norm_eps});
  return LayerNorm(width, {.eps = options.norm_eps, .bias = options.bias});
}

Tensor detail::apply(const NormLayer& norm, const Tensor& x) {
  return std::visit([&](const auto& layer) { return layer(x); }, norm);
}

void detail::list(Members& m, std::string_view name, NormLayer& norm) {
  std::visit([&](auto& layer) { m(name, layer); }, norm);
}

FeedForward::FeedForward(Index embed_dim, const TransformerOptions& options, Generator& generator)
    : linear1(embed_dim, options.feedforward, {.bias = options.bias}, generator),
      linear2(options.feedforward, embed_dim, {.bias = options.bias}, generator),
      dropout(options.dropout),
      activation(options.activation) {
  if (activation == Activation::swiglu) {
    gate.emplace(embed_dim, options.feedforward, LinearOptions{.bias = options.bias}, generator);
  }
}

Tensor FeedForward::operator()(const Tensor& x) const {
  Tensor h = linear1(x);
  switch (activation) {
    case Activation::relu: h = relu(h); break;
    case Activation::gelu: h = gelu(h); break;
    case Activation::gelu_tanh: h = gelu(h, Gelu::tanh); break;
    case Activation::swiglu: h = silu((*gate)(x)) * h; break;
  }
  return linear2(dropout(h));
}

void FeedForward::members(Members& m) {
  m("linear1", linear1);
  if (gate) m("gate", *gate);
  m("linear2", linear2);
  m("dropout", dropout);
}

TransformerEncoderLayer::TransformerEncoderLayer(Index embed_dim, Index heads, const TransformerOptions& options,
                                                 Generator& generator)
    : self_attn(embed_dim, heads, attention_options(options), generator),
      feed_forward(embed_dim, options, generator),
      norm1(make_norm(embed_dim, options)),
      norm2(make_norm(embed_dim, options)),
      dropout(options.dropout),
      norm_first(options.norm_first) {}

Tensor TransformerEncoderLayer::operator()(const Tensor& x, const AttentionCall& call) const {
  const Tensor h = residual(x, norm1, norm_first, dropout, [&](const Tensor& in) { return self_attn(in, call); });
  return residual(h, norm2, norm_first, dropout, feed_forward);
}

void TransformerEncoderLayer::members(Members& m) {
  m("self_attn", self_attn);
  feed_forward.members(m);
  list(m, "norm1", norm1);
  list(m, "norm2", norm2);
  m("dropout", dropout);
}

TransformerDecoderLayer::TransformerDecoderLayer(Index embed_dim, Index heads, const TransformerOptions& options,
                                                 Generator& generator)
    : self_attn(embed_dim, heads, attention_options(options), generator),
      multihead_attn(embed_dim, heads, attention_options(options), generator),
      feed_forward(embed_dim, options, generator),
      norm1(make_norm(embed_dim, options)),
      norm2(make_norm(embed_dim, options)),
      norm3(make_norm(embed_dim, options)),
      dropout(options.dropout),
      norm_first(options.norm_first) {}

Tensor TransformerDecoderLayer::operator()(const Tensor& x, const Tensor& memory, const AttentionCall& self,
                                           const AttentionCall& cross) const {
  Tensor h = residual(x, norm1, norm_first, dropout, [&](const Tensor& in) { return self_attn(in, self); });
  h = residual(h, norm2, norm_first, dropout,
               [&](const Tensor& in) { return multihead_attn(in, memory, memory, cross); });
  return residual(h, norm3, norm_first, dropout, feed_forward);
}

void TransformerDecoderLayer::members(Members& m) {
  m("self_attn", self_attn);
  m("multihead_attn", multihead_attn);
  feed_forward.members(m);
  list(m, "norm1", norm1);
  list(m, "norm2", norm2);
  list(m, "norm3", norm3);
  m("dropout", dropout);
}

TransformerEncoder::TransformerEncoder(Index count, Index embed_dim, Index heads, const TransformerOptions& options,
                                       Generator& generator)
    : layers(make_layers<TransformerEncoderLayer>("TransformerEncoder", count, embed_dim, heads, options, generator)) {
  if (options.norm_first) norm = make_norm(embed_dim, options);
}

Tensor TransformerEncoder::operator()(const Tensor& x, const AttentionCall& call) const {
  Tensor h = x;
  for (const TransformerEncoderLayer& layer : layers) h = layer(h, call);
  return norm ? detail::apply(*norm, h) : h;
}

void TransformerEncoder::members(Members& m) {
  m("layers", layers);
  if (norm) list(m, "norm", *norm);
}

TransformerDecoder::TransformerDecoder(Index count, Index embed_dim, Index heads, const TransformerOptions& options,
                                       Generator& generator)
    : layers(make_layers<TransformerDecoderLayer>("TransformerDecoder", count, embed_dim, heads, options, generator)) {
  if (options.norm_first) norm = make_norm(embed_dim, options);
}

Tensor TransformerDecoder::operator()(const Tensor& x, const Tensor& memory, const AttentionCall& self,
                                      const AttentionCall& cross) const {
  Tensor h = x;
  for (const TransformerDecoderLayer& layer : layers) h = layer(h, memory, self, cross);
  return norm ? detail::apply(*norm, h) : h;
}

void TransformerDecoder::members(Members& m) {
  m("layers", layers);
  if (norm) list(m, "norm", *norm);
}

Transformer::Transformer(Index embed_dim, Index heads, Index encoder_layers, Index decoder_layers,
                         const TransformerOptions& options, Generator& generator)
    : encoder(encoder_layers, embed_dim, heads, options, generator),
      decoder(decoder_layers, embed_dim, heads, options, generator) {
  encoder.norm = make_norm(embed_dim, options);
  decoder.norm = make_norm(embed_dim, options);
}

Tensor Transformer::operator()(const Tensor& source, const Tensor& target, const Mask& source_mask) const {
  return decoder(target, encoder(source, {.mask = source_mask}), {.mask = Mask::causal()}, {.mask = source_mask});
}

void Transformer::members(Members& m) {
  m("encoder", encoder);
  m("decoder", decoder);
}

}  // namespace tapehead
