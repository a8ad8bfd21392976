// SPDX-License-Identifier: MIT
// Adagrad, RMSprop and Lion: as in optim.cpp each update is one pass.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tapehead/optim_adaptive.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <tapehead/detail/kernel_pair.h>
#include <tapehead/detail/simd-inl.h>

#ifndef TAPEHEAD_OPTIM_ADAPTIVE_KERNELS
#define TAPEHEAD_OPTIM_ADAPTIVE_KERNELS
namespace tapehead {
template <class T>
struct AdaptiveScalars {
  T lr, decay, eps;
  T kept, fresh;  // shares of the old mean square and of the new square
  T momentum;
};
template <class T>
struct LionScalars {
  T lr, kept_weights;              // 1 - lr * decay
  T beta1, fresh1, beta2, fresh2;  // fresh = 1 - beta
};
template <class T>
struct AdaptiveKernels {
  void (*adagrad)(T* parameter, const T* gradient, T* squares, Index n, const AdaptiveScalars<T>& by);
  // mean and velocity may be null.
  void (*rmsprop)(T* parameter, const T* gradient, T* square, T* mean, T* velocity, Index n,
                  const AdaptiveScalars<T>& by);
  void (*lion)(T* parameter, const T* gradient, T* momentum, Index n, const LionScalars<T>& by);
};
}  // namespace tapehead
#endif

HWY_BEFORE_NAMESPACE();
namespace tapehead::HWY_NAMESPACE {
namespace {

template <class T>
void adagrad(T* parameter, const T* gradient, T* squares, Index n, const AdaptiveScalars<T>& by) {
  const Lanes<T> lanes;
  const auto lr = hn::Set(lanes, by.lr);
  const auto decay = hn::Set(lanes, by.decay);
  const auto eps = hn::Set(lanes, by.eps);
  for_vectors<T>(n, [=](auto, Index, auto load, auto store) HWY_ATTR {
    const auto p = load(parameter);
    const auto g = hn::MulAdd(decay, p, load(gradient));
    const auto s = hn::MulAdd(g, g, load(squares));
    store(s, squares);
    store(hn::NegMulAdd(lr, hn::Div(g, hn::Add(hn::Sqrt(s), eps)), p), parameter);
  });
}

template <class T>
void rmsprop(T* parameter, const T* gradient, T* square, T* mean, T* velocity, Index n, const AdaptiveScalars<T>& by) {
  const Lanes<T> lanes;
  const auto lr = hn::Set(lanes, by.lr);
  const auto decay = hn::Set(lanes, by.decay);
  const auto eps = hn::Set(lanes, by.eps);
  const auto kept = hn::Set(lanes, by.kept);
  const auto fresh = hn::Set(lanes, by.fresh);
  const auto momentum = hn::Set(lanes, by.momentum);
  for_vectors<T>(n, [=](auto dd, Index, auto load, auto store) HWY_ATTR {
    const auto p = load(parameter);
    const auto g = hn::MulAdd(decay, p, load(gradient));
    auto spread = hn::MulAdd(fresh, hn::Mul(g, g), hn::Mul(kept, load(square)));
    store(spread, square);
    if (mean != nullptr) {
      auto m = load(mean);
      m = hn::MulAdd(fresh, hn::Sub(g, m), m);
      store(m, mean);
      spread = hn::Max(hn::NegMulAdd(m, m, spread), hn::Zero(dd));  // rounding may go below 0
    }
    auto step = hn::Div(g, hn::Add(hn::Sqrt(spread), eps));
    if (velocity != nullptr) {
      step = hn::MulAdd(momentum, load(velocity), step);
      store(step, velocity);
    }
    store(hn::NegMulAdd(lr, step, p), parameter);
  });
}

template <class T>
void lion(T* parameter, const T* gradient, T* momentum, Index n, const LionScalars<T>& by) {
  const Lanes<T> lanes;
  const auto lr = hn::Set(lanes, by.lr);
  const auto kept_weights = hn::Set(lanes, by.kept_weights);
  const auto beta1 = hn::Set(lanes, by.beta1);
  const auto fresh1 = hn::Set(lanes, by.fresh1);
  const auto beta2 = hn::Set(lanes, by.beta2);
  const auto fresh2 = hn::Set(lanes, by.fresh2);
  for_vectors<T>(n, [=](auto dd, Index, auto load, auto store) HWY_ATTR {
    const auto g = load(gradient);
    const auto m = load(momentum);
    const auto direction = hn::MulAdd(beta1, m, hn::Mul(fresh1, g));
    const auto zero = hn::Zero(dd);
    // 0 and NaN keep themselves: the sign of 0 is 0, and a NaN must not look like a step.
    const auto step = hn::IfThenElse(hn::Ne(direction, zero), hn::CopySign(lr, direction), zero);
    const auto sound = hn::IfThenElse(hn::IsNaN(direction), direction, step);
    store(hn::Sub(hn::Mul(load(parameter), kept_weights), sound), parameter);
    store(hn::MulAdd(beta2, m, hn::Mul(fresh2, g)), momentum);
  });
}

const detail::KernelPair<AdaptiveKernels>* adaptive_kernels() {
  static constexpr detail::KernelPair<AdaptiveKernels> both{{adagrad<float>, rmsprop<float>, lion<float>},
                                                            {adagrad<double>, rmsprop<double>, lion<double>}};
  return &both;
}

}  // namespace
}  // namespace tapehead::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <tapehead/detail/kernel.h>
#include <tapehead/detail/parallel.h>
#include <tapehead/optim.h>

