// SPDX-License-Identifier: MIT
// Operations that move elements and compute nothing.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tapehead/detail/kernel.h>
#include <tapehead/detail/parallel.h>
#include <tapehead/detail/strided_copy.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

using detail::data;
using detail::fresh;
using detail::StridedCopy;

constexpr std::size_t kMaxRank = Shape::kMaxRank;
using Strides = std::array<Index, kMaxRank>;
using Order = std::array<int, kMaxRank>;

std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

Strides dense_strides(const Shape& shape) {
  Strides strides{};
  Index stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[at(axis)] = stride;
    stride *= shape[axis];
  }
  return strides;
}

void run_copy(const StridedCopy& copy, const Tensor& from, Index from_offset, Tensor& to, Index to_offset) {
  visit_any(from.dtype(), [&](auto zero) {
    using T = decltype(zero);
    copy.run(data<T>(from) + from_offset, fresh<T>(to) + to_offset);
  });
}

Tensor permute_by(const Tensor& x, const Order& order) {
  const int rank = x.rank();
  const Strides strides = dense_strides(x.shape());
  Strides sizes{};
  for (int i = 0; i < rank; ++i) sizes[at(i)] = x.shape()[order[at(i)]];
  Tensor y = empty(Shape(std::span<const Index>(sizes.data(), at(rank))), x.dtype());
  const Strides out_strides = dense_strides(y.shape());
  StridedCopy copy;
  for (int i = 0; i < rank; ++i) copy.add_axis(sizes[at(i)], strides[at(order[at(i)])], out_strides[at(i)]);
  run_copy(copy, x, 0, y, 0);
  return record("permute", std::move(y), {&x}, {}, [order](Backward& back) {
    Order inverse{};
    for (int i = 0; i < back.gradient().rank(); ++i) inverse[at(order[at(i)])] = i;
    back.to(0, permute_by(back.gradient(), inverse));
  });
}

// Which elements of a tensor a slice names: for each axis the first, the distance to the next, and how many.
struct Box {
  Strides start{};
  Strides step{};
  Strides count{};

  static Box all(const Shape& shape) {
    Box box;
    box.step.fill(1);
    std::copy(shape.begin(), shape.end(), box.count.begin());
    return box;
  }
  void narrow(int axis, Index size, const Slice& range) {
    if (range.step == 0) throw ValueError("slice: the step must not be 0");
    const bool forward = range.step > 0;
    const Index low = forward ? 0 : -1;
    const Index high = forward ? size : size - 1;
    const auto position = [&](const std::optional<Index>& given, Index otherwise) {
      if (!given) return otherwise;
      return std::clamp(*given < 0 ? *given + size : *given, low, high);
    };
    const Index first = position(range.start, forward ? low : high);
    const Index last = position(range.stop, forward ? high : low);
    const Index distance = last - first;
    const bool some = forward ? distance > 0 : distance < 0;
    count[at(axis)] = some ? (distance + (forward ? -1 : 1)) / range.step + 1 : 0;
    start[at(axis)] = some ? first : 0;
    step[at(axis)] = count[at(axis)] > 1 ? range.step : 1;
  }
  Index offset(const Strides& strides) const {
    Index sum = 0;
    for (std::size_t i = 0; i < kMaxRank; ++i) sum += start[i] * strides[i];
    return sum;
  }
};

Shape box_shape(const Box& box, int rank) { return Shape(std::span<const Index>(box.count.data(), at(rank))); }

Tensor slice_backward(const Tensor& gradient, const Box& box, const Shape& shape);

// The elements in the box of x as a tensor of `shape`, which has as many elements.
Tensor take(const char* op, const Tensor& x, const Box& box, const Shape& shape) {
  Tensor y = empty(shape, x.dtype());
  const Strides strides = dense_strides(x.shape());
  const Strides dense = dense_strides(box_shape(box, x.rank()));
  StridedCopy copy;
  for (int i = 0; i < x.rank(); ++i) {
    copy.add_axis(box.count[at(i)], box.step[at(i)] * strides[at(i)], dense[at(i)]);
  }
  run_copy(copy, x, box.offset(strides), y, 0);
  return record(op, std::move(y), {&x}, {},
                [box](Backward& back) { back.to(0, slice_backward(back.gradient(), box, back.input_shape(0))); });
}

