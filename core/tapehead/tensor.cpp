// SPDX-License-Identifier: MIT
#include <tapehead/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include <tapehead/error.h>
#include <tapehead/tape.h>

namespace tapehead {
namespace detail {

TensorBody::TensorBody(Ref<Storage> elements, const Shape& sizes, DType type)
    : dtype(type), storage(std::move(elements)), shape(sizes) {}

TensorBody::~TensorBody() { delete name; }

void TensorBody::destroy(TensorBody* body) noexcept {
  body->~TensorBody();
  deallocate(body, sizeof(TensorBody));
}

Ref<TensorBody> make_body(Ref<Storage> storage, const Shape& shape, DType dtype) {
  return Ref<TensorBody>::adopt(::new (allocate(sizeof(TensorBody))) TensorBody(std::move(storage), shape, dtype));
}

}  // namespace detail

namespace {

template <class T>
Tensor copy_in(std::span<const T> values, const Shape& shape) {
  if (static_cast<Index>(values.size()) != shape.numel()) {
    throw ShapeError(fmt::format("from_data: {} values do not fill shape {} of {} elements", values.size(),
                                 to_string(shape), shape.numel()));
  }
  Tensor out = empty(shape, dtype_of<T>());
  std::copy(values.begin(), values.end(), out.write<T>().begin());
  return out;
}

Tensor from_doubles(const std::vector<double>& values, const Shape& shape, DType dtype) {
  Tensor out = empty(shape, dtype);
  visit_any(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::transform(values.begin(), values.end(), out.write<T>().begin(), [](double v) { return static_cast<T>(v); });
  });
  return out;
}

void append_rows(std::vector<double>& values, std::initializer_list<std::initializer_list<double>> rows,
                 std::size_t columns) {
  for (const auto& row : rows) {
    if (row.size() != columns) {
      throw ShapeError(fmt::format("tensor: rows of {} and {} values; all must be equal", columns, row.size()));
    }
    values.insert(values.end(), row);
  }
}

}  // namespace

Tensor from_data(std::span<const float> values, const Shape& shape) { return copy_in(values, shape); }
Tensor from_data(std::span<const double> values, const Shape& shape) { return copy_in(values, shape); }
Tensor from_data(std::span<const Index> values, const Shape& shape) { return copy_in(values, shape); }
Tensor from_data(std::span<const bool> values, const Shape& shape) { return copy_in(values, shape); }

void Tensor::throw_empty() {
  throw StateError(
      "tensor: this one is empty; it was never given a value, was moved from, or holds a result that was "
      "not asked for");
}

void Tensor::check_dtype(const char* method, DType wanted) const {
  if (dtype() != wanted) {
    throw DTypeError(fmt::format("{}: the tensor is {}, asked for {}; use the matching element type or to()", method,
                                 name_of(dtype()), name_of(wanted)));
  }
}

double Tensor::item() const {
  if (numel() != 1) {
    throw ShapeError(
        fmt::format("item: the tensor is {} with {} elements; exactly one is needed", to_string(shape()), numel()));
  }
  return visit_any(dtype(), [&](auto zero) { return static_cast<double>(read<decltype(zero)>()[0]); });
}

double Tensor::at(std::initializer_list<Index> indices) const {
  if (static_cast<int>(indices.size()) != rank()) {
    throw IndexError(fmt::format("at: {} indices for a tensor of rank {}", indices.size(), rank()));
  }
  Index offset = 0;
  int axis = 0;
  for (const Index index : indices) {
    const Index size = shape()[axis];
    if (index < -size || index >= size) {
      throw IndexError(fmt::format("at: index {} is out of range for axis {} of {}", index, axis, to_string(shape())));
    }
    offset = offset * size + (index < 0 ? index + size : index);
    ++axis;
  }
  return visit_any(dtype(), [&](auto zero) {
    return static_cast<double>(read<decltype(zero)>()[static_cast<std::size_t>(offset)]);
  });
}

