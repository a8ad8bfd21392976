// SPDX-License-Identifier: MIT
// Losses with class numbers as targets. cross_entropy never stores the probabilities: it keeps two numbers a row and
// recomputes them.
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
  // y = scale * softmax(x) - spread * weight; weight may be null and counts as 1 then.
  void (*scaled_softmax)(const T* x, const T* norm, T scale, T spread, const T* weight, T* y, Index n);
  T (*weighted_sum)(const T* x, const T* weight, T largest, Index n);  // sum(weight * (x - largest))
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
    sums = hn::Add(sums, hn::IfThenElseZero(some, SafeExp(d, hn::Sub(LoadFirst(d, x + i, n - i), top))));
  }
  norm[0] = largest;
  norm[1] = std::log(AddLanes(d, hn::Add(sums, more)));
}

template <class T>
void scaled_softmax(const T* x, const T* norm, T scale, T spread, const T* weight, T* y, Index n) {
  const Lanes<T> d;
  if (spread != 0) {
    scaled_softmax(x, norm, scale, T{0}, weight, y, n);
    const auto share = hn::Set(d, spread);
    const auto one = hn::Set(d, T{1});
    for_vectors<T>(n, [=](auto, Index, auto load, auto store)
                          HWY_ATTR { store(hn::NegMulAdd(share, weight ? load(weight) : one, load(y)), y); });
    return;
  }
  const auto largest = hn::Set(d, norm[0]);
  const auto log_total = hn::Set(d, norm[1]);
  const auto factor = hn::Set(d, scale);
  for_vectors<T>(n, [=](auto dd, Index, auto load, auto store) HWY_ATTR {
    store(hn::Mul(factor, SafeExp(dd, hn::Sub(hn::Sub(load(x), largest), log_total))), y);
  });
}

template <class T>
T weighted_sum(const T* x, const T* weight, T largest, Index n) {
  const Lanes<T> d;
  const auto top = hn::Set(d, largest);
  const auto one = hn::Set(d, T{1});
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  auto total = hn::Zero(d);
  for_vectors<T>(n, [&](auto dd, Index i, auto load, auto) HWY_ATTR {
    const auto here = hn::FirstN(dd, static_cast<std::size_t>(n - i < lanes ? n - i : lanes));
    const auto term = hn::Mul(weight ? load(weight) : one, hn::Sub(load(x), top));
    total = hn::Add(total, hn::IfThenElseZero(here, term));
  });
  return AddLanes(d, total);
}

template <class T>
constexpr CrossEntropyKernels<T> table() {
  return {normalizer<T>, scaled_softmax<T>, weighted_sum<T>};
}
const detail::KernelPair<CrossEntropyKernels>* cross_entropy_kernels() {
  static constexpr detail::KernelPair<CrossEntropyKernels> both{table<float>(), table<double>()};
  return &both;
}

}  // namespace
}  // namespace tapehead::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <numeric>

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

// How a loss counts its classes; plain numbers, so that rules can capture it.
struct Counting {
  std::optional<Index> ignore;
  bool weighted;
  double smoothing;

  bool ignores(Index target) const { return ignore && target == *ignore; }
};

void check_shapes(const char* op, const char* role, const Tensor& input, const Tensor& targets) {
  detail::check_floating(op, role, input);
  if (targets.dtype() != DType::i64) throw_dtype(op, "targets", targets.dtype(), "i64 class numbers");
  if (input.rank() < 1 || input.shape().without(-1) != targets.shape()) {
    throw ShapeError(
        fmt::format("{}: {} {} and targets {}; targets must have the {}' shape without the last axis, the "
                    "classes",
                    op, role, to_string(input.shape()), to_string(targets.shape()), role));
  }
}

void check_weight(const char* op, const Tensor& input, const Tensor& weight) {
  if (!weight.defined()) return;
  detail::check_same_dtype(op, input, weight);
  if (weight.shape() != Shape{input.shape()[-1]}) {
    throw ShapeError(fmt::format("{}: weight {} must be [{}], one number for each class", op, to_string(weight.shape()),
                                 input.shape()[-1]));
  }
  if (weight.requires_grad()) {
    throw GraphError(fmt::format("{}: weight wants a gradient; class weights are constants, detach() them", op));
  }
  visit_float(weight.dtype(), op, [&](auto zero) {
    for (Index i = 0; i < weight.numel(); ++i) {
      const auto value = data<decltype(zero)>(weight)[i];
      if (!(value >= 0)) throw ValueError(fmt::format("{}: weight[{}] is {}; it must not be negative", op, i, value));
    }
  });
}

