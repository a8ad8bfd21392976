// SPDX-License-Identifier: MIT
// Each update is one pass over the parameter, its gradient and its moments.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tapehead/optim.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <tapehead/detail/kernel_pair.h>
#include <tapehead/detail/simd-inl.h>

#ifndef TAPEHEAD_OPTIM_KERNELS
#define TAPEHEAD_OPTIM_KERNELS
namespace tapehead {
template <class T>
struct AdamScalars {
  T new_share1, beta2, new_share2;  // new_share = 1 - beta
  T step_size;                      // lr over the first bias correction
  T root_scale;                     // one over the root of the second bias correction
  T eps;
  T added_decay;   // times the weights, added to the gradient
  T kept_weights;  // 1 - lr * decay, taken off the weights
};
template <class T>
struct SgdScalars {
  T lr, decay, momentum, new_share, look_ahead;  // look_ahead: Nesterov's momentum, or 0
};
template <class T>
struct OptimKernels {
  void (*adam)(T* parameter, const T* gradient, T* first, T* second, Index n, const AdamScalars<T>& by);
  void (*sgd)(T* parameter, const T* gradient, Index n, const SgdScalars<T>& by);
  void (*sgd_momentum)(T* parameter, const T* gradient, T* velocity, Index n, const SgdScalars<T>& by);
  double (*sum_squares)(const T* x, Index n);
  void (*scale)(T* x, Index n, T factor);
};
}  // namespace tapehead
#endif