// The gradient put back where the slice came from, 0 elsewhere.
Tensor slice_backward(const Tensor& gradient, const Box& box, const Shape& shape) {
  Tensor y = zeros(shape, gradient.dtype());
  const Strides strides = dense_strides(shape);
  const Strides dense = dense_strides(box_shape(box, shape.rank()));
  StridedCopy copy;
  for (int i = 0; i < shape.rank(); ++i) {
    copy.add_axis(box.count[at(i)], dense[at(i)], box.step[at(i)] * strides[at(i)]);
  }
  run_copy(copy, gradient, 0, y, box.offset(strides));
  return record("slice_backward", std::move(y), {&gradient}, {},
                [box](Backward& back) { back.to(0, take("slice", back.gradient(), box, back.input_shape(0))); });
}

std::vector<const Tensor*> pointers(const std::vector<Tensor>& tensors) {
  std::vector<const Tensor*> out;
  for (const Tensor& tensor : tensors) out.push_back(&tensor);
  return out;
}

// Writes the tensors side by side: for each of `outer` blocks the next piece of every tensor.
Tensor join(const std::vector<Tensor>& tensors, Index outer, const Shape& shape) {
  Tensor y = empty(shape, tensors[0].dtype());
  const Index width = outer == 0 ? 0 : y.numel() / outer;
  Index offset = 0;
  for (const Tensor& tensor : tensors) {
    const Index own = outer == 0 ? 0 : tensor.numel() / outer;
    StridedCopy copy;
    copy.add_axis(outer, own, width);
    copy.add_axis(own, 1, 1);
    run_copy(copy, tensor, 0, y, offset);
    offset += own;
  }
  return y;
}

void check_list(const char* op, const std::vector<Tensor>& tensors) {
  if (tensors.empty()) throw ValueError(fmt::format("{}: the list of tensors is empty; give at least one", op));
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i].dtype() == tensors[0].dtype()) continue;
    throw DTypeError(fmt::format("{}: tensor 0 {} is {} and tensor {} {} is {}; convert one with to()", op,
                                 to_string(tensors[0].shape()), name_of(tensors[0].dtype()), i,
                                 to_string(tensors[i].shape()), name_of(tensors[i].dtype())));
  }
}

// Keeps the columns [from(row), to(row)) of every row of the last two axes and clears the others.
template <class Limits>
Tensor keep_columns(const Tensor& x, Limits limits) {
  Tensor y = detail::empty_like(x);
  const Index rows = x.shape()[-2];
  const Index columns = x.shape()[-1];
  const Index all_rows = columns == 0 ? 0 : x.numel() / columns;
  visit_any(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    detail::parallel_ranges(all_rows, columns + 16, [&](Index begin, Index end) {
      for (Index row = begin; row < end; ++row) {
        const T* from = data<T>(x) + row * columns;
        T* to = fresh<T>(y) + row * columns;
        const auto [first, last] = limits(row % rows);
        std::fill(to, to + first, T{});
        std::copy(from + first, from + last, to + first);
        std::fill(to + last, to + columns, T{});
      }
    });
  });
  return y;
}

void check_matrix(const char* op, const Tensor& x) {
  if (x.rank() >= 2) return;
  throw ShapeError(fmt::format("{}: x {} has rank {}; at least 2 axes are needed", op, to_string(x.shape()), x.rank()));
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  if (shape.numel() != x.numel()) {
    throw ShapeError(
        fmt::format("reshape: x {} has {} elements and shape {} takes {}; choose sizes with the same product",
                    to_string(x.shape()), x.numel(), to_string(shape), shape.numel()));
  }
  Tensor y(detail::make_body(x.body().storage, shape, x.dtype()));
  return record("reshape", std::move(y), {&x}, {},
                [](Backward& back) { back.to(0, reshape(back.gradient(), back.input_shape(0))); });
}

