// SPDX-License-Identifier: MIT
// Layer normalization, and RMS normalization, which is the same with a mean of 0: one pass forward and one backward.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tapehead/ops/norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include <tapehead/detail/kernel_pair.h>
#include <tapehead/detail/simd-inl.h>

#ifndef TAPEHEAD_NORM_KERNELS
#define TAPEHEAD_NORM_KERNELS
namespace tapehead {
// weight and bias may be null: then they count as 1 and 0. stats [2] of a row: its mean and 1 / deviation.
template <class T>
struct NormKernels {
  void (*forward)(const T* x, const T* weight, const T* bias, T eps, T* y, T* stats, Index rows, Index width);
  void (*backward)(const T* g, const T* x, const T* weight, const T* stats, T* dx, Index rows, Index width);
  // Adds g * normalized to weight_sum [width] and g to bias_sum [width].
  void (*sums)(const T* g, const T* x, const T* stats, T* weight_sum, T* bias_sum, Index rows, Index width);
};
}  // namespace tapehead
#endif

HWY_BEFORE_NAMESPACE();
namespace tapehead::HWY_NAMESPACE {
namespace {

template <class T, bool centered>
void forward(const T* x, const T* weight, const T* bias, T eps, T* y, T* stats, Index rows, Index width) {
  const Lanes<T> d;
  const T share = T{1} / static_cast<T>(width);
  for (Index r = 0; r < rows; ++r, x += width, y += width, stats += 2) {
    stats[0] = 0;
    if constexpr (centered) {
      auto sums = hn::Zero(d);
      for_vectors<T>(width, [&](auto, Index, auto load, auto) HWY_ATTR { sums = hn::Add(sums, load(x)); });
      stats[0] = AddLanes(d, sums) * share;
    }
    // Two passes: the square of a large mean would swallow a small variance. And the second mends the first, whose
    // rounding alone can be more than the row's spread (Chan, Golub and LeVeque 1983, the corrected two-pass
    // algorithm).
    const auto about = hn::Set(d, stats[0]);
    auto rests = hn::Zero(d), squares = hn::Zero(d);
    const Index lanes = static_cast<Index>(hn::Lanes(d));
    for_vectors<T>(width, [&](auto dd, Index i, auto load, auto) HWY_ATTR {
      const auto here = hn::FirstN(dd, static_cast<std::size_t>(width - i < lanes ? width - i : lanes));
      const auto off = hn::IfThenElseZero(here, hn::Sub(load(x), about));
      rests = hn::Add(rests, off);
      squares = hn::Add(squares, hn::Mul(off, off));
    });
    const T rest = centered ? AddLanes(d, rests) * share : T{0};
    const T variance = AddLanes(d, squares) * share - rest * rest;
    stats[0] += rest;
    stats[1] = T{1} / std::sqrt(std::max(variance, T{0}) + eps);
    const auto mean = hn::Set(d, stats[0]);
    const auto scale = hn::Set(d, stats[1]);
    const auto one = hn::Set(d, T{1});
    for_vectors<T>(width, [=](auto dd, Index, auto load, auto store) HWY_ATTR {
      const auto normal = hn::Mul(hn::Sub(load(x), mean), scale);
      store(hn::MulAdd(normal, weight ? load(weight) : one, bias ? load(bias) : hn::Zero(dd)), y);
    });
  }
}

// With n = normalized and h = g weight: dx = (h - mean(h) - n mean(h n)) / deviation, without mean(h) unless centered
template <class T, bool centered>
void backward(const T* g, const T* x, const T* weight, const T* stats, T* dx, Index rows, Index width) {
  const Lanes<T> d;
  const T share = T{1} / static_cast<T>(width);
  for (Index r = 0; r < rows; ++r, g += width, x += width, dx += width, stats += 2) {
    const auto mean = hn::Set(d, stats[0]);
    const auto scale = hn::Set(d, stats[1]);
    const auto one = hn::Set(d, T{1});
    auto h_sum = hn::Zero(d), hn_sum = hn::Zero(d);
    for_vectors<T>(width, [&](auto, Index, auto load, auto) HWY_ATTR {
      const auto h = hn::Mul(load(g), weight ? load(weight) : one);
      h_sum = hn::Add(h_sum, h);
      hn_sum = hn::MulAdd(h, hn::Mul(hn::Sub(load(x), mean), scale), hn_sum);
    });
    const auto h_mean = hn::Set(d, centered ? AddLanes(d, h_sum) * share : T{0});
    const auto hn_mean = hn::Set(d, AddLanes(d, hn_sum) * share);
    for_vectors<T>(width, [=](auto, Index, auto load, auto store) HWY_ATTR {
      const auto h = hn::Mul(load(g), weight ? load(weight) : one);
      const auto normal = hn::Mul(hn::Sub(load(x), mean), scale);
      store(hn::Mul(scale, hn::NegMulAdd(normal, hn_mean, hn::Sub(h, h_mean))), dx);
    });
  }
}

template <class T>
void sums(const T* g, const T* x, const T* stats, T* weight_sum, T* bias_sum, Index rows, Index width) {
  const Lanes<T> d;
  for (Index r = 0; r < rows; ++r, g += width, x += width, stats += 2) {
    const auto mean = hn::Set(d, stats[0]);
    const auto scale = hn::Set(d, stats[1]);
    for_vectors<T>(width, [=](auto, Index, auto load, auto store) HWY_ATTR {
      const auto gradient = load(g);
      const auto normal = hn::Mul(hn::Sub(load(x), mean), scale);
      store(hn::MulAdd(gradient, normal, load(weight_sum)), weight_sum);
      store(hn::Add(gradient, load(bias_sum)), bias_sum);
    });
  }
}

template <class T, bool centered>
constexpr NormKernels<T> table() {
  return {forward<T, centered>, backward<T, centered>, sums<T>};
}
const detail::KernelPair<NormKernels>* layer_norm_kernels() {
  static constexpr detail::KernelPair<NormKernels> both{table<float, true>(), table<double, true>()};
  return &both;
}
const detail::KernelPair<NormKernels>* rms_norm_kernels() {
  static constexpr detail::KernelPair<NormKernels> both{table<float, false>(), table<double, false>()};
  return &both;
}

}  // namespace
}  // namespace tapehead::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <tapehead/detail/kernel.h>
#include <tapehead/detail/parallel.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

