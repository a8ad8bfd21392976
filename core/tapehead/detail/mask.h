// SPDX-License-Identifier: MIT
// A mask made ready for one attention call: every question about a row is a range and a few additions.
#pragma once

#include <algorithm>
#include <vector>

#include <tapehead/attention.h>

namespace tapehead::detail {

/// Keys [begin, end).
struct KeyRange {
  Index begin;
  Index end;
  bool empty() const { return begin >= end; }
};

/// Scores are [leading..., queries, keys]; `batch` is the part of the leading axes that lengths() speak about, and
/// `leading` is batch, followed by the heads where these are an axis of their own.
class MaskPlan {
 public:
  /// Throws ShapeError or DTypeError when a part does not fit the scores.
  MaskPlan(const Mask& mask, const Shape& batch, const Shape& leading, Index queries, Index keys, DType dtype);

  /// Whether some part holds a number for each pair, beside ranges of keys.
  bool has_tensors() const { return !tensors_.empty(); }
  bool allows_all() const { return allows_all_; }
  /// Throws GraphError if somebody wrote into a mask since: the rule would mask other scores than the forward pass.
  void check_unchanged() const;

  /// The keys that causal, window and lengths leave to a query. `n` counts the leading axes flat.
  KeyRange range(Index n, Index query) const {
    KeyRange out{std::max<Index>(0, query - left_), std::min(keys_, query + right_ + 1)};
    if (!lengths_.empty()) out.end = std::min(out.end, lengths_[static_cast<std::size_t>(n)]);
    return out;
  }
  /// The union of the ranges of queries [begin, end).
  KeyRange range(Index n, Index begin, Index end) const {
    return {range(n, begin).begin, std::max(range(n, begin).end, range(n, end - 1).end)};
  }

  /// Adds the additive parts to scores[j] for the keys of the range and puts -inf where a part blocks; says in
  /// blocked[j] which, and returns how many keys are left. Both arrays start at key `first`.
  template <class T>
  Index apply(Index n, Index query, KeyRange keys, Index first, T* scores, bool* blocked) const;

 private:
  struct Values {
    Mask::Kind kind;
    Tensor tensor;
    std::vector<Index> offsets;  // of each leading index
    Index query_step;
    Index key_step;
    std::uint32_t version;  // of the tensor's storage when it was recorded
  };

  void add_values(const Mask::Part& part, const Shape& leading, Index queries, DType dtype);
  void add_lengths(const Tensor& lengths, const Shape& batch, const Shape& leading);

  Index keys_;
  Index left_;
  Index right_;
  bool allows_all_;
  std::vector<Index> lengths_;  // of each leading index; empty when all keys exist
  std::vector<Values> tensors_;
};

}  // namespace tapehead::detail
