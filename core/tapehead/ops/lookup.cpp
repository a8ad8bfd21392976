// SPDX-License-Identifier: MIT
// Operations that pick elements by number.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tapehead/detail/kernel.h>
#include <tapehead/detail/parallel.h>
#include <tapehead/error.h>
#include <tapehead/indexing.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

using detail::data;
using detail::fresh;

[[noreturn]] void throw_index(const char* op, const char* role, const Tensor& ids, Index at, Index limit,
                              const std::string& of) {
  std::vector<Index> place(static_cast<std::size_t>(ids.rank()));
  Index rest = at;
  for (int axis = ids.rank(); axis-- > 0;) {
    place[static_cast<std::size_t>(axis)] = rest % ids.shape()[axis];
    rest /= ids.shape()[axis];
  }
  throw IndexError(fmt::format("{}: {}[{}] is {}; it must be in [0, {}), {}", op, role, fmt::join(place, ", "),
                               data<Index>(ids)[at], limit, of));
}

void check_ids(const char* op, const char* role, const Tensor& ids) {
  if (ids.dtype() != DType::i64) throw_dtype(op, role, ids.dtype(), "i64");
}

template <class Describe>
void check_range(const char* op, const char* role, const Tensor& ids, Index limit, Describe describe) {
  const Index* values = data<Index>(ids);
  const Index* end = values + ids.numel();
  const auto outside = [limit](Index id) { return id < 0 || id >= limit; };
  const Index* bad = std::find_if(values, end, outside);
  if (bad != end) throw_index(op, role, ids, bad - values, limit, describe());
}

Shape with_last(const Shape& shape, Index size) { return shape.inserted(shape.rank(), size); }

// Row ids[i] of the result gathers row i of the gradient, in order. Every thread adds up columns of its own, so the
// order of the sums is that of the ids.
Tensor embedding_backward(const Tensor& gradient, const Tensor& ids, Index count) {
  const Index width = gradient.shape()[-1];
  const Index rows = ids.numel();
  Tensor y = zeros({count, width}, gradient.dtype());
  visit_float(gradient.dtype(), "embedding_backward", [&](auto zero) {
    using T = decltype(zero);
    constexpr Index kSlab = 256 / static_cast<Index>(sizeof(T));  // columns; four cache lines
    const Index* id = data<Index>(ids);
    detail::parallel_ranges((width + kSlab - 1) / kSlab, kSlab * rows + 16, [&](Index begin, Index end) {
      const Index first = begin * kSlab;
      const Index n = std::min(end * kSlab, width) - first;
      for (Index row = 0; row < rows; ++row) {
        const T* from = data<T>(gradient) + row * width + first;
        T* to = fresh<T>(y) + id[row] * width + first;
        for (Index i = 0; i < n; ++i) to[i] += from[i];
      }
    });
  });
  return record("embedding_backward", std::move(y), {&gradient}, {&ids},
                [](Backward& back) { back.to(0, embedding(back.gradient(), back.saved(0))); });
}

// Calls fn(index_at, x_at) with the offsets where each line along `axis` starts in index and in x. A line belongs to
// one thread, so that sums along it have a fixed order.
template <class F>
void for_lines(const Shape& index, const Shape& x, int axis, F&& fn) {
  if (index.numel() == 0) return;
  const Index inner = index.numel(axis + 1, index.rank());
  const Index length = index[axis];
  detail::parallel_ranges(index.numel() / length, 4 * length + 32, [&](Index begin, Index end) {
    for (Index line = begin; line < end; ++line) {
      Index rest = line;
      Index stride = 1;
      Index x_at = 0;
      for (int i = index.rank(); i-- > 0; stride *= x[i]) {
        if (i == axis) continue;
        x_at += rest % index[i] * stride;
        rest /= index[i];
      }
      fn(line / inner * inner * length + line % inner, x_at);
    }
  });
}

// The adjoint of gather: adds each element of the gradient where gather took it from.
Tensor gather_backward(const Tensor& gradient, int axis, const Tensor& index, const Shape& shape) {
  Tensor y = zeros(shape, gradient.dtype());
  const Index step = index.shape().numel(axis + 1, index.rank());
  const Index x_step = shape.numel(axis + 1, shape.rank());
  visit_float(gradient.dtype(), "gather_backward", [&](auto zero) {
    using T = decltype(zero);
    for_lines(index.shape(), shape, axis, [&](Index index_at, Index x_at) {
      const Index* id = data<Index>(index) + index_at;
      const T* from = data<T>(gradient) + index_at;
      T* to = fresh<T>(y) + x_at;
      for (Index i = 0; i < index.shape()[axis]; ++i) to[id[i * step] * x_step] += from[i * step];
    });
  });
  return record("gather_backward", std::move(y), {&gradient}, {&index},
                [axis](Backward& back) { back.to(0, gather(back.gradient(), axis, back.saved(0))); });
}

