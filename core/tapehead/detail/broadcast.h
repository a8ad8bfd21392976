// SPDX-License-Identifier: MIT
// Walks several operands under NumPy's broadcasting, axes merged where that is possible, one inner row at a time.
#pragma once

#include <array>

#include <tapehead/detail/parallel.h>
#include <tapehead/shape.h>

namespace tapehead::detail {

/// Operands of shapes that broadcast to `out`. Step 0 repeats an element, step 1 walks.
template <std::size_t N>
class BroadcastLoop {
 public:
  BroadcastLoop(const Shape& out, const std::array<const Shape*, N>& operands) {
    std::array<Index, N> dense{};
    dense.fill(1);
    for (int axis = out.rank() - 1; axis >= 0; --axis) {
      const Index size = out[axis];
      std::array<Index, N> strides{};
      for (std::size_t k = 0; k < N; ++k) {
        const int own = axis - (out.rank() - operands[k]->rank());
        const Index own_size = own < 0 ? 1 : (*operands[k])[own];
        strides[k] = own_size == 1 ? 0 : dense[k];
        dense[k] *= own_size;
      }
      if (size == 1) continue;
      push(size, strides);
    }
    if (rank_ == 0) push(1, {});
  }

  Index row_length() const { return sizes_[0]; }
  Index rows() const {
    Index n = 1;
    for (std::size_t i = 1; i < rank_; ++i) n *= sizes_[i];
    return n;
  }
  const std::array<Index, N>& steps() const { return strides_[0]; }

  /// Calls fn(offsets, out_offset, n) for pieces of rows that cover the result, as parallel_ranges() cuts them.
  template <class F>
  void run(Index cost, F&& fn) const {
    const Index n = row_length();
    if (rows() == 1) {
      parallel_ranges(n, cost, [&](Index begin, Index end) {
        std::array<Index, N> offsets{};
        for (std::size_t k = 0; k < N; ++k) offsets[k] = begin * strides_[0][k];
        fn(offsets, begin, end - begin);
      });
      return;
    }
    parallel_ranges(rows(), cost * n + 16, [&](Index begin, Index end) {
      for (Index row = begin; row < end; ++row) fn(offsets_of(row), row * n, n);
    });
  }

  /// The same in this thread, row after row; for pieces that are parallel inside.
  template <class F>
  void run_in_order(F&& fn) const {
    for (Index row = 0; row < rows(); ++row) fn(offsets_of(row), row * row_length(), row_length());
  }

 private:
  std::array<Index, N> offsets_of(Index row) const {
    std::array<Index, N> offsets{};
    for (std::size_t axis = 1; axis < rank_; ++axis) {
      const Index at = row % sizes_[axis];
      row /= sizes_[axis];
      for (std::size_t k = 0; k < N; ++k) offsets[k] += at * strides_[axis][k];
    }
    return offsets;
  }

  // Axes come from the last to the first; one that continues the axis before it is merged into it.
  void push(Index size, const std::array<Index, N>& strides) {
    if (rank_ > 0) {
      bool continues = true;
      for (std::size_t k = 0; k < N; ++k) {
        continues = continues && strides[k] == strides_[rank_ - 1][k] * sizes_[rank_ - 1];
      }
      if (continues) {
        sizes_[rank_ - 1] *= size;
        return;
      }
    }
    sizes_[rank_] = size;
    strides_[rank_] = strides;
    ++rank_;
  }

  std::array<Index, Shape::kMaxRank> sizes_{};
  std::array<std::array<Index, N>, Shape::kMaxRank> strides_{};
  std::size_t rank_ = 0;
};

}  // namespace tapehead::detail
