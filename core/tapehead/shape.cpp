// SPDX-License-Identifier: MIT
#include <tapehead/shape.h>

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tapehead/error.h>

namespace tapehead {

void throw_dtype(const char* op, const char* role, DType dtype, const char* expected) {
  throw DTypeError(fmt::format("{}: {} must be {}, is {}", op, role, expected, name_of(dtype)));
}

Shape::Shape(std::span<const Index> sizes) : rank_(static_cast<int>(sizes.size())) {
  if (sizes.size() > kMaxRank) {
    throw ShapeError(fmt::format("shape: at most {} axes, got {}", kMaxRank, sizes.size()));
  }
  Index count = 1;
  bool empty = false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0) {
      throw ShapeError(fmt::format("shape: sizes must not be negative, axis {} is {}", i, sizes[i]));
    }
    sizes_[i] = sizes[i];
    empty = empty || sizes[i] == 0;
    // Eight bytes are the largest element: beyond this the bytes cannot be counted either.
    if (sizes[i] != 0 && __builtin_mul_overflow(count, sizes[i], &count)) count = -1;
    if (!empty && (count < 0 || count > (Index{1} << 60))) {
      throw ValueError(fmt::format("shape: [{}] has more elements than memory can address", fmt::join(sizes, ", ")));
    }
  }
}

Index Shape::numel(int first, int last) const {
  Index n = 1;
  for (int i = first; i < last; ++i) n *= sizes_[static_cast<std::size_t>(i)];
  return n;
}

Shape Shape::with(int axis, Index size) const {
  Shape out = *this;
  out.sizes_[static_cast<std::size_t>(normalize_axis("shape", axis, rank_))] = size;
  return out;
}

Shape Shape::without(int axis) const {
  std::vector<Index> sizes(begin(), end());
  sizes.erase(sizes.begin() + normalize_axis("shape", axis, rank_));
  return Shape(std::span<const Index>(sizes));
}

Shape Shape::inserted(int axis, Index size) const {
  std::vector<Index> sizes(begin(), end());
  sizes.insert(sizes.begin() + normalize_axis("shape", axis, rank_ + 1), size);
  return Shape(std::span<const Index>(sizes));
}

void Shape::throw_axis(int axis) const {
  throw IndexError(fmt::format("shape: axis {} is out of range for {} of rank {}", axis, to_string(*this), rank_));
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", ")); }

int normalize_axis(const char* op, int axis, int rank) {
  const int at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank) {
    if (rank == 0) {
      throw ShapeError(fmt::format("{}: axis {} of a scalar; it has no axes", op, axis));
    }
    throw IndexError(
        fmt::format("{}: axis {} is out of range for rank {}; use {} to {}", op, axis, rank, -rank, rank - 1));
  }
  return at;
}

std::vector<int> normalize_axes(const char* op, std::span<const int> axes, int rank) {
  std::vector<int> out;
  if (axes.empty()) {
    for (int i = 0; i < rank; ++i) out.push_back(i);
    return out;
  }
  for (const int axis : axes) out.push_back(normalize_axis(op, axis, rank));
  std::sort(out.begin(), out.end());
  const auto twice = std::adjacent_find(out.begin(), out.end());
  if (twice != out.end()) throw IndexError(fmt::format("{}: axis {} is named twice", op, *twice));
  return out;
}

Shape broadcast(const char* op, const Shape& a, const Shape& b) {
  if (a == b) return a;
  const int rank = std::max(a.rank(), b.rank());
  std::array<Index, Shape::kMaxRank> sizes{};
  for (int i = 1; i <= rank; ++i) {
    const Index left = i <= a.rank() ? a[-i] : 1;
    const Index right = i <= b.rank() ? b[-i] : 1;
    if (left != right && left != 1 && right != 1) {
      throw ShapeError(fmt::format(
          "{}: a {} and b {} do not broadcast; axis {} from the back is {} against {}, sizes must be equal or 1", op,
          to_string(a), to_string(b), i, left, right));
    }
    sizes[static_cast<std::size_t>(rank - i)] = left == 1 ? right : left;
  }
  return Shape(std::span<const Index>(sizes.data(), static_cast<std::size_t>(rank)));
}

Index detail::at_least_one(const char* op, const char* role, Index size) {
  if (size < 1) throw ValueError(fmt::format("{}: {} must be at least 1, is {}", op, role, size));
  return size;
}

}  // namespace tapehead
