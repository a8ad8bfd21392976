// SPDX-License-Identifier: MIT
// Encoder and decoder (Vaswani et al. 2017, arXiv:1706.03762) with PyTorch's parameters, names and defaults.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include <tapehead/dropout.h>
#include <tapehead/layer_norm.h>
#include <tapehead/linear.h>
#include <tapehead/module.h>
#include <tapehead/multi_head_attention.h>
#include <tapehead/rms_norm.h>

namespace tapehead {

/// What stands between the two products of a feed-forward layer. swiglu (Shazeer 2020, arXiv:2002.05202) is
/// silu(gate(x)) * linear1(x) with a third matrix.
enum class Activation { relu, gelu, gelu_tanh, swiglu };
enum class NormKind { layer_norm, rms_norm };

struct TransformerOptions {
  Index feedforward = 2048;  ///< width between the two products
  double dropout = 0.1;      ///< of attention weights, activations and each residual branch
  Activation activation = Activation::relu;
  NormKind norm = NormKind::layer_norm;
  double norm_eps = 1e-5;
  bool norm_first =
      false;  ///< normalise what enters a branch, not what leaves it (Xiong et al. 2020, arXiv:2002.04745)
  bool bias = true;
  Index kv_heads = 0;  ///< as in MultiHeadAttentionOptions
  RotaryPairs rotary_pairs = RotaryPairs::interleaved;
};

/// Either normalisation, chosen at run time.
using NormLayer = std::variant<LayerNorm, RMSNorm>;

struct FeedForward : Module {
  Linear linear1;              ///< embed_dim to feedforward
  Linear linear2;              ///< feedforward to embed_dim
  std::optional<Linear> gate;  ///< swiglu only: embed_dim to feedforward
  Dropout dropout;             ///< before linear2
  Activation activation;

  FeedForward(Index embed_dim, const TransformerOptions& options, Generator& generator = default_generator());
  /// [..., embed_dim] -> [..., embed_dim]
  Tensor operator()(const Tensor& x) const;
  void members(Members& m) override;
};

/// Self-attention, then a feed-forward network, each in a residual branch with a norm.
struct TransformerEncoderLayer : Module {
  MultiHeadAttention self_attn;
  FeedForward feed_forward;  ///< its parameters are called as if they were the layer's own: linear1.weight
  NormLayer norm1, norm2;
  Dropout dropout;  ///< of both branches
  bool norm_first;

  /// Throws ValueError for sizes and probabilities without sense.
  TransformerEncoderLayer(Index embed_dim, Index heads, const TransformerOptions& options = {},
                          Generator& generator = default_generator());
  /// x [..., T, embed_dim] -> [..., T, embed_dim]
  Tensor operator()(const Tensor& x, const AttentionCall& call = {}) const;
  void members(Members& m) override;
};

/// Self-attention over the target, attention to the encoder's result, then a feed-forward network.
struct TransformerDecoderLayer : Module {
  MultiHeadAttention self_attn;
  MultiHeadAttention multihead_attn;  ///< to the encoder's result
  FeedForward feed_forward;
  NormLayer norm1, norm2, norm3;
  Dropout dropout;
  bool norm_first;

  TransformerDecoderLayer(Index embed_dim, Index heads, const TransformerOptions& options = {},
                          Generator& generator = default_generator());
  /// x [..., T, embed_dim], memory [..., S, embed_dim] -> [..., T, embed_dim]. `self` is of the attention over x
  /// (causal in a language model), `cross` of that to memory.
  Tensor operator()(const Tensor& x, const Tensor& memory, const AttentionCall& self = {},
                    const AttentionCall& cross = {}) const;
  void members(Members& m) override;
};

struct TransformerEncoder : Module {
  std::vector<TransformerEncoderLayer> layers;
  std::optional<NormLayer> norm;  ///< of the result; only with .norm_first, where nothing else normalises it

  /// Throws ValueError for sizes below 1.
  TransformerEncoder(Index count, Index embed_dim, Index heads, const TransformerOptions& options = {},
                     Generator& generator = default_generator());
  Tensor operator()(const Tensor& x, const AttentionCall& call = {}) const;
  void members(Members& m) override;
};

struct TransformerDecoder : Module {
  std::vector<TransformerDecoderLayer> layers;
  std::optional<NormLayer> norm;  ///< as in TransformerEncoder

  TransformerDecoder(Index count, Index embed_dim, Index heads, const TransformerOptions& options = {},
                     Generator& generator = default_generator());
  Tensor operator()(const Tensor& x, const Tensor& memory, const AttentionCall& self = {},
                    const AttentionCall& cross = {}) const;
  void members(Members& m) override;
};

/// Encoder and decoder over inputs that are embedded already; as in PyTorch both end in a norm.
struct Transformer : Module {
  TransformerEncoder encoder;
  TransformerDecoder decoder;

  Transformer(Index embed_dim = 512, Index heads = 8, Index encoder_layers = 6, Index decoder_layers = 6,
              const TransformerOptions& options = {}, Generator& generator = default_generator());
  /// source [..., S, embed_dim], target [..., T, embed_dim] -> [..., T, embed_dim]. The target sees itself causally;
  /// `source_mask` tells which of the source's positions exist, for the encoder and for the decoder's look at it.
  Tensor operator()(const Tensor& source, const Tensor& target, const Mask& source_mask = {}) const;
  void members(Members& m) override;
};

namespace detail {
NormLayer make_norm(Index width, const TransformerOptions& options);
Tensor apply(const NormLayer& norm, const Tensor& x);
void list(Members& m, std::string_view name, NormLayer& norm);
}  // namespace detail

}  // namespace tapehead
