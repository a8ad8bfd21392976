// SPDX-License-Identifier: MIT
// A decoder-only language model: Radford et al. 2019 ("Language Models are Unsupervised Multitask Learners"), with the
// variations that later models brought.
#pragma once

#include <optional>
#include <vector>

#include <tapehead/embedding.h>
#include <tapehead/module.h>
#include <tapehead/positions.h>
#include <tapehead/transformer.h>

namespace tapehead {

enum class Positions { learned, sinusoidal, rotary, alibi, none };

/// Defaults are GPT-2's; the sizes have none.
struct GPTOptions {
  Index vocabulary;
  Index context;  ///< most positions at once
  Index layers;
  Index heads;
  Index width;
  Index kv_heads = 0;     ///< as in MultiHeadAttentionOptions
  Index feedforward = 0;  ///< 0: four times the width
  double dropout = 0;
  Activation activation = Activation::gelu_tanh;
  NormKind norm = NormKind::layer_norm;
  bool bias = true;
  Positions positions = Positions::learned;
  bool checkpoint_blocks = false;  ///< blocks keep their input alone and are computed again for the gradient
};

/// Keys and values of every layer for the positions seen so far.
struct GPTCache {
  std::vector<KeyValueCache> layers;
  Index length() const { return layers.front().length; }
  void clear();
};

struct GPT : Module {
  Embedding token_embedding;  ///< also the last layer's weight (Press and Wolf 2017, arXiv:1608.05859)
  std::optional<PositionEmbedding> position_embedding;  ///< of learned positions
  Dropout dropout;
  std::vector<TransformerEncoderLayer> blocks;
  NormLayer norm;

  /// Weights start normal with deviation 0.02, those that end a residual branch with 0.02 / sqrt(2 layers), biases at
  /// 0. Throws ValueError for sizes below 1, heads that do not divide the width, odd head sizes with rotary positions.
  explicit GPT(const GPTOptions& options, Generator& generator = default_generator());

  /// ids i64 [..., T] -> logits of the next token [..., T, vocabulary]. With a cache, ids [batch, T] are the positions
  /// after those in it. Throws ValueError when the context is too short, IndexError for an unknown id.
  Tensor operator()(const Tensor& ids, GPTCache* cache = nullptr) const;
  /// The same, and each block's attention weights [..., heads, T, T].
  Tensor operator()(const Tensor& ids, std::vector<Tensor>& weights) const;

  /// An empty cache for whole contexts.
  GPTCache make_cache(Index batch) const;
  const GPTOptions& options() const { return options_; }
  void members(Members& m) override;

 private:
  Tensor forward(const Tensor& ids, GPTCache* cache, std::vector<Tensor>* weights) const;
  Tensor run_checkpointed(Tensor x, const AttentionCall& call) const;
  Tensor embed(const Tensor& ids, Index past) const;

  GPTOptions options_;
};

}  // namespace tapehead
