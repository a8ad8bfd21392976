// SPDX-License-Identifier: MIT
// Softmax and its logarithm.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tapehead/ops/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <tapehead/detail/kernel_pair.h>
#include <tapehead/detail/simd-inl.h>

#ifndef TAPEHEAD_SOFTMAX_KERNELS
#define TAPEHEAD_SOFTMAX_KERNELS
namespace tapehead {
// All of them work on `rows` rows of `width` elements.
template <class T>
struct SoftmaxKernels {
  void (*softmax)(const T* x, T* y, Index rows, Index width);
  void (*softmax_backward)(const T* y, const T* g, T* dx, Index rows, Index width);
  void (*log_softmax)(const T* x, T* y, Index rows, Index width);
  void (*log_softmax_backward)(const T* y, const T* g, T* dx, Index rows, Index width);
};
}  // namespace tapehead
#endif

HWY_BEFORE_NAMESPACE();
namespace tapehead::HWY_NAMESPACE {
namespace {

template <class T>
void softmax_rows(const T* x, T* y, Index rows, Index width) {
  const Lanes<T> d;
  for (Index r = 0; r < rows; ++r, x += width, y += width) {
    const T total = ExpRow(x, y, RowMax(x, width), width);
    const auto scale = hn::Set(d, T{1} / total);
    for_vectors<T>(width, [=](auto, Index, auto load, auto store) HWY_ATTR { store(hn::Mul(load(y), scale), y); });
  }
}

// dx = y (g - sum(g y))
template <class T>
void softmax_backward_rows(const T* y, const T* g, T* dx, Index rows, Index width) {
  const Lanes<T> d;
  for (Index r = 0; r < rows; ++r, y += width, g += width, dx += width) {
    const auto dot = hn::Set(d, Dot(y, g, width));
    for_vectors<T>(width, [=](auto, Index, auto load, auto store)
                              HWY_ATTR { store(hn::Mul(load(y), hn::Sub(load(g), dot)), dx); });
  }
}

template <class T>
void log_softmax_rows(const T* x, T* y, Index rows, Index width) {
  const Lanes<T> d;
  for (Index r = 0; r < rows; ++r, x += width, y += width) {
    const T largest = RowMax(x, width);
    const auto top = hn::Set(d, largest);
    const auto log_total = hn::Set(d, std::log(ExpRow(x, y, largest, width)));
    for_vectors<T>(width, [=](auto, Index, auto load, auto store)
                              HWY_ATTR { store(hn::Sub(hn::Sub(load(x), top), log_total), y); });
  }
}

// dx = g - exp(y) sum(g)
template <class T>
void log_softmax_backward_rows(const T* y, const T* g, T* dx, Index rows, Index width) {
  const Lanes<T> d;
  for (Index r = 0; r < rows; ++r, y += width, g += width, dx += width) {
    auto sums = hn::Zero(d);
    for_vectors<T>(width, [&](auto, Index, auto load, auto) HWY_ATTR { sums = hn::Add(sums, load(g)); });
    const auto total = hn::Set(d, AddLanes(d, sums));
    for_vectors<T>(width, [=](auto dd, Index, auto load, auto store)
                              HWY_ATTR { store(hn::NegMulAdd(SafeExp(dd, load(y)), total, load(g)), dx); });
  }
}

template <class T>
constexpr SoftmaxKernels<T> table() {
  return {softmax_rows<T>, softmax_backward_rows<T>, log_softmax_rows<T>, log_softmax_backward_rows<T>};
}
const detail::KernelPair<SoftmaxKernels>* softmax_kernels() {
  static constexpr detail::KernelPair<SoftmaxKernels> both{table<float>(), table<double>()};
  return &both;
}

}  // namespace
}  // namespace tapehead::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include <tapehead/detail/kernel.h>
#include <tapehead/detail/parallel.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

HWY_EXPORT(softmax_kernels);

template <class T>
const SoftmaxKernels<T>& kernels(T) {
  static const auto* const chosen = HWY_DYNAMIC_DISPATCH(softmax_kernels)();
  return chosen->of(T{});
}

// Runs a kernel over the rows of the last axis; `pick` chooses it from the table.
template <class Pick, class... Inputs>
Tensor by_rows(const char* op, Pick pick, const Tensor& first, const Inputs&... others) {
  Tensor y = detail::empty_like(first);
  const Index width = first.shape()[-1];
  if (y.numel() == 0) return y;
  visit_float(first.dtype(), op, [&](auto zero) {
    using T = decltype(zero);
    const auto kernel = pick(kernels(T{}));
    T* out = detail::fresh<T>(y);
    detail::parallel_ranges(y.numel() / width, 4 * width, [&](Index begin, Index end) {
      const Index at = begin * width;
      kernel(detail::data<T>(first) + at, (detail::data<T>(others) + at)..., out + at, end - begin, width);
    });
  });
  return y;
}

// Any other axis goes through the last one: there a row is contiguous.
template <class F>
Tensor along_axis(const char* op, const Tensor& x, int axis, F last_axis) {
  detail::check_floating(op, "input", x);
  const int at = normalize_axis(op, axis, x.rank());
  if (at == x.rank() - 1) return last_axis(x);
  return transpose(last_axis(transpose(x, at, -1)), at, -1);
}

Tensor softmax_backward(const Tensor& y, const Tensor& g) {
  Tensor dx = by_rows(
      "softmax_backward", [](const auto& k) { return k.softmax_backward; }, y, g);
  return record("softmax_backward", std::move(dx), {&y, &g}, {&y, &g}, [](Backward& back) {
    const Tensor& h = back.gradient();
    const Tensor y_saved = back.saved(0);
    const Tensor g_saved = back.saved(1);
    if (back.wants(0)) {
      back.to(0, h * (g_saved - sum(g_saved * y_saved, -1, true)) - g_saved * sum(h * y_saved, -1, true));
    }
    if (back.wants(1)) back.to(1, softmax_backward(y_saved, h));
  });
}

Tensor log_softmax_backward(const Tensor& y, const Tensor& g) {
  Tensor dx = by_rows(
      "log_softmax_backward", [](const auto& k) { return k.log_softmax_backward; }, y, g);
  return record("log_softmax_backward", std::move(dx), {&y, &g}, {&y, &g}, [](Backward& back) {
    const Tensor& h = back.gradient();
    const Tensor p = exp(back.saved(0));
    if (back.wants(0)) back.to(0, -(h * p * sum(back.saved(1), -1, true)));
    if (back.wants(1)) back.to(1, h - sum(h * p, -1, true));
  });
}

}  // namespace

Tensor softmax(const Tensor& x, int axis) {
  return along_axis("softmax", x, axis, [](const Tensor& rows) {
    Tensor y = by_rows(
        "softmax", [](const auto& k) { return k.softmax; }, rows);
    return record("softmax", y, {&rows}, {&y},
                  [](Backward& back) { back.to(0, softmax_backward(back.saved(0), back.gradient())); });
  });
}

Tensor log_softmax(const Tensor& x, int axis) {
  return along_axis("log_softmax", x, axis, [](const Tensor& rows) {
    Tensor y = by_rows(
        "log_softmax", [](const auto& k) { return k.log_softmax; }, rows);
    return record("log_softmax", y, {&rows}, {&y},
                  [](Backward& back) { back.to(0, log_softmax_backward(back.saved(0), back.gradient())); });
  });
}

}  // namespace tapehead
#endif  // HWY_ONCE