HWY_BEFORE_NAMESPACE();
namespace tapehead::HWY_NAMESPACE {
namespace {

template <class T>
void adam(T* parameter, const T* gradient, T* first, T* second, Index n, const AdamScalars<T>& by) {
  const Lanes<T> lanes;
  const auto new_share1 = hn::Set(lanes, by.new_share1);
  const auto beta2 = hn::Set(lanes, by.beta2);
  const auto new_share2 = hn::Set(lanes, by.new_share2);
  const auto step_size = hn::Set(lanes, by.step_size);
  const auto root_scale = hn::Set(lanes, by.root_scale);
  const auto eps = hn::Set(lanes, by.eps);
  const auto added_decay = hn::Set(lanes, by.added_decay);
  const auto kept_weights = hn::Set(lanes, by.kept_weights);
  for_vectors<T>(n, [=](auto, Index, auto load, auto store) HWY_ATTR {
    auto p = load(parameter);
    const auto g = hn::MulAdd(added_decay, p, load(gradient));
    auto m = load(first);
    m = hn::MulAdd(new_share1, hn::Sub(g, m), m);
    const auto v = hn::MulAdd(new_share2, hn::Mul(g, g), hn::Mul(beta2, load(second)));
    const auto root = hn::MulAdd(hn::Sqrt(v), root_scale, eps);
    p = hn::NegMulAdd(step_size, hn::Div(m, root), hn::Mul(p, kept_weights));
    store(m, first);
    store(v, second);
    store(p, parameter);
  });
}

template <class T>
void sgd(T* parameter, const T* gradient, Index n, const SgdScalars<T>& by) {
  const Lanes<T> lanes;
  const auto lr = hn::Set(lanes, by.lr);
  const auto decay = hn::Set(lanes, by.decay);
  for_vectors<T>(n, [=](auto, Index, auto load, auto store) HWY_ATTR {
    const auto p = load(parameter);
    store(hn::NegMulAdd(lr, hn::MulAdd(decay, p, load(gradient)), p), parameter);
  });
}

template <class T>
void sgd_momentum(T* parameter, const T* gradient, T* velocity, Index n, const SgdScalars<T>& by) {
  const Lanes<T> lanes;
  const auto lr = hn::Set(lanes, by.lr);
  const auto decay = hn::Set(lanes, by.decay);
  const auto momentum = hn::Set(lanes, by.momentum);
  const auto new_share = hn::Set(lanes, by.new_share);
  const auto look_ahead = hn::Set(lanes, by.look_ahead);
  const bool nesterov = by.look_ahead != 0;
  for_vectors<T>(n, [=](auto, Index, auto load, auto store) HWY_ATTR {
    const auto p = load(parameter);
    const auto g = hn::MulAdd(decay, p, load(gradient));
    const auto v = hn::MulAdd(momentum, load(velocity), hn::Mul(new_share, g));
    store(v, velocity);
    store(hn::NegMulAdd(lr, nesterov ? hn::MulAdd(look_ahead, v, g) : v, p), parameter);
  });
}

template <class D, class V>
HWY_INLINE hn::Vec<D> Widened(D wide, V v) {
  if constexpr (sizeof(hn::TFromV<V>) == 8) {
    return v;
  } else {
    return hn::PromoteTo(wide, v);
  }
}

// In double also for float, whose squares may not fit a float.
template <class T>
double sum_squares(const T* x, Index n) {
  const Lanes<double> wide;
  const hn::Rebind<T, Lanes<double>> narrow;
  const Index step = static_cast<Index>(hn::Lanes(wide));
  auto total = hn::Zero(wide);
  Index i = 0;
  for (; i + step <= n; i += step) {
    const auto v = Widened(wide, hn::LoadU(narrow, x + i));
    total = hn::MulAdd(v, v, total);
  }
  double sum = AddLanes(wide, total);
  for (; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

template <class T>
void scale(T* x, Index n, T factor) {
  const auto by = hn::Set(Lanes<T>(), factor);
  for_vectors<T>(n, [=](auto, Index, auto load, auto store) HWY_ATTR { store(hn::Mul(load(x), by), x); });
}

template <class T>
constexpr OptimKernels<T> table() {
  return {adam<T>, sgd<T>, sgd_momentum<T>, sum_squares<T>, scale<T>};
}

const detail::KernelPair<OptimKernels>* optim_kernels() {
  static constexpr detail::KernelPair<OptimKernels> both{table<float>(), table<double>()};
  return &both;
}

}  // namespace
}  // namespace tapehead::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <tapehead/detail/kernel.h>
#include <tapehead/detail/parallel.h>
#include <tapehead/error.h>
#include <tapehead/optim.h>

namespace tapehead {
namespace {

using detail::data;
using detail::fresh;

HWY_EXPORT(optim_kernels);

template <class T>
const OptimKernels<T>& kernels(T) {
  static const auto* const chosen = HWY_DYNAMIC_DISPATCH(optim_kernels)();
  return chosen->of(T{});
}

}  // namespace

SGD::SGD(const ParameterGroups& parameters, const SGDOptions& options)
    : Optimizer("SGD", parameters, options.lr, options.weight_decay, options.allow_missing_grad,
                options.momentum == 0 ? std::vector<std::string>{} : std::vector<std::string>{"momentum_buffer"}),
      options_(options) {
  check_not_negative("SGD", "momentum", options.momentum);
  if (!std::isfinite(options.dampening)) {
    throw ValueError(fmt::format("SGD: dampening {} must be finite", options.dampening));
  }
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0)) {
    throw ValueError(fmt::format("SGD: nesterov needs momentum above 0 and dampening 0, got {} and {}",
                                 options.momentum, options.dampening));
  }
}

void SGD::update(std::size_t i, Tensor& parameter, const Tensor& gradient, State& state) {
  visit_float(parameter.dtype(), "SGD", [&](auto zero) {
    using T = decltype(zero);
    T* p = static_cast<T*>(parameter.mark_written("SGD.step"));
    const T* g = data<T>(gradient);
    SgdScalars<T> by{static_cast<T>(lr(i)), static_cast<T>(weight_decay(i)), static_cast<T>(options_.momentum),
                     static_cast<T>(1 - options_.dampening),
                     options_.nesterov ? static_cast<T>(options_.momentum) : T{0}};
    if (state.buffers.empty()) {
      detail::parallel_ranges(parameter.numel(), 1,
                              [&](Index begin, Index end) { kernels(T{}).sgd(p + begin, g + begin, end - begin, by); });
      return;
    }
    if (state.steps == 1) by.new_share = 1;
    T* v = fresh<T>(state.buffers[0]);
    detail::parallel_ranges(parameter.numel(), 2, [&](Index begin, Index end) {
      kernels(T{}).sgd_momentum(p + begin, g + begin, v + begin, end - begin, by);
    });
  });
}

Adam::Adam(const ParameterGroups& parameters, const AdamOptions& options) : Adam("Adam", parameters, options, false) {}

Adam::Adam(const char* name, const ParameterGroups& parameters, const AdamOptions& options, bool decoupled_decay)
    : Optimizer(name, parameters, options.lr, options.weight_decay, options.allow_missing_grad,
                {"exp_avg", "exp_avg_sq"}),
      options_(options),
      decoupled_decay_(decoupled_decay) {
  check_share(name, "beta1", options.beta1);
  check_share(name, "beta2", options.beta2);
  check_positive(name, "eps", options.eps);
}

void Adam::update(std::size_t i, Tensor& parameter, const Tensor& gradient, State& state) {
  if (state.steps != corrected_steps_) {
    corrected_steps_ = state.steps;
    correction1_ = 1 - std::pow(options_.beta1, static_cast<double>(state.steps));
    correction2_ = 1 - std::pow(options_.beta2, static_cast<double>(state.steps));
  }
  visit_float(parameter.dtype(), "Adam", [&](auto zero) {
    using T = decltype(zero);
    const double rate = lr(i), decay = weight_decay(i);
    const AdamScalars<T> by{
        static_cast<T>(1 - options_.beta1),           static_cast<T>(options_.beta2),
        static_cast<T>(1 - options_.beta2),           static_cast<T>(rate / correction1_),
        static_cast<T>(1 / std::sqrt(correction2_)),  static_cast<T>(options_.eps),
        static_cast<T>(decoupled_decay_ ? 0 : decay), static_cast<T>(decoupled_decay_ ? 1 - rate * decay : 1)};
    T* p = static_cast<T*>(parameter.mark_written(decoupled_decay_ ? "AdamW.step" : "Adam.step"));
    const T* g = data<T>(gradient);
    T* m = fresh<T>(state.buffers[0]);
    T* v = fresh<T>(state.buffers[1]);
    const auto kernel = kernels(T{}).adam;
    detail::parallel_ranges(parameter.numel(), 4, [&](Index begin, Index end) {
      kernel(p + begin, g + begin, m + begin, v + begin, end - begin, by);
    });
  });
}

AdamW::AdamW(const ParameterGroups& parameters, const AdamOptions& options)
    : Adam("AdamW", parameters, options, true) {}

double clip_grad_norm(const std::vector<NamedTensor>& parameters, double max_norm) {
  if (!(max_norm > 0)) throw ValueError(fmt::format("clip_grad_norm: max_norm {} must be above 0", max_norm));
  std::vector<detail::TensorBody*> gradients;
  for (const NamedTensor& parameter : parameters) {
    detail::TensorBody* gradient = parameter.tensor.body().grad.get();
    if (gradient != nullptr && std::ranges::find(gradients, gradient) == gradients.end()) gradients.push_back(gradient);
  }
  constexpr Index kPiece = 8192;  // elements whose squares are added up in one go
  double squares = 0;
  for (detail::TensorBody* gradient : gradients) {
    visit_float(gradient->dtype, "clip_grad_norm", [&](auto zero) {
      using T = decltype(zero);
      const T* x = static_cast<const T*>(gradient->storage->data());
      const Index n = gradient->shape.numel();
      std::vector<double> partial(static_cast<std::size_t>((n + kPiece - 1) / kPiece));
      detail::parallel_ranges(static_cast<Index>(partial.size()), kPiece, [&](Index first, Index last) {
        for (Index i = first; i < last; ++i) {
          const Index begin = i * kPiece;
          partial[static_cast<std::size_t>(i)] = kernels(T{}).sum_squares(x + begin, std::min(kPiece, n - begin));
        }
      });
      for (const double sum : partial) squares += sum;
    });
  }
  const double norm = std::sqrt(squares);
  const double factor = max_norm / (norm + 1e-6);
  if (!std::isfinite(norm) || !(factor < 1)) return norm;
  for (detail::TensorBody* gradient : gradients) {
    visit_float(gradient->dtype, "clip_grad_norm", [&](auto zero) {
      using T = decltype(zero);
      Tensor target(detail::Ref<detail::TensorBody>::share(gradient));
      T* x = static_cast<T*>(target.mark_written("clip_grad_norm"));
      detail::parallel_ranges(target.numel(), 1, [&](Index begin, Index end) {
        kernels(T{}).scale(x + begin, end - begin, static_cast<T>(factor));
      });
    });
  }
  return norm;
}

}  // namespace tapehead
#endif  // HWY_ONCE
