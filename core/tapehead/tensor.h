// SPDX-License-Identifier: MIT
// The tensor: a handle, one pointer wide, on contiguous row-major elements. Copying a handle shares the elements;
// operations (ops.h) return new tensors; writes are explicit and counted, so that the tape notices them.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <tapehead/detail/body.h>
#include <tapehead/dtype.h>
#include <tapehead/shape.h>

namespace tapehead {

class Tensor;

/// What backward() and grad() may be told.
struct BackwardOptions;

class Tensor {
 public:
  /// Holds nothing; every use but defined() and assignment throws StateError.
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  // Only named tensors can be assigned: f(x) = y would change a temporary.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;

  bool defined() const { return static_cast<bool>(body_); }
  const Shape& shape() const { return body().shape; }
  DType dtype() const { return body().dtype; }
  int rank() const { return shape().rank(); }
  Index numel() const { return shape().numel(); }

  /// The only element, as a double. Throws ShapeError for any other number of elements.
  double item() const;
  /// The element at these indices, one for each axis, negative ones from the end. Throws IndexError.
  double at(std::initializer_list<Index> indices) const;

  /// All elements in row-major order. T is float, double, std::int64_t or bool; throws DTypeError for another type
  /// than dtype(). Valid as long as a tensor holds the storage.
  template <class T>
  std::span<const T> read() const {
    check_dtype("read", dtype_of<T>());
    return {static_cast<const T*>(body_->storage->data()), static_cast<std::size_t>(numel())};
  }
  /// The same to write into. Every handle on this storage sees the change; a backward that needs the old values
  /// throws GraphError.
  template <class T>
  std::span<T> write() {
    check_dtype("write", dtype_of<T>());
    return {static_cast<T*>(mark_written("write()")), static_cast<std::size_t>(numel())};
  }

  /// Whether gradients flow to or through this tensor.
  bool requires_grad() const { return body().requires_grad(); }
  /// Asks for a gradient of this leaf. Throws DTypeError unless it is f32 or f64, GraphError on a recorded result.
  Tensor& requires_grad_(bool wanted = true);
  /// True unless an operation was recorded to make it.
  bool is_leaf() const { return !body().made_by; }

  /// The gradient that backward() gathered in this leaf; not defined() before. Shaped like the tensor.
  Tensor grad() const;
  /// Drops the gathered gradient. Optimizers do it after each step; calling it again is harmless.
  void zero_grad();
  /// Plays the tape back from this scalar: adds d(this)/d(leaf) to the grad() of every leaf that wants one.
  /// Throws GraphError when this is not a scalar, needs no gradient, or was played before without `.retain`.
  void backward() const;
  void backward(const BackwardOptions& options) const;

  /// The same storage, off the tape.
  Tensor detach() const;

  /// What error messages and the printed tape call this leaf; empty when nobody named it.
  std::string_view name() const;
  void set_name(std::string_view name);

  // For operations and optimizers: no checks.
  explicit Tensor(detail::Ref<detail::TensorBody> body) : body_(std::move(body)) {}
  detail::TensorBody& body() const {
    if (!body_) throw_empty();
    return *body_;
  }
  const detail::Ref<detail::TensorBody>& ref() const { return body_; }
  void* mark_written(const char* by);

 private:
  [[noreturn]] static void throw_empty();
  void check_dtype(const char* method, DType wanted) const;

  detail::Ref<detail::TensorBody> body_;
};

/// Elements that nobody has written yet.
Tensor empty(const Shape& shape, DType dtype = DType::f32);
Tensor zeros(const Shape& shape, DType dtype = DType::f32);
Tensor ones(const Shape& shape, DType dtype = DType::f32);
Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
/// Ones on the diagonal. [n] -> [n, n]
Tensor eye(Index n, DType dtype = DType::f32);
/// start, start + step, ... up to but without stop. Throws ValueError for step 0.
Tensor arange(double start, double stop, double step = 1, DType dtype = DType::i64);
/// 0, 1, ... stop - 1, as i64.
Tensor arange(Index stop);
/// Values as written: tensor({{1, 2}, {3, 4}}). Throws ShapeError when rows differ in length.
Tensor tensor(double value, DType dtype = DType::f32);
Tensor tensor(std::initializer_list<double> values, DType dtype = DType::f32);
Tensor tensor(std::initializer_list<std::initializer_list<double>> rows, DType dtype = DType::f32);
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<double>>> blocks,
              DType dtype = DType::f32);
/// A copy of elements in row-major order; the dtype follows the element type. Throws ShapeError on another count.
Tensor from_data(std::span<const float> values, const Shape& shape);
Tensor from_data(std::span<const double> values, const Shape& shape);
Tensor from_data(std::span<const Index> values, const Shape& shape);
Tensor from_data(std::span<const bool> values, const Shape& shape);

/// How a tensor is printed; NumPy's defaults.
struct PrintOptions {
  int precision = 8;       ///< significant decimals after the point
  Index threshold = 1000;  ///< more elements than this are summarised
  Index edge_items = 3;    ///< elements kept at each end of an axis when summarised
  int line_width = 75;     ///< characters in a row before it wraps
};

/// NumPy's layout: brackets per axis, aligned columns, dots for what is left out. A scalar prints every digit that it
/// takes to read it back. Throws ValueError for a negative precision or threshold and for edge_items below 1.
std::string to_string(const Tensor& tensor, const PrintOptions& options = {});
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);
std::ostream& operator<<(std::ostream& stream, const Shape& shape);

}  // namespace tapehead

namespace tapehead::detail {

// Takes no format specification: a tensor's layout is chosen with PrintOptions.
template <class T>
struct TextFormatter {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(const T& value, Context& context) const {
    const std::string text = to_string(value);
    return std::copy(text.begin(), text.end(), context.out());
  }
};

}  // namespace tapehead::detail

template <>
struct fmt::formatter<tapehead::Tensor> : tapehead::detail::TextFormatter<tapehead::Tensor> {};
template <>
struct fmt::formatter<tapehead::Shape> : tapehead::detail::TextFormatter<tapehead::Shape> {};
