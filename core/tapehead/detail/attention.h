// SPDX-License-Identifier: MIT
// The passes of attention over memory. The scores of a block of queries live in scratch memory only; two numbers a row
// are kept, from which the backward pass forms the same weights again. Heads are read where they lie, by strides.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include <tapehead/detail/mask.h>

namespace tapehead::detail {

inline constexpr const char* kAttention = "scaled_dot_product_attention";
inline constexpr Index kQueryBlock = 64;  // queries whose scores are formed at once, at most

// Sizes of one call, and where the matrices of each leading index lie in the three operands.
struct AttentionPlan {
  Shape batch;    // common leading axes
  Shape leading;  // batch, and the heads where they are an axis of the scores
  Index heads, kv_heads, queries, keys, size, value_size;
  double scale;
  double softcap;          // 0: none
  double dropout;          // 0: none
  std::uint64_t seed = 0;  // of the dropout, with the number of its first random block
  std::uint64_t first = 0;
  bool packed;  // heads lie side by side in the last axis
  bool joined;  // query, key and value lie side by side in the rows of one tensor
  // Elements from row to row of each operand, and where in its row the operand begins.
  Index query_stride, key_stride, value_stride;
  Index query_at = 0, key_at = 0, value_at = 0;
  std::shared_ptr<const MaskPlan> mask;
  std::vector<std::array<Index, 3>> offsets;  // per batch index: matrices of query, key and value

  Index matrices() const { return leading.numel(); }
  // Of few queries two blocks, so that the first leaves out what a causal mask hides.
  Index query_block() const { return queries > kQueryBlock || mask->allows_all() ? kQueryBlock : kQueryBlock / 2; }
  Index query_blocks() const { return (queries + query_block() - 1) / query_block(); }
  Index group() const { return heads / kv_heads; }  // heads of the query that share a key
  Index output_stride() const { return heads * value_size; }
  Index random_blocks() const { return (keys + 3) / 4; }  // of a row of weights
  Shape scores_shape() const { return leading.inserted(leading.rank(), queries).inserted(leading.rank() + 1, keys); }
  Shape full(Index rows, Index width) const {
    return batch.inserted(batch.rank(), rows).inserted(batch.rank() + 1, width);
  }
  Index cost() const { return std::min(queries, query_block()) * keys * (size + value_size) / 32 + 256; }
};

/// output [..., queries, heads * value size] and stats [matrices, queries, 2]: the largest score and the sum of
/// exponentials of each row; a sum of 0 marks a row that sees nothing.
void attention_forward(const AttentionPlan& p, const Tensor& query, const Tensor& key, const Tensor& value,
                       Tensor& output, Tensor& stats);

/// weights [leading..., queries, keys].
void attention_weights(const AttentionPlan& p, const Tensor& query, const Tensor& key, Tensor& weights);

/// What dropout multiplies the weights with, 0 or 1 / (1 - p): [leading..., queries, keys].
Tensor attention_drop_factors(const AttentionPlan& p, DType dtype);

/// Which pairs the mask allows, bool [leading..., queries, keys]; not defined unless an operand holds a NaN or an
/// infinity that the mask may hide.
Tensor attention_allowed(const AttentionPlan& p, std::initializer_list<const Tensor*> operands);

/// Gradients with the common leading axes; what broadcasting shared is not summed yet. Joined operands have one
/// gradient, which all three are.
struct AttentionGradients {
  Tensor query, key, value;
};

/// `result` is the output and `gradient` its gradient; or, without value and stats, both are those of the weights.
AttentionGradients attention_backward(const AttentionPlan& p, const Tensor& query, const Tensor& key,
                                      const Tensor* value, const Tensor& gradient, const Tensor& result,
                                      const Tensor* stats);

}  // namespace tapehead::detail
