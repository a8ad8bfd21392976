// SPDX-License-Identifier: MIT
// Losses. cross_entropy never stores the probabilities: it keeps two numbers a row and recomputes them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tapehead/ops/cross_entropy.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <tapehead/detail/kernel_pair.h>
#include <tapehead/detail/simd-inl.h>

#ifndef TAPEHEAD_CROSS_ENTROPY_KERNELS
#define TAPEHEAD_CROSS_ENTROPY_KERNELS
namespace tapehead {
template <class T>
struct CrossEntropyKernels {
  // norm [2] = the largest of x [n] and log(sum(exp(x - largest))); apart, because their sum would drop digits.
  void (*normalizer)(const T* x, T* norm, Index n);
  void (*scaled_softmax)(const T* x, const T* norm, T scale, T* y, Index n);  // y = scale * softmax(x)
};
}  // namespace tapehead
#endif

HWY_BEFORE_NAMESPACE();
namespace tapehead::HWY_NAMESPACE {
namespace {

template <class T>
void normalizer(const T* x, T* norm, Index n) {
  const Lanes<T> d;
  const T largest = RowMax(x, n);
  const auto top = hn::Set(d, largest);
  auto sums = hn::Zero(d);
  Index i = 0;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  auto more = sums;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    sums = hn::Add(sums, SafeExp(d, hn::Sub(hn::LoadU(d, x + i), top)));
    more = hn::Add(more, SafeExp(d, hn::Sub(hn::LoadU(d, x + i + lanes), top)));
  }
  for (; i < n; i += lanes) {
    const auto some = hn::FirstN(d, static_cast<std::size_t>(n - i));
    sums = hn::Add(sums, hn::IfThenElseZero(some, SafeExp(d, hn::Sub(hn::MaskedLoad(some, d, x + i), top))));
  }
  norm[0] = largest;
  norm[1] = std::log(AddLanes(d, hn::Add(sums, more)));
}

template <class T>
void scaled_softmax(const T* x, const T* norm, T scale, T* y, Index n) {
  const Lanes<T> d;
  const auto largest = hn::Set(d, norm[0]);
  const auto log_total = hn::Set(d, norm[1]);
  const auto factor = hn::Set(d, scale);
  for_vectors<T>(n, [=](auto dd, Index, auto load, auto store) HWY_ATTR {
    store(hn::Mul(factor, SafeExp(dd, hn::Sub(hn::Sub(load(x), largest), log_total))), y);
  });
}

const detail::KernelPair<CrossEntropyKernels>* cross_entropy_kernels() {
  static constexpr detail::KernelPair<CrossEntropyKernels> both{{normalizer<float>, scaled_softmax<float>},
                                                                {normalizer<double>, scaled_softmax<double>}};
  return &both;
}

}  // namespace
}  // namespace tapehead::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include <fmt/format.h>

#include <tapehead/detail/kernel.h>
#include <tapehead/detail/parallel.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

using detail::data;
using detail::fresh;

HWY_EXPORT(cross_entropy_kernels);

template <class T>
const CrossEntropyKernels<T>& kernels(T) {
  static const auto* const chosen = HWY_DYNAMIC_DISPATCH(cross_entropy_kernels)();
  return chosen->of(T{});
}

// How many targets count. Throws for a target that is neither a class nor ignored.
Index count_targets(const Tensor& targets, Index classes, const std::optional<Index>& ignore) {
  const Index* target = data<Index>(targets);
  Index counted = 0;
  for (Index i = 0; i < targets.numel(); ++i) {
    if (ignore && target[i] == *ignore) continue;
    if (target[i] < 0 || target[i] >= classes) {
      throw IndexError(
          fmt::format("cross_entropy: target {} at position {} of {} is outside the {} classes; ignored "
                      "targets carry ignore_index",
                      target[i], i, to_string(targets.shape()), classes));
    }
    ++counted;
  }
  return counted;
}

void check(const Tensor& logits, const Tensor& targets) {
  detail::check_floating("cross_entropy", "logits", logits);
  if (targets.dtype() != DType::i64) throw_dtype("cross_entropy", "targets", targets.dtype(), "i64 class numbers");
  if (logits.rank() < 1 || logits.shape().without(-1) != targets.shape()) {
    throw ShapeError(
        fmt::format("cross_entropy: logits {} and targets {}; targets must have the logits' shape without "
                    "the last axis, the classes",
                    to_string(logits.shape()), to_string(targets.shape())));
  }
}