void* Tensor::mark_written(const char* by) {
  detail::Storage& storage = *body().storage;
  ++storage.version;
  storage.written_by = by;
  return storage.data();
}

Tensor& Tensor::requires_grad_(bool wanted) {
  if (!is_floating(dtype())) throw_dtype("requires_grad_", "the tensor", dtype(), "f32 or f64");
  if (body_->made_by) {
    throw GraphError("requires_grad_: this tensor is a recorded result, only leaves can ask; use detach() first");
  }
  body_->wants_grad = wanted;
  return *this;
}

Tensor Tensor::grad() const { return Tensor(body().grad); }

void Tensor::zero_grad() { body().grad.reset(); }

Tensor Tensor::detach() const { return Tensor(detail::make_body(body().storage, shape(), dtype())); }

std::string_view Tensor::name() const { return body().name != nullptr ? std::string_view(*body().name) : ""; }

void Tensor::set_name(std::string_view name) {
  detail::TensorBody& named = body();
  if (named.name == nullptr) named.name = new std::string;
  *named.name = name;
}

Tensor empty(const Shape& shape, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  return Tensor(detail::make_body(detail::Storage::make(bytes), shape, dtype));
}

Tensor zeros(const Shape& shape, DType dtype) {
  Tensor out = empty(shape, dtype);
  std::memset(out.body().storage->data(), 0, out.body().storage->bytes());
  return out;
}

Tensor ones(const Shape& shape, DType dtype) { return full(shape, 1, dtype); }

Tensor full(const Shape& shape, double value, DType dtype) {
  Tensor out = empty(shape, dtype);
  visit_any(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::ranges::fill(out.write<T>(), static_cast<T>(value));
  });
  return out;
}

Tensor eye(Index n, DType dtype) {
  Tensor out = zeros({n, n}, dtype);
  visit_any(dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::span<T> elements = out.write<T>();
    for (Index i = 0; i < n; ++i) elements[static_cast<std::size_t>(i * n + i)] = T{1};
  });
  return out;
}

Tensor arange(double start, double stop, double step, DType dtype) {
  if (step == 0 || !std::isfinite(start) || !std::isfinite(stop) || !std::isfinite(step)) {
    throw ValueError(
        fmt::format("arange: start {}, stop {} and step {} must be finite and step not 0", start, stop, step));
  }
  const Index count = std::max<Index>(0, static_cast<Index>(std::ceil((stop - start) / step)));
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<double>(i) * step;
  return from_doubles(values, {count}, dtype);
}

Tensor arange(Index stop) { return arange(0, static_cast<double>(stop)); }

Tensor tensor(double value, DType dtype) { return full({}, value, dtype); }

Tensor tensor(std::initializer_list<double> values, DType dtype) {
  return from_doubles(values, {static_cast<Index>(values.size())}, dtype);
}

Tensor tensor(std::initializer_list<std::initializer_list<double>> rows, DType dtype) {
  const std::size_t columns = rows.size() == 0 ? 0 : rows.begin()->size();
  std::vector<double> values;
  append_rows(values, rows, columns);
  return from_doubles(values, {static_cast<Index>(rows.size()), static_cast<Index>(columns)}, dtype);
}

Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<double>>> blocks, DType dtype) {
  const std::size_t rows = blocks.size() == 0 ? 0 : blocks.begin()->size();
  const std::size_t columns = rows == 0 ? 0 : blocks.begin()->begin()->size();
  std::vector<double> values;
  for (const auto& block : blocks) {
    if (block.size() != rows) {
      throw ShapeError(fmt::format("tensor: blocks of {} and {} rows; all must be equal", rows, block.size()));
    }
    append_rows(values, block, columns);
  }
  return from_doubles(
      values, {static_cast<Index>(blocks.size()), static_cast<Index>(rows), static_cast<Index>(columns)}, dtype);
}

}  // namespace tapehead
