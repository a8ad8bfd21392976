// SPDX-License-Identifier: MIT
// Copies elements between two layouts: what permute, slice, concat and broadcast_to have in common.
#pragma once

#include <array>

#include <tapehead/shape.h>

namespace tapehead::detail {

/// Axes are given from the outermost to the innermost, each with its size and the distance between neighbours on both
/// sides, in elements. Neighbouring axes that form one run are merged.
class StridedCopy {
 public:
  void add_axis(Index size, Index from_stride, Index to_stride);

  /// Copies over all threads; no element of `to` may be named twice. T is an element type.
  template <class T>
  void run(const T* from, T* to) const;

 private:
  struct Axis {
    Index size, from, to;
  };
  // Where one row of the innermost axis starts on both sides.
  class Walk;

  template <class T>
  void run_tiles(const T* from, T* to, std::size_t along) const;

  std::array<Axis, 2 * Shape::kMaxRank> axes_{};
  std::size_t rank_ = 0;
  bool empty_ = false;
};

}  // namespace tapehead::detail
