// SPDX-License-Identifier: MIT
// Self-attention: every position of a sequence asks all positions of the same sequence (Vaswani et al. 2017,
// arXiv:1706.03762).
#pragma once

#include <optional>

#include <tapehead/attention.h>
#include <tapehead/module.h>
#include <tapehead/random.h>

namespace tapehead {

struct SelfAttentionOptions {
  /// Not given: one attention without a projection after it, output [..., T, head_dim]. Given: this many side by side,
  /// put together by W_o, output [..., T, embed_dim].
  std::optional<Index> heads = std::nullopt;
  bool need_weights = true;  ///< false saves the time and memory of forming them
};

/// softmax(Q K^T / sqrt(head_dim)) V with Q = x W_q, K = x W_k, V = x W_v, all without bias.
struct SelfAttention : Module {
  Parameter W_q;  ///< [embed_dim, head_dim], with heads [embed_dim, heads * head_dim]; W_k and W_v too
  Parameter W_k;
  Parameter W_v;
  Parameter W_o;      ///< [heads * head_dim, embed_dim]; empty without heads
  bool need_weights;  ///< may be changed between calls, to look at a model that was trained without

  /// The weights start normal with deviation 0.1, drawn in the order W_q, W_k, W_v, W_o. Throws ValueError for sizes
  /// below 1.
  SelfAttention(Index embed_dim, Index head_dim, const SelfAttentionOptions& options = {},
                Generator& generator = default_generator());

  /// x [..., T, embed_dim] -> output (see heads) and weights [..., T, T], with heads [..., heads, T, T]. Throws
  /// ShapeError for another x.
  AttentionResult operator()(const Tensor& x, const Mask& mask = {}) const;
  void members(Members& m) override;

 private:
  Index heads_;  // 0: not given
};

}  // namespace tapehead