Tensor reshape(const Tensor& x, std::initializer_list<Index> shape) {
  const auto open = std::find(shape.begin(), shape.end(), Index{-1});
  if (open == shape.end()) return reshape(x, Shape(shape));
  if (std::find(open + 1, shape.end(), Index{-1}) != shape.end()) {
    throw ShapeError(
        fmt::format("reshape: shape [{}] leaves more than one size open; only one may be -1", fmt::join(shape, ", ")));
  }
  std::vector<Index> sizes(shape);
  Index& size = sizes[static_cast<std::size_t>(open - shape.begin())];
  size = 1;
  const Index known = Shape(std::span<const Index>(sizes)).numel();
  if (known == 0 || x.numel() % known != 0) {
    throw ShapeError(
        fmt::format("reshape: x {} has {} elements, the known sizes of shape [{}] take {}; no size in "
                    "place of -1 fits",
                    to_string(x.shape()), x.numel(), fmt::join(shape, ", "), known));
  }
  size = x.numel() / known;
  return reshape(x, Shape(std::span<const Index>(sizes)));
}

Tensor permute(const Tensor& x, const std::vector<int>& axes) {
  if (static_cast<int>(axes.size()) != x.rank()) {
    throw ShapeError(fmt::format("permute: {} axes [{}] for x {} of rank {}; name each axis once", axes.size(),
                                 fmt::join(axes, ", "), to_string(x.shape()), x.rank()));
  }
  Order order{};
  std::array<bool, kMaxRank> seen{};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    order[i] = normalize_axis("permute", axes[i], x.rank());
    if (std::exchange(seen[at(order[i])], true)) {
      throw ShapeError(fmt::format("permute: axes [{}] of x {} name axis {} twice; name each axis once",
                                   fmt::join(axes, ", "), to_string(x.shape()), order[i]));
    }
  }
  return permute_by(x, order);
}

Tensor transpose(const Tensor& x, int axis_a, int axis_b) {
  Order order{};
  for (int i = 0; i < x.rank(); ++i) order[at(i)] = i;
  std::swap(order[at(normalize_axis("transpose", axis_a, x.rank()))],
            order[at(normalize_axis("transpose", axis_b, x.rank()))]);
  return permute_by(x, order);
}

Tensor unsqueeze(const Tensor& x, int axis) {
  return reshape(x, x.shape().inserted(normalize_axis("unsqueeze", axis, x.rank() + 1), 1));
}

Tensor squeeze(const Tensor& x, int axis) {
  const int place = normalize_axis("squeeze", axis, x.rank());
  if (x.shape()[place] != 1) {
    throw ShapeError(fmt::format("squeeze: axis {} of x {} has size {}; only an axis of size 1 can be taken out", axis,
                                 to_string(x.shape()), x.shape()[place]));
  }
  return reshape(x, x.shape().without(place));
}

Tensor slice(const Tensor& x, int axis, const Slice& range) {
  Box box = Box::all(x.shape());
  const int place = normalize_axis("slice", axis, x.rank());
  box.narrow(place, x.shape()[place], range);
  return take("slice", x, box, box_shape(box, x.rank()));
}

Tensor slice(const Tensor& x, std::initializer_list<Slice> ranges) {
  if (static_cast<int>(ranges.size()) > x.rank()) {
    throw ShapeError(fmt::format("slice: {} ranges for x {} of rank {}; give at most one for each axis", ranges.size(),
                                 to_string(x.shape()), x.rank()));
  }
  Box box = Box::all(x.shape());
  int axis = 0;
  for (const Slice& range : ranges) {
    box.narrow(axis, x.shape()[axis], range);
    ++axis;
  }
  return take("slice", x, box, box_shape(box, x.rank()));
}

Tensor select(const Tensor& x, int axis, Index index) {
  const int place = normalize_axis("select", axis, x.rank());
  const Index size = x.shape()[place];
  if (index < -size || index >= size) {
    throw IndexError(fmt::format("select: index {} is out of range for axis {} of x {}; its size is {}", index, axis,
                                 to_string(x.shape()), size));
  }
  Box box = Box::all(x.shape());
  box.start[at(place)] = index < 0 ? index + size : index;
  box.count[at(place)] = 1;
  return take("select", x, box, x.shape().without(place));
}

