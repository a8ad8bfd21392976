// SPDX-License-Identifier: MIT
// Matrix products.
#include <algorithm>

#include <fmt/format.h>

#include <tapehead/detail/broadcast.h>
#include <tapehead/detail/gemm.h>
#include <tapehead/detail/kernel.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

using detail::data;
using detail::fresh;
using detail::MatrixView;

// One product: the last two axes, as the flags say to read them.
struct Product {
  Index m, n, k;
  Index a_stride, b_stride;  // from row to row in memory
  bool transpose_a, transpose_b;

  template <class T>
  MatrixView<T> a(const T* at) const {
    return {at, a_stride, transpose_a};
  }
  template <class T>
  MatrixView<T> b(const T* at) const {
    return {at, b_stride, transpose_b};
  }
};

Product product_of(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  const auto rows = [](const Tensor& t, bool transposed) { return t.shape()[transposed ? -1 : -2]; };
  const auto columns = [](const Tensor& t, bool transposed) { return t.shape()[transposed ? -2 : -1]; };
  const Index k = columns(a, options.transpose_a);
  return {rows(a, options.transpose_a),
          columns(b, options.transpose_b),
          k,
          a.shape()[-1],
          b.shape()[-1],
          options.transpose_a,
          options.transpose_b};
}

Shape leading(const Shape& shape) {
  return Shape(std::span<const Index>(shape.begin(), static_cast<std::size_t>(shape.rank() - 2)));
}

Shape with_matrix(const Shape& batch, Index rows, Index columns) {
  return batch.inserted(batch.rank(), rows).inserted(batch.rank() + 1, columns);
}

// [..., m, k] seen as [rows, k].
Tensor flat(const Tensor& x) {
  const Index width = x.shape()[-1];
  return x.rank() == 2 ? x : reshape(x, Shape{x.shape().numel(0, x.rank() - 1), width});
}

template <class T>
void multiply_batches(const Tensor& a, const Tensor& b, const Product& p, const Shape& batch, Tensor& y) {
  const T* left = data<T>(a);
  const T* right = data<T>(b);
  T* out = fresh<T>(y);
  const Shape a_batch = leading(a.shape());
  const Shape b_batch = leading(b.shape());
  const Index a_size = p.m * p.k, b_size = p.k * p.n, y_size = p.m * p.n;
  if (p.m * p.n * p.k >= (Index{1} << 21)) {  // each product is work enough for all threads
    const detail::BroadcastLoop<2> loop(batch, {&a_batch, &b_batch});
    loop.run_in_order([&](const auto& at, Index to, Index n) {
      for (Index i = 0; i < n; ++i) {
        detail::gemm<T>(p.m, p.n, p.k, T{1}, p.a(left + (at[0] + i * loop.steps()[0]) * a_size),
                        p.b(right + (at[1] + i * loop.steps()[1]) * b_size), T{0}, out + (to + i) * y_size, p.n);
      }
    });
    return;
  }
  const detail::BroadcastLoop<2> loop(batch, {&a_batch, &b_batch});
  loop.run(p.m * p.n * p.k / 32 + 64, [&](const auto& at, Index to, Index n) {
    for (Index i = 0; i < n; ++i) {
      detail::gemm_tile<T>(p.m, p.n, p.k, T{1}, p.a(left + (at[0] + i * loop.steps()[0]) * a_size),
                           p.b(right + (at[1] + i * loop.steps()[1]) * b_size), T{0}, out + (to + i) * y_size, p.n);
    }
  });
}

Tensor matmul_forward(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  const Product p = product_of(a, b, options);
  const Shape batch = broadcast("matmul", leading(a.shape()), leading(b.shape()));
  Tensor y = empty(with_matrix(batch, p.m, p.n), a.dtype());
  visit_float(a.dtype(), "matmul", [&](auto zero) {
    using T = decltype(zero);
    if (b.rank() == 2 && !options.transpose_a) {  // all of a's batches share b: one product of many rows
      detail::gemm<T>(y.numel() / std::max<Index>(1, p.n), p.n, p.k, T{1}, p.a(data<T>(a)), p.b(data<T>(b)), T{0},
                      fresh<T>(y), p.n);
    } else if (y.numel() > 0) {
      multiply_batches<T>(a, b, p, batch, y);
    }
  });
  return y;
}

void matmul_backward(Backward& back, const MatmulOptions& options) {
  const Tensor& g = back.gradient();
  const bool ta = options.transpose_a, tb = options.transpose_b;
  if (back.wants(0)) {
    const Tensor b = back.saved(1);
    back.to(0, ta ? matmul(b, g, {.transpose_a = tb, .transpose_b = true}) : matmul(g, b, {.transpose_b = !tb}));
  }
  if (!back.wants(1)) return;
  const Tensor a = back.saved(0);
  const bool shared = back.input_shape(1).rank() == 2 && !ta;  // then all batches add up in one product
  const Tensor left = shared ? flat(a) : a;
  const Tensor gradient = shared ? flat(g) : g;
  back.to(1, tb ? matmul(gradient, left, {.transpose_a = true, .transpose_b = ta})
                : matmul(left, gradient, {.transpose_a = !ta}));
}