// d(sum(row_gradient * losses)) / d(logits): row_gradient (softmax - one_hot), and 0 in ignored rows.
Tensor cross_entropy_backward(const Tensor& logits, const Tensor& targets, const Tensor& norms,
                              const Tensor& row_gradient, std::optional<Index> ignore) {
  Tensor y = detail::empty_like(logits);
  const Index classes = logits.shape()[-1];
  visit_float(logits.dtype(), "cross_entropy", [&](auto zero) {
    using T = decltype(zero);
    const Index* target = data<Index>(targets);
    detail::parallel_ranges(targets.numel(), 3 * classes, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        T* out = fresh<T>(y) + i * classes;
        if (ignore && target[i] == *ignore) {
          std::fill(out, out + classes, T{0});
          continue;
        }
        const T scale = data<T>(row_gradient)[i];
        kernels(T{}).scaled_softmax(data<T>(logits) + i * classes, data<T>(norms) + 2 * i, scale, out, classes);
        out[target[i]] -= scale;
      }
    });
  });
  return record("cross_entropy_backward", std::move(y), {&logits, &row_gradient}, {&logits, &targets, &row_gradient},
                [ignore](Backward& back) {
                  const Tensor x = back.saved(0);
                  const Tensor labels = back.saved(1);
                  const Index width = x.shape()[-1];
                  const Tensor kept = ignore ? not_equal(labels, full({}, static_cast<double>(*ignore), DType::i64))
                                             : full(labels.shape(), 1, DType::boolean);
                  const Tensor none = zeros({}, x.dtype());
                  const Tensor h = where(unsqueeze(kept, -1), back.gradient(), none);
                  const Tensor p = softmax(x);
                  if (back.wants(0)) {
                    const Tensor scaled = h * unsqueeze(back.saved(2), -1);
                    back.to(0, p * (scaled - sum(scaled * p, -1, true)));
                  }
                  if (back.wants(1)) {
                    const Tensor classes_or_0 = where(kept, labels, zeros({}, DType::i64));
                    back.to(1, sum(h * (p - one_hot(classes_or_0, width, x.dtype())), -1));
                  }
                });
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  check(logits, targets);
  const Index classes = logits.shape()[-1];
  const std::optional<Index> ignore = options.ignore_index;
  const Index counted = count_targets(targets, classes, ignore);
  if (options.reduction == Reduction::mean && counted == 0) {
    throw ValueError(
        fmt::format("cross_entropy: none of the {} targets counts, their mean has no value; use "
                    "Reduction::sum or leave such a batch out",
                    targets.numel()));
  }
  Tensor losses = empty(targets.shape(), logits.dtype());
  Tensor norms = empty({targets.numel(), 2}, logits.dtype());
  visit_float(logits.dtype(), "cross_entropy", [&](auto zero) {
    using T = decltype(zero);
    const Index* target = data<Index>(targets);
    detail::parallel_ranges(targets.numel(), 3 * classes, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        const bool ignored = ignore && target[i] == *ignore;
        const T* row = data<T>(logits) + i * classes;
        T* norm = fresh<T>(norms) + 2 * i;
        if (!ignored) kernels(T{}).normalizer(row, norm, classes);
        fresh<T>(losses)[i] = ignored ? T{0} : norm[1] - (row[target[i]] - norm[0]);
      }
    });
  });
  losses = record("cross_entropy", std::move(losses), {&logits}, {&logits, &targets, &norms}, [ignore](Backward& back) {
    back.to(0, cross_entropy_backward(back.saved(0), back.saved(1), back.saved(2), back.gradient(), ignore));
  });
  switch (options.reduction) {
    case Reduction::none: return losses;
    case Reduction::sum: return sum(losses);
    default: return sum(losses) / static_cast<double>(counted);
  }
}

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  if (input.shape() != target.shape()) {
    throw ShapeError(fmt::format("mse_loss: input {} and target {} must have one shape", to_string(input.shape()),
                                 to_string(target.shape())));
  }
  const Tensor difference = input - target;
  const Tensor squares = difference * difference;
  switch (reduction) {
    case Reduction::none: return squares;
    case Reduction::sum: return sum(squares);
    default: return mean(squares);
  }
}

}  // namespace tapehead
#endif  // HWY_ONCE
