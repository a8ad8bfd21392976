// SPDX-License-Identifier: MIT
// The piece that attention's passes have in common: the weights of a block of queries, masked, in scratch memory.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <vector>

#include <tapehead/detail/attention.h>
#include <tapehead/detail/attention_rows.h>
#include <tapehead/detail/blas.h>
#include <tapehead/detail/gemm.h>
#include <tapehead/detail/kernel.h>
#include <tapehead/detail/parallel.h>
#include <tapehead/random.h>

namespace tapehead::detail {

// One matrix of an operand: batch index n / heads, head n % heads.
template <class T>
const T* matrix(const T* base, Index index, Index rows, Index stride, Index head, Index width) {
  return base + index * rows * stride + head * width;
}

template <class T>
struct Operands {
  const T* query;
  const T* key;
  const T* value;
};

template <class T>
Operands<T> operands_of(const AttentionPlan& p, const Tensor& query, const Tensor& key, const Tensor* value, Index n) {
  const auto& at = p.offsets[static_cast<std::size_t>(n / p.heads)];
  const Index head = n % p.heads, shared = head / p.group();
  return {matrix(data<T>(query) + p.query_at, at[0], p.queries, p.query_stride, head, p.size),
          matrix(data<T>(key) + p.key_at, at[1], p.keys, p.key_stride, shared, p.size),
          value == nullptr ? nullptr
                           : matrix(data<T>(*value) + p.value_at, at[2], p.keys, p.value_stride, shared, p.value_size)};
}

// Scratch memory of one block of queries.
template <class T>
struct Block {
  Block(const AttentionPlan& p, Index matrix_number, Index first_query)
      : n(matrix_number),
        begin(first_query),
        rows(std::min(p.query_block(), p.queries - begin)),
        keys(p.mask->range(n, begin, begin + rows)) {
    if (keys.empty()) keys = {0, 0};
    query = empty({rows, p.size}, dtype_of<T>());
    weights = empty({rows, span()}, dtype_of<T>());
    if (p.mask->has_tensors()) blocked = empty({rows, span()}, DType::boolean);
    if (p.softcap > 0) slope = empty({rows, span()}, dtype_of<T>());
  }
  Index span() const { return keys.end - keys.begin; }
  T* row(Index i) { return fresh<T>(weights) + i * span(); }
  bool* blocked_row(Index i) { return blocked.defined() ? fresh<bool>(blocked) + i * span() : nullptr; }