Tensor concat(const std::vector<Tensor>& tensors, int axis) {
  check_list("concat", tensors);
  const Shape& first = tensors[0].shape();
  const int place = normalize_axis("concat", axis, first.rank());
  std::vector<Index> borders{0};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Shape& shape = tensors[i].shape();
    if (shape.rank() != first.rank() || shape.with(place, first[place]) != first) {
      throw ShapeError(fmt::format("concat: tensor 0 {} and tensor {} {}; all sizes but that of axis {} must be equal",
                                   to_string(first), i, to_string(shape), place));
    }
    borders.push_back(borders.back() + shape[place]);
  }
  Tensor y = join(tensors, first.numel(0, place), first.with(place, borders.back()));
  return record("concat", std::move(y), pointers(tensors), {}, [place, borders](Backward& back) {
    for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
      if (!back.wants(static_cast<int>(i))) continue;
      back.to(static_cast<int>(i), slice(back.gradient(), place, {borders[i], borders[i + 1]}));
    }
  });
}

Tensor stack(const std::vector<Tensor>& tensors, int axis) {
  check_list("stack", tensors);
  const Shape& first = tensors[0].shape();
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i].shape() == first) continue;
    throw ShapeError(fmt::format("stack: tensor 0 {} and tensor {} {}; all shapes must be equal", to_string(first), i,
                                 to_string(tensors[i].shape())));
  }
  const int place = normalize_axis("stack", axis, first.rank() + 1);
  const int count = static_cast<int>(tensors.size());
  Tensor y = join(tensors, first.numel(0, place), first.inserted(place, count));
  return record("stack", std::move(y), pointers(tensors), {}, [place, count](Backward& back) {
    for (int i = 0; i < count; ++i) {
      if (back.wants(i)) back.to(i, select(back.gradient(), place, i));
    }
  });
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  const int extra = shape.rank() - x.rank();
  for (int i = 0; i < x.rank(); ++i) {
    if (extra >= 0 && (x.shape()[i] == 1 || x.shape()[i] == shape[i + extra])) continue;
    throw ShapeError(
        fmt::format("broadcast_to: x {} does not broadcast to shape {}; counted from the back, each size of "
                    "x must be 1 or equal",
                    to_string(x.shape()), to_string(shape)));
  }
  Tensor y = empty(shape, x.dtype());
  const Strides strides = dense_strides(x.shape());
  const Strides out_strides = dense_strides(shape);
  StridedCopy copy;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool repeats = i < extra || x.shape()[i - extra] == 1;
    copy.add_axis(shape[i], repeats ? 0 : strides[at(i - extra)], out_strides[at(i)]);
  }
  run_copy(copy, x, 0, y, 0);
  return record("broadcast_to", std::move(y), {&x}, {}, [](Backward& back) { back.to(0, back.gradient()); });
}

Tensor tril(const Tensor& x, Index diagonal) {
  check_matrix("tril", x);
  const Index columns = x.shape()[-1];
  const Index shift = std::clamp(diagonal, -x.shape()[-2], columns);
  Tensor y =
      keep_columns(x, [=](Index row) { return std::pair(Index{0}, std::clamp<Index>(row + shift + 1, 0, columns)); });
  return record("tril", std::move(y), {&x}, {},
                [diagonal](Backward& back) { back.to(0, tril(back.gradient(), diagonal)); });
}

Tensor triu(const Tensor& x, Index diagonal) {
  check_matrix("triu", x);
  const Index columns = x.shape()[-1];
  const Index shift = std::clamp(diagonal, -x.shape()[-2], columns);
  Tensor y = keep_columns(x, [=](Index row) { return std::pair(std::clamp<Index>(row + shift, 0, columns), columns); });
  return record("triu", std::move(y), {&x}, {},
                [diagonal](Backward& back) { back.to(0, triu(back.gradient(), diagonal)); });
}

}  // namespace tapehead