// What a mean divides by: the weights of all targets that count. Throws for a target that is neither a class nor
// ignored, and for a mean over nothing.
double check_targets(const char* op, const Tensor& input, const Tensor& targets, const Tensor& weight,
                     const Counting& counting, Reduction reduction) {
  const Index classes = input.shape()[-1];
  const Index* target = data<Index>(targets);
  Index counted = 0;
  double weights = 0;
  visit_float(input.dtype(), op, [&](auto zero) {
    const auto* value = weight.defined() ? data<decltype(zero)>(weight) : nullptr;
    for (Index i = 0; i < targets.numel(); ++i) {
      if (counting.ignores(target[i])) continue;
      if (target[i] < 0 || target[i] >= classes) {
        throw IndexError(
            fmt::format("{}: target {} at position {} of {} is outside the {} classes; ignored targets carry "
                        "ignore_index",
                        op, target[i], i, to_string(targets.shape()), classes));
      }
      ++counted;
      if (value != nullptr) weights += static_cast<double>(value[target[i]]);
    }
  });
  const double divisor = weight.defined() ? weights : static_cast<double>(counted);
  if (reduction == Reduction::mean && divisor == 0) {
    throw ValueError(
        fmt::format("{}: none of the {} targets counts, their mean has no value; use Reduction::sum or leave such a "
                    "batch out",
                    op, targets.numel()));
  }
  return divisor;
}

Tensor reduced(const Tensor& losses, Reduction reduction, double divisor) {
  switch (reduction) {
    case Reduction::none: return losses;
    case Reduction::sum: return sum(losses);
    default: return sum(losses) / divisor;
  }
}

// Bool, like targets: which of them count.
Tensor counts(const Tensor& targets, const Counting& counting) {
  if (!counting.ignore) return full(targets.shape(), 1, DType::boolean);
  return not_equal(targets, from_data(std::span<const Index>(&*counting.ignore, 1), Shape{}));
}

// weight[target] for each target.
Tensor picked(const Tensor& weight, const Tensor& targets) {
  return reshape(embedding(reshape(weight, {weight.numel(), 1}), targets), targets.shape());
}

// What counts in one row: its target, every class in the even share (times its weight), and that share altogether.
template <class T>
struct RowShares {
  T target, even, even_total;
};

template <class T>
class Shares {
 public:
  Shares(const Tensor& weight, Index classes, const Counting& counting)
      : weight_(counting.weighted ? data<T>(weight) : nullptr), kept_(1 - counting.smoothing) {
    if (counting.smoothing == 0) return;
    double all = static_cast<double>(classes);
    if (weight_ != nullptr) all = std::accumulate(weight_, weight_ + classes, 0.0);
    even_ = counting.smoothing / static_cast<double>(classes);
    even_total_ = even_ * all;
  }
  RowShares<T> of(Index target) const {
    const double own = weight_ == nullptr ? kept_ : kept_ * static_cast<double>(weight_[target]);
    return {static_cast<T>(own), static_cast<T>(even_), static_cast<T>(even_total_)};
  }
  const T* weight() const { return weight_; }

 private:
  const T* weight_;
  double kept_;
  double even_ = 0;
  double even_total_ = 0;
};

// d(cross_entropy_backward) / d(logits, row_gradient), from recorded operations.
void second_rule(Backward& back, const Counting& counting) {
  const Tensor x = back.saved(0);
  const Tensor labels = back.saved(1);
  const Index classes = x.shape()[-1];
  const Tensor kept = counts(labels, counting);
  const Tensor h = where(unsqueeze(kept, -1), back.gradient(), zeros({}, x.dtype()));
  const Tensor p = softmax(x);
  const Tensor classes_or_0 = where(kept, labels, zeros({}, DType::i64));
  const Tensor weight = counting.weighted ? back.saved(3) : ones({classes}, x.dtype());
  const Tensor own = picked(weight, classes_or_0) * (1 - counting.smoothing);
  const Tensor even = weight * (counting.smoothing / static_cast<double>(classes));
  const Tensor all = unsqueeze(own + sum(even), -1);
  if (back.wants(0)) {
    const Tensor scaled = h * all * unsqueeze(back.saved(2), -1);
    back.to(0, p * (scaled - sum(scaled * p, -1, true)));
  }
  if (back.wants(1)) {
    const Tensor goal = one_hot(classes_or_0, classes, x.dtype()) * unsqueeze(own, -1) + even;
    back.to(1, sum(h * (p * all - goal), -1));
  }
}

