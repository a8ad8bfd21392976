// SPDX-License-Identifier: MIT
// Rearrangements that slices, joins and broadcasts are enough for.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

// Every run of `inner` elements `repeats` times in a row, as a tensor of `shape`.
Tensor repeat_runs(const Tensor& x, Index inner, Index repeats, const Shape& shape) {
  const Index runs = inner == 0 ? 0 : x.numel() / inner;
  return reshape(broadcast_to(reshape(x, Shape{runs, 1, inner}), Shape{runs, repeats, inner}), shape);
}

}  // namespace

Tensor flip(const Tensor& x, const Axes& axes) {
  Tensor y = x;
  for (const int axis : normalize_axes("flip", axes.values(), x.rank())) y = slice(y, axis, {.step = -1});
  return y;
}

Tensor roll(const Tensor& x, Index shift, int axis) {
  const int place = normalize_axis("roll", axis, x.rank());
  const Index size = x.shape()[place];
  const Index moved = size == 0 ? 0 : (shift % size + size) % size;
  if (moved == 0) return x;
  return concat({slice(x, place, {.start = size - moved}), slice(x, place, {.stop = size - moved})}, place);
}

Tensor pad(const Tensor& x, const std::vector<Padding>& paddings, double value) {
  const int count = static_cast<int>(paddings.size());
  if (count > x.rank()) {
    throw ShapeError(fmt::format("pad: {} paddings for x {} of rank {}; give at most one for each axis", count,
                                 to_string(x.shape()), x.rank()));
  }
  for (int i = 0; i < count; ++i) {
    const Padding& padding = paddings[static_cast<std::size_t>(i)];
    if (padding.before >= 0 && padding.after >= 0) continue;
    throw ValueError(
        fmt::format("pad: padding {} and {} of axis {} of x {}; neither may be negative, slice() takes away",
                    padding.before, padding.after, x.rank() - count + i, to_string(x.shape())));
  }
  Tensor y = x;
  for (int i = 0; i < count; ++i) {
    const auto [before, after] = paddings[static_cast<std::size_t>(i)];
    if (before == 0 && after == 0) continue;
    const int axis = x.rank() - count + i;
    y = concat(
        {full(y.shape().with(axis, before), value, x.dtype()), y, full(y.shape().with(axis, after), value, x.dtype())},
        axis);
  }
  return y;
}

Tensor tile(const Tensor& x, const std::vector<Index>& repeats) {
  if (std::any_of(repeats.begin(), repeats.end(), [](Index n) { return n < 0; })) {
    throw ValueError(fmt::format("tile: repeats [{}] of x {}; none may be negative", fmt::join(repeats, ", "),
                                 to_string(x.shape())));
  }
  const int count = static_cast<int>(repeats.size());
  Shape shape = x.shape();
  while (shape.rank() < count) shape = shape.inserted(0, 1);
  Tensor y = reshape(x, shape);
  for (int i = 0; i < count; ++i) {
    const Index n = repeats[static_cast<std::size_t>(i)];
    const int axis = shape.rank() - count + i;
    if (n != 1) y = repeat_runs(y, y.shape().numel(axis, y.rank()), n, y.shape().with(axis, n * y.shape()[axis]));
  }
  return y;
}

Tensor repeat_interleave(const Tensor& x, Index repeats, int axis) {
  const int place = normalize_axis("repeat_interleave", axis, x.rank());
  if (repeats < 0) {
    throw ValueError(fmt::format("repeat_interleave: repeats is {}; it must not be negative", repeats));
  }
  const Shape shape = x.shape().with(place, repeats * x.shape()[place]);
  return repeat_runs(x, x.shape().numel(place + 1, x.rank()), repeats, shape);
}

}  // namespace tapehead
