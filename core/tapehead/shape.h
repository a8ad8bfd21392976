// SPDX-License-Identifier: MIT
// The sizes of a tensor's axes, held inline, and the rules every operation shares: axes and broadcasting.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <tapehead/dtype.h>

namespace tapehead {

/// Up to eight axes, row-major. Rank 0 is a scalar with one element.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  constexpr Shape() = default;
  /// Throws ShapeError above rank 8 or for a negative size, ValueError if the elements cannot be counted in 63 bits.
  Shape(std::initializer_list<Index> sizes) : Shape(std::span<const Index>(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const Index> sizes);

  int rank() const { return rank_; }
  /// Size of an axis; -1 is the last. Throws IndexError.
  Index operator[](int axis) const {
    const int at = axis < 0 ? axis + rank_ : axis;
    if (at < 0 || at >= rank_) throw_axis(axis);
    return sizes_[static_cast<std::size_t>(at)];
  }
  /// Number of elements.
  Index numel() const {
    Index n = 1;
    for (int i = 0; i < rank_; ++i) n *= sizes_[static_cast<std::size_t>(i)];
    return n;
  }
  /// Product of the sizes of axes [first, last).
  Index numel(int first, int last) const;

  const Index* begin() const { return sizes_.data(); }
  const Index* end() const { return sizes_.data() + rank_; }

  Shape with(int axis, Index size) const;      ///< this shape with one axis resized
  Shape without(int axis) const;               ///< this shape with one axis removed
  Shape inserted(int axis, Index size) const;  ///< this shape with an axis put in before `axis`

  bool operator==(const Shape& other) const {
    if (rank_ != other.rank_) return false;
    for (std::size_t i = 0; i < static_cast<std::size_t>(rank_); ++i) {
      if (sizes_[i] != other.sizes_[i]) return false;
    }
    return true;
  }

 private:
  [[noreturn]] void throw_axis(int axis) const;

  std::array<Index, kMaxRank> sizes_{};
  int rank_ = 0;
};

/// "[2, 3]".
std::string to_string(const Shape& shape);

/// The axis counted from the front, in [0, rank). Throws IndexError naming the operation, the axis and the rank.
int normalize_axis(const char* op, int axis, int rank);

/// The axes counted from the front, sorted; none means all. Throws IndexError, also for an axis named twice.
std::vector<int> normalize_axes(const char* op, std::span<const int> axes, int rank);

/// The common shape under NumPy's broadcasting rules. Throws ShapeError naming both shapes and the axis.
Shape broadcast(const char* op, const Shape& a, const Shape& b);

namespace detail {
/// The size. Throws ValueError, which begins with `op`, if it is below 1.
Index at_least_one(const char* op, const char* role, Index size);
}  // namespace detail

}  // namespace tapehead
