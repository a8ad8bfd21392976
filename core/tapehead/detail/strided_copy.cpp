// SPDX-License-Identifier: MIT
#include <tapehead/detail/strided_copy.h>

#include <algorithm>
#include <cstring>

#include <tapehead/detail/parallel.h>

namespace tapehead::detail {
namespace {

constexpr std::size_t at(Index index) { return static_cast<std::size_t>(index); }

template <class T>
void copy_row(const T* from, Index from_stride, T* to, Index to_stride, Index n) {
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
  } else if (from_stride == 0 && to_stride == 1) {
    std::fill_n(to, n, *from);
  } else {
    for (Index i = 0; i < n; ++i) to[i * to_stride] = from[i * from_stride];
  }
}

}  // namespace

class StridedCopy::Walk {
 public:
  Walk(const Axis* axes, std::size_t rank, Index row) : axes_(axes), rank_(rank) {
    for (std::size_t k = rank; k-- > 0;) {
      at_[k] = row % axes[k].size;
      row /= axes[k].size;
      from += at_[k] * axes[k].from;
      to += at_[k] * axes[k].to;
    }
  }
  void advance() {
    for (std::size_t k = rank_; k-- > 0;) {
      from += axes_[k].from;
      to += axes_[k].to;
      if (++at_[k] < axes_[k].size) return;
      from -= at_[k] * axes_[k].from;
      to -= at_[k] * axes_[k].to;
      at_[k] = 0;
    }
  }
  Index from = 0;
  Index to = 0;

 private:
  const Axis* axes_;
  std::size_t rank_;
  std::array<Index, 2 * Shape::kMaxRank> at_{};
};

void StridedCopy::add_axis(Index size, Index from_stride, Index to_stride) {
  if (size == 1) return;
  empty_ = empty_ || size == 0;
  if (rank_ > 0) {
    Axis& outer = axes_[rank_ - 1];
    if (outer.from == size * from_stride && outer.to == size * to_stride) {
      outer = {outer.size * size, from_stride, to_stride};
      return;
    }
  }
  axes_[rank_++] = {size, from_stride, to_stride};
}

template <class T>
void StridedCopy::run(const T* from, T* to) const {
  if (empty_) return;
  const Axis row = rank_ > 0 ? axes_[rank_ - 1] : Axis{1, 1, 1};
  const std::size_t outer = rank_ > 0 ? rank_ - 1 : 0;
  if (outer == 0) {
    parallel_ranges(row.size, 1, [&](Index begin, Index end) {
      copy_row(from + begin * row.from, row.from, to + begin * row.to, row.to, end - begin);
    });
    return;
  }
  if (row.to == 1 && row.from != 1 && row.from != 0) {
    for (std::size_t k = 0; k < outer; ++k) {
      if (axes_[k].from == 1) return run_tiles(from, to, k);
    }
  }
  Index rows = 1;
  for (std::size_t k = 0; k < outer; ++k) rows *= axes_[k].size;
  parallel_ranges(rows, row.size + 16, [&](Index begin, Index end) {
    Walk walk(axes_.data(), outer, begin);
    for (Index i = begin; i < end; ++i, walk.advance()) {
      copy_row(from + walk.from, row.from, to + walk.to, row.to, row.size);
    }
  });
}

// The innermost axis is contiguous in `to` and axis `along` in `from`: a transposition. Tiles are as wide as a cache
// line and pass through a buffer, so that every line is touched once: lines a power of two apart evict each other.
template <class T>
void StridedCopy::run_tiles(const T* from, T* to, std::size_t along) const {
  constexpr Index kTile = 64 / static_cast<Index>(sizeof(T));
  const Axis row = axes_[rank_ - 1];
  const Axis column = axes_[along];
  std::array<Axis, 2 * Shape::kMaxRank> outer{};
  std::size_t outer_rank = 0;
  for (std::size_t k = 0; k + 1 < rank_; ++k) {
    if (k != along) outer[outer_rank++] = axes_[k];
  }
  outer[outer_rank++] = {(column.size + kTile - 1) / kTile, kTile, kTile * column.to};
  Index strips = 1;
  for (std::size_t k = 0; k < outer_rank; ++k) strips *= outer[k].size;
  parallel_ranges(strips, kTile * row.size, [&](Index begin, Index end) {
    std::array<T, static_cast<std::size_t>(kTile * kTile)> buffer;
    Walk walk(outer.data(), outer_rank, begin);
    for (Index strip = begin; strip < end; ++strip, walk.advance()) {
      const Index height = std::min(kTile, column.size - strip % outer[outer_rank - 1].size * kTile);
      for (Index left = 0; left < row.size; left += kTile) {
        const Index width = std::min(kTile, row.size - left);
        const T* tile = from + walk.from + left * row.from;
        T* out = to + walk.to + left;
        for (Index j = 0; j < width; ++j) {
          std::memcpy(&buffer[at(j * kTile)], tile + j * row.from, at(height) * sizeof(T));
        }
        for (Index i = 0; i < height; ++i) {
          for (Index j = 0; j < width; ++j) out[i * column.to + j] = buffer[at(j * kTile + i)];
        }
      }
    }
  });
}

template void StridedCopy::run(const float*, float*) const;
template void StridedCopy::run(const double*, double*) const;
template void StridedCopy::run(const Index*, Index*) const;
template void StridedCopy::run(const bool*, bool*) const;

}  // namespace tapehead::detail