  Index n, begin, rows;
  KeyRange keys;  // that any of the queries sees
  Tensor query;   // scaled: overflow of a product that scaling would have kept finite must not happen
  Tensor weights;
  Tensor blocked;
  Tensor slope;                             // of capped scores
  std::array<Index, kQueryBlock> only_key;  // that a query sees, relative to keys; -1 if it sees none or several
};

// The keys of a row, relative to the block's.
struct RowView {
  Index begin, end;
};

// Scores of the block, masked, in block.weights; `finish(i, row, view)` makes them weights.
template <class T, class Finish>
void score_rows(const AttentionPlan& p, const Operands<T>& from, Block<T>& block, Finish finish) {
  T* query = fresh<T>(block.query);
  for (Index i = 0; i < block.rows; ++i) {
    attention_rows<T>().scale(from.query + (block.begin + i) * p.query_stride, static_cast<T>(p.scale),
                              query + i * p.size, p.size);
  }
  gemm_tile<T>(block.rows, block.span(), p.size, T{1}, {query, p.size},
               {from.key + block.keys.begin * p.key_stride, p.key_stride, true}, T{0}, block.row(0), block.span());
  if (p.softcap > 0) {
    attention_rows<T>().softcap(block.row(0), static_cast<T>(p.softcap), fresh<T>(block.slope),
                                block.rows * block.span());
  }
  for (Index i = 0; i < block.rows; ++i) {
    KeyRange keys = p.mask->range(block.n, block.begin + i);
    keys = {std::max(keys.begin, block.keys.begin), std::min(keys.end, block.keys.end)};
    T* row = block.row(i);
    Index seen = keys.empty() ? 0 : keys.end - keys.begin;
    const bool* blocked = block.blocked_row(i);
    if (seen > 0 && blocked != nullptr) {
      seen = p.mask->template apply<T>(block.n, block.begin + i, keys, block.keys.begin, row, block.blocked_row(i));
    }
    if (seen == 0) keys = {block.keys.begin, block.keys.begin};
    const RowView view{keys.begin - block.keys.begin, keys.end - block.keys.begin};
    block.only_key[static_cast<std::size_t>(i)] =
        seen != 1            ? -1
        : blocked == nullptr ? view.begin
                             : std::find(blocked + view.begin, blocked + view.end, false) - blocked;
    std::fill(row, row + view.begin, T{0});
    std::fill(row + view.end, row + block.span(), T{0});
    if (seen > 0) finish(i, row, view);
  }
}

// A NaN that an allowed pair brought in spreads over its row; pairs that are blocked stay out of it.
template <class T>
void clear_blocked(Block<T>& block, Index i, const RowView& view, const T* stats) {
  const bool* blocked = block.blocked_row(i);
  if (blocked == nullptr || std::isfinite(stats[1])) return;
  for (Index j = view.begin; j < view.end; ++j) {
    if (blocked[j]) block.row(i)[j] = T{0};
  }
}

template <class T>
bool pair_allowed(const AttentionPlan& p, Block<T>& block, Index i, Index j) {
  const KeyRange keys = p.mask->range(block.n, block.begin + i);
  const Index key = block.keys.begin + j;
  if (key < keys.begin || key >= keys.end) return false;
  return !block.blocked.defined() || !block.blocked_row(i)[j];
}

// result [width] += weights of row i times the rows of `from`, blocked pairs never touched; for operands with NaN.
template <class T>
void add_allowed(const AttentionPlan& p, Block<T>& block, Index i, const T* weights, const T* from, Index stride,
                 Index width, T* result) {
  for (Index j = 0; j < block.span(); ++j) {
    if (!pair_allowed(p, block, i, j)) continue;
    for (Index c = 0; c < width; ++c) result[c] += weights[j] * from[(block.keys.begin + j) * stride + c];
  }
}

// factors [keys.end - keys.begin] of one row: 0 where dropout drops a weight, 1 / (1 - p) elsewhere. They depend on
// where in the weights the row lies and on nothing else.
template <class T>
void drop_factors(const AttentionPlan& p, Index n, Index query, KeyRange keys, T* factors) {
  const auto threshold = static_cast<std::uint32_t>(std::min(p.dropout * 0x1p32, 0x1p32 - 1));
  const T kept = static_cast<T>(1 / (1 - p.dropout));
  const Index from = keys.begin / 4, count = (keys.end + 3) / 4 - from;
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(4 * count));
  const std::uint64_t row = p.first + static_cast<std::uint64_t>((n * p.queries + query) * p.random_blocks());
  philox_blocks(p.seed, row + static_cast<std::uint64_t>(from), count, bits.data());
  for (Index j = keys.begin; j < keys.end; ++j) {
    factors[j - keys.begin] = bits[static_cast<std::size_t>(j - 4 * from)] >= threshold ? kept : T{0};
  }
}

// The weights of the block as they reach the values: with dropout a changed copy, else themselves.
template <class T>
Tensor dropped_weights(const AttentionPlan& p, Block<T>& block, Tensor& factors) {
  if (p.dropout == 0) return block.weights;
  factors = empty({block.rows, block.span()}, dtype_of<T>());
  Tensor out = empty({block.rows, block.span()}, dtype_of<T>());
  for (Index i = 0; i < block.rows; ++i) {
    drop_factors(p, block.n, block.begin + i, block.keys, fresh<T>(factors) + i * block.span());
  }
  attention_rows<T>().multiply(block.row(0), data<T>(factors), fresh<T>(out), block.rows * block.span());
  return out;
}

template <class T>
bool all_finite(const Tensor& x) {
  std::atomic<bool> finite = true;
  parallel_ranges(x.numel(), 1, [&](Index begin, Index end) {
    if (!attention_rows<T>().all_finite(data<T>(x) + begin, end - begin)) finite = false;
  });
  return finite;
}

// With nothing blocked a NaN belongs wherever plain arithmetic takes it.
template <class T>
bool needs_care(const AttentionPlan& p, std::initializer_list<const Tensor*> operands) {
  if (p.mask->allows_all()) return false;
  const Tensor* before = nullptr;  // joined operands are one tensor
  return std::any_of(operands.begin(), operands.end(), [&](const Tensor* x) {
    const bool same = before != nullptr && before->ref().get() == x->ref().get();
    before = x;
    return !same && !all_finite<T>(*x);
  });
}

}  // namespace tapehead::detail