using detail::data;
using detail::fresh;

HWY_EXPORT(layer_norm_kernels);
HWY_EXPORT(rms_norm_kernels);

// Which normalization, in plain values that a rule can capture.
struct Norm {
  const char* op;
  bool centered;
  double eps;
  bool has_weight, has_bias;
};

template <class T>
const NormKernels<T>& kernels(const Norm& norm, T) {
  static const auto* const centered = HWY_DYNAMIC_DISPATCH(layer_norm_kernels)();
  static const auto* const bare = HWY_DYNAMIC_DISPATCH(rms_norm_kernels)();
  return (norm.centered ? centered : bare)->of(T{});
}

constexpr Index kSumRows = 64;  // rows whose parameter gradients one chunk adds up

void check_parameter(const char* op, const char* role, const Tensor& parameter, const Tensor& x) {
  if (!parameter.defined()) return;
  detail::check_same_dtype(op, x, parameter);
  if (parameter.shape() != Shape{x.shape()[-1]}) {
    const std::string name = parameter.name().empty() ? "" : fmt::format(" \"{}\"", parameter.name());
    throw ShapeError(fmt::format("{}: x {} and {}{} {}; the {} must be [{}], the last axis of x", op,
                                 to_string(x.shape()), role, name, to_string(parameter.shape()), role, x.shape()[-1]));
  }
}

template <class T>
const T* data_or_null(const Tensor& t) {
  return t.defined() ? data<T>(t) : nullptr;
}

Tensor input_gradient(const Norm& norm, const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& stats) {
  Tensor dx = detail::empty_like(x);
  const Index width = x.shape()[-1];
  visit_float(x.dtype(), norm.op, [&](auto zero) {
    using T = decltype(zero);
    detail::parallel_ranges(stats.numel() / 2, 4 * width, [&](Index begin, Index end) {
      const Index at = begin * width;
      kernels(norm, T{}).backward(data<T>(g) + at, data<T>(x) + at, data_or_null<T>(weight), data<T>(stats) + 2 * begin,
                                  fresh<T>(dx) + at, end - begin, width);
    });
  });
  return dx;
}

