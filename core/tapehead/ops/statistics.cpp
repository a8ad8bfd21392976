// SPDX-License-Identifier: MIT
// Reductions that are made of sums, products and extremes.
#include <limits>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include <tapehead/detail/kernel.h>
#include <tapehead/detail/parallel.h>
#include <tapehead/detail/reduction.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

using detail::check_not_empty;
using detail::ReductionPlan;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// While it lives, what an operation computes on its way is neither recorded nor looked at: its result will be, under
// the operation's own name.
class Inside {
 public:
  Inside() : watched_(std::exchange(detail::Anomaly::wanted, false)) {}
  ~Inside() { detail::Anomaly::wanted = watched_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  NoGrad no_grad_;
  bool watched_;
};

// Halves an axis by multiplying its two ends until one element is left: the order depends on the size alone, and the
// gradients of this tree are right for every number of zeros.
Tensor product_along(const Tensor& x, int axis) {
  if (x.shape()[axis] == 0) return sum(x, axis, true) + ones({}, x.dtype());
  Tensor now = x;
  Tensor odd;
  while (now.shape()[axis] > 1) {
    const Index half = now.shape()[axis] / 2;
    if (now.shape()[axis] % 2 == 1) {
      const Tensor last = slice(now, axis, {.start = -1});
      odd = odd.defined() ? odd * last : last;
    }
    now = slice(now, axis, {.stop = half}) * slice(now, axis, {.start = half, .stop = 2 * half});
  }
  return odd.defined() ? now * odd : now;
}

// 1 / y, and 0 where y is 0.
Tensor reciprocal_or_zero(const Tensor& y) {
  const Tensor zero = zeros({}, y.dtype()), one = ones({}, y.dtype());
  const Tensor none = equal(y, zero);
  return where(none, zero, reciprocal(where(none, one, y)));
}

double checked_divisor(const char* op, const Tensor& x, const ReductionPlan& p, double correction) {
  detail::check_floating(op, "x", x);
  check_not_empty(op, x, p);
  const double divisor = static_cast<double>(p.count) - correction;
  if (divisor > 0) return divisor;
  throw ValueError(
      fmt::format("{}: x {} has {} to reduce along {}, correction {} leaves nothing to divide by; "
                  "take a correction below {}",
                  op, to_string(x.shape()), p.count == 1 ? "1 element" : fmt::format("{} elements", p.count),
                  p.described_axes(), correction, p.count));
}

Tensor centred(const Tensor& x, const Axes& axes) { return x - mean(x, axes, true); }

Tensor variance_off_tape(const Tensor& x, const Axes& axes, double divisor, bool keepdim) {
  const Inside inside;
  const Tensor d = centred(x, axes);
  return sum(d * d, axes, keepdim) / divisor;
}

// Runs the axis forwards or backwards; each is the other's gradient.
Tensor running_sum(const Tensor& x, int axis, bool backwards) {
  Tensor y = detail::empty_like(x);
  const Index size = x.shape()[axis];
  const Index inner = x.shape().numel(axis + 1, x.rank());
  if (x.numel() == 0) {
    return record("cumsum", std::move(y), {&x}, {}, [](Backward& back) { back.to(0, back.gradient()); });
  }
  visit_any(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    // f32 adds up in f64; whole numbers wrap around, and signed overflow would be undefined
    using Sum = std::conditional_t<is_floating(dtype_of<T>()), double, std::uint64_t>;
    detail::parallel_ranges(x.numel() / size, 4 * size, [&](Index begin, Index end) {
      for (Index line = begin; line < end; ++line) {
        const Index start = line / inner * inner * size + line % inner;
        const T* from = detail::data<T>(x) + start;
        T* to = detail::fresh<T>(y) + start;
        Sum total{};
        for (Index i = 0; i < size; ++i) {
          const Index at = (backwards ? size - 1 - i : i) * inner;
          total += static_cast<Sum>(from[at]);
          to[at] = static_cast<T>(total);
        }
      }
    });
  });
  return record("cumsum", std::move(y), {&x}, {},
                [axis, backwards](Backward& back) { back.to(0, running_sum(back.gradient(), axis, !backwards)); });
}

}  // namespace

