// SPDX-License-Identifier: MIT
// Multi-head attention (Vaswani et al. 2017, arXiv:1706.03762), with PyTorch's parameters; grouped queries (Ainslie et
// al. 2023, arXiv:2305.13245).
#pragma once

#include <vector>

#include <tapehead/attention.h>
#include <tapehead/linear.h>
#include <tapehead/module.h>
#include <tapehead/random.h>
#include <tapehead/rotary.h>

namespace tapehead {

/// Keys and values of the positions seen so far, so that the next ones need not compute them again.
struct KeyValueCache {
  Tensor keys;       ///< [batch, capacity, kv_heads * head size], of which the first `length` rows are in use
  Tensor values;     ///< the same
  Index length = 0;  ///< set it to 0 to start anew
};

/// What one call of an attention layer may be told.
struct AttentionCall {
  Mask mask = {};
  const RotaryTable* rotary = nullptr;  ///< turns queries and keys by position
  KeyValueCache* cache = nullptr;       ///< self-attention only: keys and values are appended, and attention is causal
  std::vector<Tensor>* weights = nullptr;  ///< each attention that runs appends its weights [..., heads, L, S]
};

struct MultiHeadAttentionOptions {
  Index kv_heads = 0;  ///< heads of key and value, each serving heads / kv_heads of the query; 0: as many as heads
  bool bias = true;
  double dropout = 0;  ///< probability that a weight is dropped while training
  RotaryPairs rotary_pairs = RotaryPairs::interleaved;
};

struct MultiHeadAttention : Module {
  Parameter in_proj_weight;  ///< [embed_dim + 2 kv_heads * head size, embed_dim]: rows of query, key, value
  Parameter in_proj_bias;    ///< as many; empty without bias
  Linear out_proj;           ///< embed_dim to embed_dim

  /// Starts as PyTorch's does: in_proj_weight Xavier uniform, biases 0. Throws ValueError for sizes below 1, heads that
  /// do not divide embed_dim, kv_heads that do not divide heads and dropout outside [0, 1).
  MultiHeadAttention(Index embed_dim, Index heads, const MultiHeadAttentionOptions& options = {},
                     Generator& generator = default_generator());

  /// Self-attention. x [..., T, embed_dim] -> [..., T, embed_dim]. Throws ShapeError for another x.
  Tensor operator()(const Tensor& x, const AttentionCall& call = {}) const;
  /// query [..., L, embed_dim], key and value [..., S, embed_dim] -> [..., L, embed_dim]. Throws ShapeError for other
  /// operands, ValueError for a cache or rotary table: both belong to self-attention.
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionCall& call = {}) const;

  /// An empty cache for `capacity` positions. Using it throws ShapeError for another batch, ValueError when it is full
  /// and GraphError while operations are recorded: it is written in place.
  KeyValueCache make_cache(Index batch, Index capacity) const;

  void members(Members& m) override;

 private:
  AttentionOptions options_for(const AttentionCall& call) const;
  Tensor finish(AttentionResult result, const AttentionCall& call) const;
  Tensor attend_cached(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionCall& call) const;
  void check_input(const char* role, const Tensor& x) const;

  Index heads_;
  Index kv_heads_;
  Index key_width_;  // of all heads of the key
  double dropout_;
  RotaryPairs pairs_;
};

}  // namespace tapehead
