// SPDX-License-Identifier: MIT
// Activations beside relu and gelu.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tapehead/ops/activations.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <tapehead/detail/kernel_pair.h>
#include <tapehead/detail/simd-inl.h>

#ifndef TAPEHEAD_ACTIVATION_KERNELS
#define TAPEHEAD_ACTIVATION_KERNELS
namespace tapehead {
template <class T>
struct SiluKernels {
  void (*forward)(const T* x, T* y, Index n);
  void (*backward)(const T* x, const T* g, T* dx, Index n);
};
}  // namespace tapehead
#endif

HWY_BEFORE_NAMESPACE();
namespace tapehead::HWY_NAMESPACE {
namespace {

template <class T>
void silu_forward(const T* x, T* y, Index n) {
  for_vectors<T>(n, [=](auto d, Index, auto load, auto store) HWY_ATTR {
    const auto v = load(x);
    store(Gated(v, Sigmoid(d, v)), y);
  });
}

// With s = sigmoid(x): d(x s)/dx = s + x s (1 - s)
template <class T>
void silu_backward(const T* x, const T* g, T* dx, Index n) {
  for_vectors<T>(n, [=](auto d, Index, auto load, auto store) HWY_ATTR {
    const auto v = load(x);
    const auto s = Sigmoid(d, v);
    const auto bend = hn::Mul(s, hn::Sub(hn::Set(d, T{1}), s));
    store(hn::Mul(load(g), hn::Add(s, Gated(v, bend))), dx);
  });
}

const detail::KernelPair<SiluKernels>* silu_kernels() {
  static constexpr detail::KernelPair<SiluKernels> both{{silu_forward<float>, silu_backward<float>},
                                                        {silu_forward<double>, silu_backward<double>}};
  return &both;
}

}  // namespace
}  // namespace tapehead::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>

#include <fmt/format.h>

#include <tapehead/detail/each.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

using detail::data;
using detail::fresh;

HWY_EXPORT(silu_kernels);

template <class T>
const SiluKernels<T>& kernels(T) {
  static const auto* const chosen = HWY_DYNAMIC_DISPATCH(silu_kernels)();
  return chosen->of(T{});
}

Tensor silu_backward(const Tensor& x, const Tensor& g) {
  detail::check_same_dtype("silu_backward", x, g);
  Tensor dx = detail::empty_like(x);
  visit_float(x.dtype(), "silu_backward", [&](auto zero) {
    using T = decltype(zero);
    detail::parallel_ranges(x.numel(), 6, [&](Index begin, Index end) {
      kernels(T{}).backward(data<T>(x) + begin, data<T>(g) + begin, fresh<T>(dx) + begin, end - begin);
    });
  });
  return record("silu_backward", std::move(dx), {&x, &g}, {&x, &g}, [](Backward& back) {
    const Tensor x_saved = back.saved(0);
    if (back.wants(0)) {
      const Tensor s = sigmoid(x_saved);
      back.to(0, back.gradient() * back.saved(1) * (s * (1.0 - s) * (2.0 + x_saved * (1.0 - 2.0 * s))));
    }
    if (back.wants(1)) back.to(1, silu_backward(x_saved, back.gradient()));
  });
}

Tensor is_positive(const Tensor& x) { return greater(x, zeros({}, x.dtype())); }

}  // namespace

Tensor silu(const Tensor& x) {
  Tensor y = detail::empty_like(x);
  visit_float(x.dtype(), "silu", [&](auto zero) {
    using T = decltype(zero);
    detail::parallel_ranges(x.numel(), 5, [&](Index begin, Index end) {
      kernels(T{}).forward(data<T>(x) + begin, fresh<T>(y) + begin, end - begin);
    });
  });
  return record("silu", std::move(y), {&x}, {&x},
                [](Backward& back) { back.to(0, silu_backward(back.saved(0), back.gradient())); });
}

Tensor softplus(const Tensor& x, double beta, double threshold) {
  if (!(beta > 0)) throw ValueError(fmt::format("softplus: beta is {}; it must be above 0", beta));
  Tensor y = detail::each("softplus", x, [beta, threshold](auto v) {
    using T = decltype(v);
    const T scaled = v * static_cast<T>(beta);
    if (scaled > static_cast<T>(threshold)) return v;
    // log(1 + e^u) = max(u, 0) + log(1 + e^-|u|), which cannot overflow
    return ((scaled < 0 ? T{0} : scaled) + std::log1p(std::exp(-std::abs(scaled)))) / static_cast<T>(beta);
  });
  return record("softplus", std::move(y), {&x}, {&x}, [beta, threshold](Backward& back) {
    const Tensor scaled = back.saved(0) * beta;
    const Tensor linear = greater(scaled, full({}, threshold, scaled.dtype()));
    back.to(0, back.gradient() * where(linear, ones({}, scaled.dtype()), sigmoid(scaled)));
  });
}

Tensor leaky_relu(const Tensor& x, double negative_slope) {
  Tensor y = detail::each(
      "leaky_relu", x, [negative_slope](auto v) { return v > 0 ? v : v * static_cast<decltype(v)>(negative_slope); });
  return record("leaky_relu", std::move(y), {&x}, {&x}, [negative_slope](Backward& back) {
    const Tensor& g = back.gradient();
    back.to(0, where(is_positive(back.saved(0)), g, g * negative_slope));
  });
}

Tensor elu(const Tensor& x, double alpha) {
  Tensor y =
      detail::each("elu", x, [alpha](auto v) { return v > 0 ? v : static_cast<decltype(v)>(alpha) * std::expm1(v); });
  return record("elu", std::move(y), {&x}, {&x}, [alpha](Backward& back) {
    const Tensor x_saved = back.saved(0);
    const Tensor zero = zeros({}, x_saved.dtype()), one = ones({}, x_saved.dtype());
    const Tensor positive = is_positive(x_saved);
    const Tensor below = where(positive, zero, x_saved);  // e^x of a large x would overflow into the second derivative
    back.to(0, back.gradient() * where(positive, one, alpha * exp(below)));
  });
}

}  // namespace tapehead
#endif  // HWY_ONCE