namespace tapehead {
namespace {

using detail::data;
using detail::fresh;

HWY_EXPORT(adaptive_kernels);

template <class T>
const AdaptiveKernels<T>& kernels(T) {
  static const auto* const chosen = HWY_DYNAMIC_DISPATCH(adaptive_kernels)();
  return chosen->of(T{});
}

std::vector<std::string> rmsprop_buffers(const RMSpropOptions& options) {
  std::vector<std::string> names = {"square_avg"};
  if (options.centered) names.push_back("grad_avg");
  if (options.momentum > 0) names.push_back("momentum_buffer");
  return names;
}

}  // namespace

Adagrad::Adagrad(const ParameterGroups& parameters, const AdagradOptions& options)
    : Optimizer("Adagrad", parameters, options.lr, options.weight_decay, options.allow_missing_grad, {"sum"},
                options.initial_accumulator_value),
      options_(options) {
  check_not_negative("Adagrad", "lr_decay", options.lr_decay);
  check_not_negative("Adagrad", "initial_accumulator_value", options.initial_accumulator_value);
  check_positive("Adagrad", "eps", options.eps);
}

void Adagrad::update(std::size_t i, Tensor& parameter, const Tensor& gradient, State& state) {
  const double rate = lr(i) / (1 + static_cast<double>(state.steps - 1) * options_.lr_decay);
  visit_float(parameter.dtype(), "Adagrad", [&](auto zero) {
    using T = decltype(zero);
    const AdaptiveScalars<T> by{.lr = static_cast<T>(rate),
                                .decay = static_cast<T>(weight_decay(i)),
                                .eps = static_cast<T>(options_.eps),
                                .kept = 1,
                                .fresh = 1,
                                .momentum = 0};
    T* p = static_cast<T*>(parameter.mark_written("Adagrad.step"));
    const T* g = data<T>(gradient);
    T* s = fresh<T>(state.buffers[0]);
    detail::parallel_ranges(parameter.numel(), 4, [&](Index begin, Index end) {
      kernels(T{}).adagrad(p + begin, g + begin, s + begin, end - begin, by);
    });
  });
}

RMSprop::RMSprop(const ParameterGroups& parameters, const RMSpropOptions& options)
    : Optimizer("RMSprop", parameters, options.lr, options.weight_decay, options.allow_missing_grad,
                rmsprop_buffers(options)),
      options_(options) {
  check_share("RMSprop", "alpha", options.alpha);
  check_positive("RMSprop", "eps", options.eps);
  check_not_negative("RMSprop", "momentum", options.momentum);
}

void RMSprop::update(std::size_t i, Tensor& parameter, const Tensor& gradient, State& state) {
  visit_float(parameter.dtype(), "RMSprop", [&](auto zero) {
    using T = decltype(zero);
    const AdaptiveScalars<T> by{.lr = static_cast<T>(lr(i)),
                                .decay = static_cast<T>(weight_decay(i)),
                                .eps = static_cast<T>(options_.eps),
                                .kept = static_cast<T>(options_.alpha),
                                .fresh = static_cast<T>(1 - options_.alpha),
                                .momentum = static_cast<T>(options_.momentum)};
    T* p = static_cast<T*>(parameter.mark_written("RMSprop.step"));
    const T* g = data<T>(gradient);
    T* s = fresh<T>(state.buffers[0]);
    T* m = options_.centered ? fresh<T>(state.buffers[1]) : nullptr;
    T* v = options_.momentum > 0 ? fresh<T>(state.buffers.back()) : nullptr;
    detail::parallel_ranges(parameter.numel(), 4, [&](Index begin, Index end) {
      kernels(T{}).rmsprop(p + begin, g + begin, s + begin, m == nullptr ? m : m + begin, v == nullptr ? v : v + begin,
                           end - begin, by);
    });
  });
}

Lion::Lion(const ParameterGroups& parameters, const LionOptions& options)
    : Optimizer("Lion", parameters, options.lr, options.weight_decay, options.allow_missing_grad, {"exp_avg"}),
      options_(options) {
  check_share("Lion", "beta1", options.beta1);
  check_share("Lion", "beta2", options.beta2);
}

void Lion::update(std::size_t i, Tensor& parameter, const Tensor& gradient, State& state) {
  visit_float(parameter.dtype(), "Lion", [&](auto zero) {
    using T = decltype(zero);
    const LionScalars<T> by{.lr = static_cast<T>(lr(i)),
                            .kept_weights = static_cast<T>(1 - lr(i) * weight_decay(i)),
                            .beta1 = static_cast<T>(options_.beta1),
                            .fresh1 = static_cast<T>(1 - options_.beta1),
                            .beta2 = static_cast<T>(options_.beta2),
                            .fresh2 = static_cast<T>(1 - options_.beta2)};
    T* p = static_cast<T*>(parameter.mark_written("Lion.step"));
    const T* g = data<T>(gradient);
    T* m = fresh<T>(state.buffers[0]);
    detail::parallel_ranges(parameter.numel(), 3, [&](Index begin, Index end) {
      kernels(T{}).lion(p + begin, g + begin, m + begin, end - begin, by);
    });
  });
}

}  // namespace tapehead
#endif  // HWY_ONCE