// Gradients of weight and bias as one [2, width]; chunks of fixed size keep the order of additions.
Tensor parameter_gradients(const Norm& norm, const Tensor& g, const Tensor& x, const Tensor& stats) {
  const Index rows = stats.numel() / 2, width = x.shape()[-1];
  const Index chunks = (rows + kSumRows - 1) / kSumRows;
  Tensor partial = zeros({chunks, 2, width}, x.dtype());
  visit_float(x.dtype(), norm.op, [&](auto zero) {
    using T = decltype(zero);
    detail::parallel_ranges(chunks, 3 * kSumRows * width, [&](Index begin, Index end) {
      for (Index c = begin; c < end; ++c) {
        const Index first = c * kSumRows;
        T* sums = fresh<T>(partial) + c * 2 * width;
        kernels(norm, T{}).sums(data<T>(g) + first * width, data<T>(x) + first * width, data<T>(stats) + 2 * first,
                                sums, sums + width, std::min(kSumRows, rows - first), width);
      }
    });
  });
  return sum(partial, 0);
}

// For second derivatives: the same gradients from recorded operations.
void recorded_rule(Backward& back, const Norm& norm, const Tensor& x, const Tensor& weight) {
  const Tensor& g = back.gradient();
  const Tensor centered = norm.centered ? x - mean(x, -1, true) : x;
  const Tensor scale = pow(mean(centered * centered, -1, true) + norm.eps, -0.5);
  const Tensor normal = centered * scale;
  if (back.wants(0)) {
    const Tensor h = norm.has_weight ? g * weight : g;
    const Tensor off = h - normal * mean(h * normal, -1, true);
    back.to(0, scale * (norm.centered ? off - mean(h, -1, true) : off));
  }
  if (norm.has_weight && back.wants(1)) back.to(1, g * normal);
  if (norm.has_bias) back.to(norm.has_weight ? 2 : 1, g);
}

void rule(Backward& back, const Norm& norm) {
  const Tensor x = back.saved(0);
  const Tensor weight = norm.has_weight ? back.saved(2) : Tensor();
  if (is_recording()) {
    recorded_rule(back, norm, x, weight);
    return;
  }
  const Tensor stats = back.saved(1);
  const int bias_input = norm.has_weight ? 2 : 1;
  if (back.wants(0)) back.to(0, input_gradient(norm, back.gradient(), x, weight, stats));
  const bool weight_wanted = norm.has_weight && back.wants(1);
  const bool bias_wanted = norm.has_bias && back.wants(bias_input);
  if (!weight_wanted && !bias_wanted) return;
  const Tensor both = parameter_gradients(norm, back.gradient(), x, stats);
  if (weight_wanted) back.to(1, select(both, 0, 0));
  if (bias_wanted) back.to(bias_input, select(both, 0, 1));
}

Tensor normalize(const Norm& norm, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (x.rank() < 1 || x.shape()[-1] == 0) {
    throw ShapeError(fmt::format("{}: x {} needs a last axis of at least 1 element", norm.op, to_string(x.shape())));
  }
  check_parameter(norm.op, "weight", weight, x);
  check_parameter(norm.op, "bias", bias, x);
  if (!(norm.eps > 0)) throw ValueError(fmt::format("{}: eps must be above 0, is {}", norm.op, norm.eps));
  const Index width = x.shape()[-1];
  Tensor y = detail::empty_like(x);
  Tensor stats = empty({x.numel() / width, 2}, x.dtype());
  visit_float(x.dtype(), norm.op, [&](auto zero) {
    using T = decltype(zero);
    detail::parallel_ranges(x.numel() / width, 4 * width, [&](Index begin, Index end) {
      const Index at = begin * width;
      kernels(norm, T{}).forward(data<T>(x) + at, data_or_null<T>(weight), data_or_null<T>(bias),
                                 static_cast<T>(norm.eps), fresh<T>(y) + at, fresh<T>(stats) + 2 * begin, end - begin,
                                 width);
    });
  });
  std::vector<const Tensor*> inputs{&x};
  if (weight.defined()) inputs.push_back(&weight);
  if (bias.defined()) inputs.push_back(&bias);
  const Tensor* saved[] = {&x, &stats, weight.defined() ? &weight : nullptr};
  return record(norm.op, std::move(y), inputs, saved, [norm](Backward& back) { rule(back, norm); });
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  detail::check_floating("layer_norm", "x", x);
  return normalize({"layer_norm", true, eps, weight.defined(), bias.defined()}, x, weight, bias);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, std::optional<double> eps) {
  detail::check_floating("rms_norm", "x", x);
  const double epsilon =
      x.dtype() == DType::f32 ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
  return normalize({"rms_norm", false, eps.value_or(epsilon), weight.defined(), false}, x, weight, {});
}

}  // namespace tapehead
#endif  // HWY_ONCE