void check_along(const char* op, const Tensor& x, int axis, const Tensor& index) {
  check_ids(op, "index", index);
  bool fits = index.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == axis || index.shape()[i] <= x.shape()[i];
  if (!fits) {
    throw ShapeError(
        fmt::format("{}: x {} and index {}; they must have the same rank, and index no more than x on "
                    "every axis but {}",
                    op, to_string(x.shape()), to_string(index.shape()), axis));
  }
  const Index size = x.shape()[axis];
  check_range(op, "index", index, size,
              [&] { return fmt::format("the size of axis {} of x {}", axis, to_string(x.shape())); });
}

void check_values(const char* op, const Tensor& x, const Tensor& index, const Tensor& values) {
  detail::check_same_dtype(op, x, values);
  if (values.shape() != index.shape()) {
    throw ShapeError(fmt::format("{}: index {} and values {} must have one shape", op, to_string(index.shape()),
                                 to_string(values.shape())));
  }
}

void check_mask(const char* op, const Tensor& x, const Tensor& mask) {
  if (mask.dtype() != DType::boolean) throw_dtype(op, "mask", mask.dtype(), "bool");
  if (broadcast(op, x.shape(), mask.shape()) != x.shape()) {
    throw ShapeError(
        fmt::format("{}: mask {} must broadcast to x {}", op, to_string(mask.shape()), to_string(x.shape())));
  }
}

// Which entries of an index are the last to name their place, as bool.
Tensor stays(const Shape& shape, int axis, const Tensor& index) {
  const NoGrad no_grad;
  const Tensor numbers = reshape(arange(index.numel()), index.shape());
  return equal(gather(scatter(zeros(shape, DType::i64), axis, index, numbers), axis, index), numbers);
}

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& ids) {
  check_ids("embedding", "ids", ids);
  if (weight.rank() != 2) {
    throw ShapeError(fmt::format("embedding: weight {} must have two axes, [count, width]", to_string(weight.shape())));
  }
  const Index count = weight.shape()[0];
  const Index width = weight.shape()[1];
  check_range("embedding", "ids", ids, count,
              [&] { return fmt::format("the rows of weight {}", to_string(weight.shape())); });
  Tensor y = empty(with_last(ids.shape(), width), weight.dtype());
  const std::size_t bytes = static_cast<std::size_t>(width) * size_of(weight.dtype());
  const auto* table = static_cast<const std::byte*>(weight.body().storage->data());
  auto* out = static_cast<std::byte*>(y.body().storage->data());
  const Index* id = data<Index>(ids);
  detail::parallel_ranges(ids.numel(), width + 16, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      std::memcpy(out + static_cast<std::size_t>(i) * bytes, table + static_cast<std::size_t>(id[i]) * bytes, bytes);
    }
  });
  return record("embedding", std::move(y), {&weight}, {&ids},
                [count](Backward& back) { back.to(0, embedding_backward(back.gradient(), back.saved(0), count)); });
}

Tensor gather(const Tensor& x, int axis, const Tensor& index) {
  const int along = normalize_axis("gather", axis, x.rank());
  check_along("gather", x, along, index);
  Tensor y = empty(index.shape(), x.dtype());
  const Index step = index.shape().numel(along + 1, index.rank());
  const Index x_step = x.shape().numel(along + 1, x.rank());
  visit_any(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for_lines(index.shape(), x.shape(), along, [&](Index index_at, Index x_at) {
      const Index* id = data<Index>(index) + index_at;
      const T* from = data<T>(x) + x_at;
      T* to = fresh<T>(y) + index_at;
      for (Index i = 0; i < index.shape()[along]; ++i) to[i * step] = from[id[i * step] * x_step];
    });
  });
  return record("gather", std::move(y), {&x}, {&index}, [along](Backward& back) {
    back.to(0, gather_backward(back.gradient(), along, back.saved(0), back.input_shape(0)));
  });
}

Tensor one_hot(const Tensor& ids, Index classes, DType dtype) {
  check_ids("one_hot", "ids", ids);
  detail::at_least_one("one_hot", "classes", classes);
  check_range("one_hot", "ids", ids, classes, [] { return "the number of classes"; });
  Tensor y = zeros(with_last(ids.shape(), classes), dtype);
  visit_any(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (Index i = 0; i < ids.numel(); ++i) fresh<T>(y)[i * classes + data<Index>(ids)[i]] = T{1};
  });
  return y;
}

