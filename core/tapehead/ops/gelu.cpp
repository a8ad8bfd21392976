// SPDX-License-Identifier: MIT
// The Gaussian error linear unit and its slope, each in one pass.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tapehead/ops/gelu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <tapehead/detail/kernel_pair.h>
#include <tapehead/detail/simd-inl.h>

#ifndef TAPEHEAD_GELU_KERNELS
#define TAPEHEAD_GELU_KERNELS
namespace tapehead {
template <class T>
struct GeluKernels {  // the form with tanh
  void (*forward)(const T* x, T* y, Index n);
  void (*backward)(const T* x, const T* g, T* dx, Index n);
};
inline constexpr double kGeluScale = 0.79788456080286535588;  // sqrt(2 / pi)
inline constexpr double kGeluCubic = 0.044715;
}  // namespace tapehead
#endif

HWY_BEFORE_NAMESPACE();
namespace tapehead::HWY_NAMESPACE {
namespace {

// (1 + tanh(u)) / 2 is the sigmoid of 2 u, u = sqrt(2/pi) (x + 0.044715 x^3).
template <class D, class V>
HWY_INLINE V Gate(D d, V x) {
  using T = hn::TFromD<D>;
  const V linear = hn::Set(d, static_cast<T>(2 * kGeluScale));
  const V cubic = hn::Set(d, static_cast<T>(2 * kGeluScale * kGeluCubic));
  return Sigmoid(d, hn::Mul(x, hn::MulAdd(cubic, hn::Mul(x, x), linear)));
}

template <class T>
void forward(const T* x, T* y, Index n) {
  for_vectors<T>(n, [=](auto d, Index, auto load, auto store) HWY_ATTR {
    const auto v = load(x);
    store(Gated(v, Gate(d, v)), y);
  });
}

// With s = gate(x): d(x s)/dx = s + x s (1 - s) d(2u)/dx
template <class T>
void backward(const T* x, const T* g, T* dx, Index n) {
  for_vectors<T>(n, [=](auto d, Index, auto load, auto store) HWY_ATTR {
    const auto v = load(x);
    const auto s = Gate(d, v);
    const auto linear = hn::Set(d, static_cast<T>(2 * kGeluScale));
    const auto cubic = hn::Set(d, static_cast<T>(6 * kGeluScale * kGeluCubic));
    const auto slope = hn::MulAdd(cubic, hn::Mul(v, v), linear);
    const auto bend = hn::Mul(s, hn::Sub(hn::Set(d, T{1}), s));
    store(hn::Mul(load(g), hn::Add(s, Gated(hn::Mul(v, slope), bend))), dx);
  });
}

const detail::KernelPair<GeluKernels>* gelu_kernels() {
  static constexpr detail::KernelPair<GeluKernels> both{{forward<float>, backward<float>},
                                                        {forward<double>, backward<double>}};
  return &both;
}

}  // namespace
}  // namespace tapehead::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <numbers>

#include <tapehead/detail/kernel.h>
#include <tapehead/detail/parallel.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

using detail::data;
using detail::fresh;

HWY_EXPORT(gelu_kernels);

template <class T>
const GeluKernels<T>& kernels(T) {
  static const auto* const chosen = HWY_DYNAMIC_DISPATCH(gelu_kernels)();
  return chosen->of(T{});
}

template <class T>
T normal_cdf(T x) {
  return T{0.5} * std::erfc(-x * static_cast<T>(std::numbers::sqrt2 / 2));
}
template <class T>
T normal_density(T x) {
  return std::exp(T{-0.5} * x * x) * static_cast<T>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
}

template <class T>
void exact_forward(const T* x, T* y, Index n) {
  for (Index i = 0; i < n; ++i) y[i] = std::isinf(x[i]) && x[i] < 0 ? T{0} : x[i] * normal_cdf(x[i]);
}
template <class T>
void exact_backward(const T* x, const T* g, T* dx, Index n) {
  for (Index i = 0; i < n; ++i) {
    dx[i] = g[i] * (normal_cdf(x[i]) + (std::isinf(x[i]) ? T{0} : x[i] * normal_density(x[i])));
  }
}

// The second derivative, from recorded operations.
Tensor curvature(const Tensor& x, Gelu form) {
  const Tensor x2 = x * x;
  if (form == Gelu::exact) {
    return exp(-0.5 * x2) * (2.0 - x2) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  }
  const Tensor s = sigmoid(x * (x2 * (2 * kGeluScale * kGeluCubic) + 2 * kGeluScale));
  const Tensor slope = x2 * (6 * kGeluScale * kGeluCubic) + 2 * kGeluScale;
  const Tensor bend = s * (1.0 - s);
  return bend * (2.0 * slope + x * ((1.0 - 2.0 * s) * slope * slope + x * (12 * kGeluScale * kGeluCubic)));
}

Tensor gelu_backward(const Tensor& x, const Tensor& g, Gelu form) {
  detail::check_same_dtype("gelu_backward", x, g);
  Tensor dx = detail::empty_like(x);
  visit_float(x.dtype(), "gelu", [&](auto zero) {
    using T = decltype(zero);
    const auto kernel = form == Gelu::tanh ? kernels(T{}).backward : exact_backward<T>;
    detail::parallel_ranges(x.numel(), form == Gelu::tanh ? 6 : 32, [&](Index begin, Index end) {
      kernel(data<T>(x) + begin, data<T>(g) + begin, fresh<T>(dx) + begin, end - begin);
    });
  });
  return record("gelu_backward", std::move(dx), {&x, &g}, {&x, &g}, [form](Backward& back) {
    if (back.wants(0)) back.to(0, back.gradient() * back.saved(1) * curvature(back.saved(0), form));
    if (back.wants(1)) back.to(1, gelu_backward(back.saved(0), back.gradient(), form));
  });
}

}  // namespace

Tensor gelu(const Tensor& x, Gelu form) {
  Tensor y = detail::empty_like(x);
  visit_float(x.dtype(), "gelu", [&](auto zero) {
    using T = decltype(zero);
    const auto kernel = form == Gelu::tanh ? kernels(T{}).forward : exact_forward<T>;
    detail::parallel_ranges(x.numel(), form == Gelu::tanh ? 5 : 32, [&](Index begin, Index end) {
      kernel(data<T>(x) + begin, fresh<T>(y) + begin, end - begin);
    });
  });
  return record("gelu", std::move(y), {&x}, {&x},
                [form](Backward& back) { back.to(0, gelu_backward(back.saved(0), back.gradient(), form)); });
}

}  // namespace tapehead
#endif  // HWY_ONCE
