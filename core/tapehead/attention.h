// SPDX-License-Identifier: MIT
// Scaled dot-product attention (Vaswani et al. 2017, arXiv:1706.03762) and the typed mask.
#pragma once

#include <optional>
#include <vector>

#include <tapehead/random.h>
#include <tapehead/tensor.h>

namespace tapehead {

/// Which keys a query may see. A mask says what its numbers mean, because three opposite conventions are in use and
/// mixing them up is silent. Combine masks with &: a key is seen only if every part allows it.
class Mask {
 public:
  /// Allows everything.
  Mask() = default;
  /// True keeps, false blocks. allowed bool, broadcastable to [..., queries, keys]. Throws DTypeError.
  static Mask keep(const Tensor& allowed);
  /// True blocks, false keeps; PyTorch's key_padding_mask convention.
  static Mask block(const Tensor& blocked);
  /// Added to the scaled scores: 0 keeps, -inf blocks. scores f32 or f64 like the query. Throws ValueError for NaN
  /// or +inf, GraphError if it asks for a gradient.
  static Mask add(const Tensor& scores);
  /// Query i sees keys 0 to i. Throws ShapeError in use when there are not as many queries as keys: say the offset.
  static Mask causal();
  /// Query i sees keys 0 to i + offset; offset = keys - queries aligns the last query with the last key.
  static Mask causal(Index offset);
  /// Only the first lengths[...] keys exist. lengths i64, broadcastable to the leading axes [...]. Throws DTypeError.
  static Mask lengths(const Tensor& lengths);
  /// Query i sees keys i - left to i + right. Throws ValueError for negative reach.
  static Mask window(Index left, Index right);

  friend Mask operator&(const Mask& a, const Mask& b);

  /// Whether nothing is blocked and nothing added.
  bool allows_all() const { return parts_.empty(); }

  enum class Kind { keep, block, add, causal, lengths, window };
  struct Part {
    Kind kind;
    Tensor values;               // keep, block, add, lengths
    std::optional<Index> left;   // window
    std::optional<Index> right;  // causal: the offset; window
  };
  const std::vector<Part>& parts() const { return parts_; }

 private:
  explicit Mask(Part part) : parts_{std::move(part)} {}
  std::vector<Part> parts_;
};

struct AttentionOptions {
  Mask mask = {};
  std::optional<double> scale = std::nullopt;  ///< of the scores; 1 / sqrt(head size) unless given
  Index heads = 0;                             ///< above 0: the last axis holds this many heads side by side
  Index kv_heads = 0;              ///< heads of key and value, each serving heads / kv_heads of the query; 0: as many
  double softcap = 0;              ///< above 0: scores become softcap * tanh(score / softcap) before the mask
  double dropout = 0;              ///< probability that a weight is dropped on its way to the output
  Generator* generator = nullptr;  ///< of the dropout; default_generator() unless given
  bool need_weights = true;        ///< false saves the time and memory of forming them
};

struct AttentionResult {
  Tensor output;   ///< [..., queries, value size]
  Tensor weights;  ///< [..., queries, keys], rows sum to 1 (to 0 where all keys are blocked), before dropout; empty
                   ///< unless asked for
};

/// softmax(query key^T * scale + mask) value. query [..., L, E], key [..., S, E], value [..., S, Ev] -> output
/// [..., L, Ev] and weights [..., L, S]; leading axes broadcast. With .heads = H the tensors are [..., L, H * E] and so
/// on, the output is [..., L, H * Ev] and the weights are [..., H, L, S]; nothing is copied to split the heads. With
/// .kv_heads = K as well, key and value are [..., S, K * E] and [..., S, K * Ev] (grouped queries, Ainslie et al. 2023,
/// arXiv:2305.13245).
/// A query that may see no key gives output, weights and gradients of exactly 0. What is blocked is never read into a
/// result, not even NaN. Throws ShapeError for sizes that disagree, DTypeError, and ValueError for head counts
/// that do not divide, dropout outside [0, 1) and a negative softcap.
AttentionResult scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                             const AttentionOptions& options = {});

/// The same for self-attention with query, key and value side by side in one tensor, as one projection makes them: qkv
/// [..., T, (heads + 2 kv_heads) * E] -> output [..., T, heads * E]. Needs .heads. Nothing is copied to take them
/// apart, and their gradient is one tensor too.
AttentionResult scaled_dot_product_attention(const Tensor& qkv, const AttentionOptions& options);

/// What the weights are made of: query key^T * scale, before cap and mask, [..., L, S] or with .heads [..., H, L, S].
/// Throws as scaled_dot_product_attention does.
Tensor attention_scores(const Tensor& query, const Tensor& key, const AttentionOptions& options = {});

}  // namespace tapehead