Tensor prod(const Tensor& x, const Axes& axes, bool keepdim) {
  const ReductionPlan p = detail::plan_reduction("prod", x, axes, keepdim);
  if (x.dtype() == DType::boolean) throw_dtype("prod", "x", x.dtype(), "f32, f64 or i64; convert it with to()");
  Tensor y = x;
  for (const int axis : p.axes) y = product_along(y, axis);
  return reshape(y, p.result);
}

Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdim) {
  const ReductionPlan p = detail::plan_reduction("logsumexp", x, axes, keepdim);
  detail::check_floating("logsumexp", "x", x);
  Tensor y;
  if (p.count == 0) {
    y = full(p.result, -kInfinity, x.dtype());
  } else {
    const Inside inside;
    const Tensor top = max(x, axes, true);
    const Tensor infinite = equal(abs(top), full({}, kInfinity, x.dtype()));
    const Tensor shift = where(infinite, zeros({}, x.dtype()), top);
    y = log(sum(exp(x - shift), axes, keepdim)) + reshape(shift, p.result);
  }
  return record("logsumexp", y, {&x}, {&x, &y}, [kept = p.kept](Backward& back) {
    const Tensor total = reshape(back.saved(1), kept);
    const Tensor never = full({}, -kInfinity, total.dtype());
    const Tensor shift = where(equal(total, never), zeros({}, total.dtype()), total);  // nothing but -inf: no slope
    back.to(0, reshape(back.gradient(), kept) * exp(back.saved(0) - shift));
  });
}

Tensor norm(const Tensor& x, Norm order, const Axes& axes, bool keepdim) {
  const ReductionPlan p = detail::plan_reduction("norm", x, axes, keepdim);
  detail::check_floating("norm", "x", x);
  check_not_empty("norm", x, p);
  if (order == Norm::l1) return sum(abs(x), axes, keepdim);
  Tensor y;
  {
    const Inside inside;
    const Tensor wide = to(x, DType::f64);  // squares of f32 neither overflow nor vanish there
    y = to(sqrt(sum(wide * wide, axes, keepdim)), x.dtype());
  }
  return record("norm", y, {&x}, {&x, &y}, [kept = p.kept](Backward& back) {
    const Tensor scale = reshape(back.gradient() * reciprocal_or_zero(back.saved(1)), kept);
    back.to(0, scale * back.saved(0));
  });
}

Tensor variance(const Tensor& x, const Axes& axes, const VarianceOptions& options) {
  const ReductionPlan p = detail::plan_reduction("variance", x, axes, options.keepdim);
  const double divisor = checked_divisor("variance", x, p, options.correction);
  Tensor y = variance_off_tape(x, axes, divisor, options.keepdim);
  return record("variance", std::move(y), {&x}, {&x}, [kept = p.kept, axes = p.axes, divisor](Backward& back) {
    back.to(0, reshape(back.gradient() * (2 / divisor), kept) * centred(back.saved(0), Axes(axes)));
  });
}

Tensor standard_deviation(const Tensor& x, const Axes& axes, const VarianceOptions& options) {
  const ReductionPlan p = detail::plan_reduction("standard_deviation", x, axes, options.keepdim);
  const double divisor = checked_divisor("standard_deviation", x, p, options.correction);
  Tensor y;
  {
    const Inside inside;
    y = sqrt(variance_off_tape(x, axes, divisor, options.keepdim));
  }
  return record("standard_deviation", y, {&x}, {&x, &y}, [kept = p.kept, axes = p.axes, divisor](Backward& back) {
    const Tensor scale = back.gradient() * reciprocal_or_zero(back.saved(1) * divisor);
    back.to(0, reshape(scale, kept) * centred(back.saved(0), Axes(axes)));
  });
}

Tensor cumsum(const Tensor& x, int axis) {
  if (x.dtype() == DType::boolean) throw_dtype("cumsum", "x", x.dtype(), "f32, f64 or i64; convert it with to()");
  return running_sum(x, normalize_axis("cumsum", axis, x.rank()), false);
}

}  // namespace tapehead