Tensor index_select(const Tensor& x, int axis, const Tensor& ids) {
  const int along = normalize_axis("index_select", axis, x.rank());
  check_ids("index_select", "ids", ids);
  if (ids.rank() != 1) {
    throw ShapeError(fmt::format("index_select: ids {} must have one axis", to_string(ids.shape())));
  }
  const Index size = x.shape()[along];
  check_range("index_select", "ids", ids, size,
              [&] { return fmt::format("the size of axis {} of x {}", axis, to_string(x.shape())); });
  const Index outer = x.shape().numel(0, along), inner = x.shape().numel(along + 1, x.rank());
  const Tensor rows = reshape(arange(outer), {outer, 1}) * full({}, static_cast<double>(size), DType::i64) + ids;
  return reshape(embedding(reshape(x, {outer * size, inner}), rows), x.shape().with(along, ids.numel()));
}

Tensor index(const Tensor& x, const std::vector<Tensor>& ids) {
  const int axes = static_cast<int>(ids.size());
  if (axes == 0) throw ValueError("index: ids is empty; give one tensor for each of the leading axes");
  if (axes > x.rank()) {
    throw ShapeError(fmt::format("index: {} ids for x {}, which has {} axes", axes, to_string(x.shape()), x.rank()));
  }
  Tensor rows = zeros({}, DType::i64);
  for (int axis = 0; axis < axes; ++axis) {
    const Tensor& id = ids[static_cast<std::size_t>(axis)];
    const std::string role = fmt::format("ids[{}]", axis);
    check_ids("index", role.c_str(), id);
    check_range("index", role.c_str(), id, x.shape()[axis],
                [&] { return fmt::format("the size of axis {} of x {}", axis, to_string(x.shape())); });
    rows = rows * full({}, static_cast<double>(x.shape()[axis]), DType::i64) + id;
  }
  const Index inner = x.shape().numel(axes, x.rank());
  std::vector<Index> shape(rows.shape().begin(), rows.shape().end());
  shape.insert(shape.end(), x.shape().begin() + axes, x.shape().end());
  return reshape(embedding(reshape(x, {x.shape().numel(0, axes), inner}), rows), Shape(shape));
}

Tensor scatter(const Tensor& x, int axis, const Tensor& index, const Tensor& values) {
  const int along = normalize_axis("scatter", axis, x.rank());
  check_along("scatter", x, along, index);
  check_values("scatter", x, index, values);
  Tensor y = detail::empty_like(x);
  const Index step = index.shape().numel(along + 1, index.rank());
  const Index y_step = x.shape().numel(along + 1, x.rank());
  visit_any(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::copy_n(data<T>(x), x.numel(), fresh<T>(y));
    for_lines(index.shape(), x.shape(), along, [&](Index index_at, Index y_at) {
      const Index* id = data<Index>(index) + index_at;
      const T* from = data<T>(values) + index_at;
      T* to = fresh<T>(y) + y_at;
      for (Index i = 0; i < index.shape()[along]; ++i) to[id[i * step] * y_step] = from[i * step];
    });
  });
  return record("scatter", std::move(y), {&x, &values}, {&index}, [along](Backward& back) {
    const Tensor& g = back.gradient();
    const Tensor places = back.saved(0);
    if (back.wants(0)) back.to(0, scatter(g, along, places, zeros(places.shape(), g.dtype())));
    if (back.wants(1)) {
      back.to(1, where(stays(g.shape(), along, places), gather(g, along, places), zeros({}, g.dtype())));
    }
  });
}

Tensor scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& values) {
  const int along = normalize_axis("scatter_add", axis, x.rank());
  detail::check_floating("scatter_add", "x", x);
  check_along("scatter_add", x, along, index);
  check_values("scatter_add", x, index, values);
  return x + gather_backward(values, along, index, x.shape());
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  check_mask("masked_fill", x, mask);
  if (x.dtype() == DType::i64 && !(value == std::trunc(value) && std::abs(value) < 0x1p63)) {
    throw ValueError(fmt::format("masked_fill: value {} has no place in x, which is i64", value));
  }
  return where(mask, full({}, value, x.dtype()), x);
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  check_mask("masked_select", x, mask);
  const Tensor chosen = broadcast_to(mask, x.shape());
  std::vector<Index> places;
  for (Index i = 0; i < x.numel(); ++i) {
    if (data<bool>(chosen)[i]) places.push_back(i);
  }
  const Tensor ids = from_data(std::span<const Index>(places), Shape{static_cast<Index>(places.size())});
  return gather(reshape(x, {x.numel()}), 0, ids);
}

}  // namespace tapehead
