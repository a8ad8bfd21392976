// SPDX-License-Identifier: MIT
#include <tapehead/rotary.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <tapehead/detail/broadcast.h>
#include <tapehead/detail/kernel.h>
#include <tapehead/error.h>
#include <tapehead/tape.h>

namespace tapehead {
namespace {

using detail::data;
using detail::fresh;

template <class T>
void turn_head(const T* x, const T* cos, const T* sin, T* y, Index half, RotaryPairs pairs, T direction) {
  const Index stride = pairs == RotaryPairs::halves ? 1 : 2;
  const Index partner = pairs == RotaryPairs::halves ? half : 1;
  for (Index i = 0; i < half; ++i) {
    const T a = x[i * stride], b = x[i * stride + partner], s = direction * sin[i];
    y[i * stride] = a * cos[i] - b * s;
    y[i * stride + partner] = a * s + b * cos[i];
  }
}

Tensor turn(const Tensor& x, const Tensor& cos, const Tensor& sin, const RotaryOptions& options, bool back_again) {
  Tensor y = detail::empty_like(x);
  const Index half = cos.shape()[-1], size = x.shape()[-1] / options.heads, width = x.shape()[-1];
  const Shape rows = x.shape().without(-1), table_rows = cos.shape().without(-1);
  const detail::BroadcastLoop<1> loop(rows, {&table_rows});
  visit_float(x.dtype(), "rotary", [&](auto zero) {
    using T = decltype(zero);
    loop.run(2 * width, [&](const std::array<Index, 1>& offsets, Index first, Index count) {
      for (Index row = 0; row < count; ++row) {
        const Index angles = (offsets[0] + row * loop.steps()[0]) * half;
        for (Index head = 0; head < options.heads; ++head) {
          const Index at = (first + row) * width + head * size;
          const T* from = data<T>(x) + at;
          T* to = fresh<T>(y) + at;
          turn_head(from, data<T>(cos) + angles, data<T>(sin) + angles, to, half, options.pairs,
                    back_again ? T{-1} : T{1});
          std::copy(from + 2 * half, from + size, to + 2 * half);
        }
      }
    });
  });
  return record("rotary", std::move(y), {&x}, {&cos, &sin}, [options, back_again](Backward& back) {
    back.to(0, turn(back.gradient(), back.saved(0), back.saved(1), options, !back_again));
  });
}

void check_table(const Tensor& x, const RotaryTable& table, Index heads) {
  for (const Tensor* part : {&table.cos, &table.sin}) {
    detail::check_same_dtype("rotary", x, *part);
    if (part->requires_grad()) {
      throw GraphError("rotary: the table wants a gradient; its angles are constants, detach() them");
    }
  }
  const Shape& shape = table.cos.shape();
  bool fits = shape == table.sin.shape() && shape.rank() >= 1 && shape.rank() <= x.rank() && x.rank() >= 1;
  for (int axis = 2; fits && axis <= shape.rank(); ++axis) {
    fits = shape[-axis] == 1 || shape[-axis] == x.shape()[-axis];
  }
  fits = fits && x.shape()[-1] % heads == 0 && 2 * shape[-1] <= x.shape()[-1] / heads;
  if (!fits) {
    throw ShapeError(
        fmt::format("rotary: x {} with {} heads, cos {} and sin {}; x must be [..., T, heads * size], cos and sin "
                    "[..., T, dims / 2] with dims up to size and leading axes that broadcast to those of x",
                    to_string(x.shape()), heads, to_string(shape), to_string(table.sin.shape())));
  }
}

}  // namespace

RotaryTable rotary_table(const Tensor& positions, Index dims, double base, DType dtype) {
  if (positions.dtype() != DType::i64) throw_dtype("rotary_table", "positions", positions.dtype(), "i64");
  if (dims < 2 || dims % 2 != 0) throw ValueError(fmt::format("rotary_table: dims {} must be even, at least 2", dims));
  if (!(base > 0)) throw ValueError(fmt::format("rotary_table: base {} must be above 0", base));
  const Index half = dims / 2;
  const Shape shape = positions.shape().inserted(positions.rank(), half);
  RotaryTable table{empty(shape, dtype), empty(shape, dtype)};
  visit_float(dtype, "rotary_table", [&](auto zero) {
    using T = decltype(zero);
    for (Index i = 0; i < half; ++i) {
      const double frequency = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
      for (Index at = 0; at < positions.numel(); ++at) {
        const double angle = static_cast<double>(data<Index>(positions)[at]) * frequency;
        fresh<T>(table.cos)[at * half + i] = static_cast<T>(std::cos(angle));
        fresh<T>(table.sin)[at * half + i] = static_cast<T>(std::sin(angle));
      }
    }
  });
  return table;
}

Tensor rotary(const Tensor& x, const RotaryTable& table, const RotaryOptions& options) {
  detail::check_floating("rotary", "x", x);
  detail::at_least_one("rotary", "heads", options.heads);
  check_table(x, table, options.heads);
  return turn(x, table.cos, table.sin, options, false);
}

}  // namespace tapehead