// d(sum(row_gradient * losses)) / d(logits): row_gradient times ((target + even_total) softmax - target one_hot - even
// weight) with the shares of the row, and 0 in ignored rows.
Tensor cross_entropy_backward(const Tensor& logits, const Tensor& targets, const Tensor& norms, const Tensor& weight,
                              const Tensor& row_gradient, const Counting& counting) {
  Tensor y = detail::empty_like(logits);
  const Index classes = logits.shape()[-1];
  visit_float(logits.dtype(), "cross_entropy", [&](auto zero) {
    using T = decltype(zero);
    const Index* target = data<Index>(targets);
    const Shares<T> shares(weight, classes, counting);
    detail::parallel_ranges(targets.numel(), 3 * classes, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        T* out = fresh<T>(y) + i * classes;
        if (counting.ignores(target[i])) {
          std::fill(out, out + classes, T{0});
          continue;
        }
        const T scale = data<T>(row_gradient)[i];
        const RowShares<T> share = shares.of(target[i]);
        kernels(T{}).scaled_softmax(data<T>(logits) + i * classes, data<T>(norms) + 2 * i,
                                    scale * (share.target + share.even_total), scale * share.even, shares.weight(), out,
                                    classes);
        out[target[i]] -= scale * share.target;
      }
    });
  });
  return record("cross_entropy_backward", std::move(y), {&logits, &row_gradient},
                {&logits, &targets, &row_gradient, counting.weighted ? &weight : nullptr},
                [counting](Backward& back) { second_rule(back, counting); });
}

Tensor row_losses(const Tensor& logits, const Tensor& targets, const Tensor& weight, const Counting& counting) {
  const Index classes = logits.shape()[-1];
  Tensor losses = empty(targets.shape(), logits.dtype());
  Tensor norms = empty({targets.numel(), 2}, logits.dtype());
  visit_float(logits.dtype(), "cross_entropy", [&](auto zero) {
    using T = decltype(zero);
    const Index* target = data<Index>(targets);
    const Shares<T> shares(weight, classes, counting);
    detail::parallel_ranges(targets.numel(), 3 * classes, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        T& loss = fresh<T>(losses)[i];
        loss = 0;
        if (counting.ignores(target[i])) continue;
        const T* row = data<T>(logits) + i * classes;
        T* norm = fresh<T>(norms) + 2 * i;
        kernels(T{}).normalizer(row, norm, classes);
        const RowShares<T> share = shares.of(target[i]);
        // A class of weight 0 may have a logit of -inf.
        if (share.target != 0) loss = share.target * (norm[1] - (row[target[i]] - norm[0]));
        if (share.even == 0) continue;
        const T distances = kernels(T{}).weighted_sum(row, shares.weight(), norm[0], classes);
        loss += share.even_total * norm[1] - share.even * distances;
      }
    });
  });
  return record("cross_entropy", std::move(losses), {&logits},
                {&logits, &targets, &norms, counting.weighted ? &weight : nullptr}, [counting](Backward& back) {
                  const Tensor class_weight = counting.weighted ? back.saved(3) : Tensor();
                  back.to(0, cross_entropy_backward(back.saved(0), back.saved(1), back.saved(2), class_weight,
                                                    back.gradient(), counting));
                });
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  check_shapes("cross_entropy", "logits", logits, targets);
  check_weight("cross_entropy", logits, options.weight);
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    throw ValueError(fmt::format("cross_entropy: label_smoothing {} must be in [0, 1]", options.label_smoothing));
  }
  const Counting counting{options.ignore_index, options.weight.defined(), options.label_smoothing};
  const double divisor = check_targets("cross_entropy", logits, targets, options.weight, counting, options.reduction);
  return reduced(row_losses(logits, targets, options.weight, counting), options.reduction, divisor);
}

Tensor nll_loss(const Tensor& input, const Tensor& targets, const NllOptions& options) {
  check_shapes("nll_loss", "input", input, targets);
  check_weight("nll_loss", input, options.weight);
  const Counting counting{options.ignore_index, options.weight.defined(), 0};
  const double divisor = check_targets("nll_loss", input, targets, options.weight, counting, options.reduction);
  const Tensor kept = counts(targets, counting);
  const Tensor classes_or_0 = where(kept, targets, zeros({}, DType::i64));
  Tensor losses = -squeeze(gather(input, -1, unsqueeze(classes_or_0, -1)), -1);
  if (counting.weighted) losses = losses * picked(options.weight, classes_or_0);
  return reduced(where(kept, losses, zeros({}, input.dtype())), options.reduction, divisor);
}

}  // namespace tapehead
#endif  // HWY_ONCE