std::string described(const char* role, const Tensor& t) {
  const std::string name = t.name().empty() ? "" : fmt::format(" \"{}\"", t.name());
  return fmt::format("{}{} {}", role, name, to_string(t.shape()));
}

void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  detail::check_same_dtype("linear", x, weight);
  if (weight.rank() != 2) {
    throw ShapeError(fmt::format("linear: {} must be [out, in]", described("weight", weight)));
  }
  if (x.rank() < 1 || x.shape()[-1] != weight.shape()[1]) {
    throw ShapeError(fmt::format("linear: {} and {}; the last axis of the input must be {}, is {}",
                                 described("input", x), described("weight", weight), weight.shape()[1],
                                 x.rank() < 1 ? "missing" : std::to_string(x.shape()[-1])));
  }
  if (!bias.defined()) return;
  detail::check_same_dtype("linear", x, bias);
  if (bias.shape() != Shape{weight.shape()[0]}) {
    throw ShapeError(fmt::format("linear: {} and {}; the bias must be [{}]", described("bias", bias),
                                 described("weight", weight), weight.shape()[0]));
  }
}

// Before vectors become matrices, so that messages show what was passed.
void check_matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  detail::check_same_dtype("matmul", a, b);
  const auto fail = [&](const std::string& what) {
    throw ShapeError(fmt::format("matmul: a {}{} and b {}{}; {}", to_string(a.shape()),
                                 options.transpose_a ? " (transposed)" : "", to_string(b.shape()),
                                 options.transpose_b ? " (transposed)" : "", what));
  };
  if (a.rank() == 0 || b.rank() == 0) fail("a scalar has no axis to sum over, multiply() scales");
  if ((a.rank() == 1 && options.transpose_a) || (b.rank() == 1 && options.transpose_b)) {
    fail("a vector cannot be transposed, leave the flag out");
  }
  const Index left = a.shape()[options.transpose_a ? -2 : -1];
  const Index right = b.shape()[b.rank() == 1 || options.transpose_b ? -1 : -2];
  if (left != right) fail(fmt::format("the inner sizes {} and {} must be equal", left, right));
  for (int axis = -3; axis >= -std::min(a.rank(), b.rank()); --axis) {
    const Index mine = a.shape()[axis], other = b.shape()[axis];
    if (mine != other && mine != 1 && other != 1) {
      fail(fmt::format("axis {} is {} against {}, sizes must be equal or 1", axis, mine, other));
    }
  }
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  check_matmul(a, b, options);
  if (a.rank() == 1 || b.rank() == 1) {
    const Tensor y = matmul(a.rank() == 1 ? unsqueeze(a, 0) : a, b.rank() == 1 ? unsqueeze(b, 1) : b, options);
    const Tensor columns_dropped = b.rank() == 1 ? squeeze(y, -1) : y;
    return a.rank() == 1 ? squeeze(columns_dropped, b.rank() == 1 ? -1 : -2) : columns_dropped;
  }
  Tensor y = matmul_forward(a, b, options);
  return record("matmul", std::move(y), {&a, &b}, {b.requires_grad() ? &a : nullptr, a.requires_grad() ? &b : nullptr},
                [options](Backward& back) { matmul_backward(back, options); });
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_linear(x, weight, bias);
  const Index in = weight.shape()[1], out = weight.shape()[0];
  const Index rows = x.shape().numel(0, x.rank() - 1);
  Tensor y = empty(x.shape().with(-1, out), x.dtype());
  visit_float(x.dtype(), "linear", [&](auto zero) {
    using T = decltype(zero);
    const MatrixView<T> left{data<T>(x), in}, right{data<T>(weight), in, true};
    if (bias.defined()) {
      detail::gemm_bias<T>(rows, out, in, left, right, data<T>(bias), fresh<T>(y), out);
    } else {
      detail::gemm<T>(rows, out, in, T{1}, left, right, T{0}, fresh<T>(y), out);
    }
  });
  const Tensor* inputs[] = {&x, &weight, &bias};
  const Tensor* saved[] = {weight.requires_grad() ? &x : nullptr, x.requires_grad() ? &weight : nullptr};
  return record("linear", std::move(y), std::span<const Tensor* const>(inputs, bias.defined() ? 3 : 2), saved,
                [has_bias = bias.defined()](Backward& back) {
                  const Tensor& g = back.gradient();
                  if (back.wants(0)) back.to(0, matmul(g, back.saved(1)));
                  if (back.wants(1)) back.to(1, matmul(flat(g), flat(back.saved(0)), {.transpose_a = true}));
                  if (has_bias && back.wants(2)) back.to(2, g);
                });
}

}  // namespace tapehead
