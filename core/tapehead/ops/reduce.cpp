// SPDX-License-Identifier: MIT
// Sums, means and extremes over axes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tapehead/ops/reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <tapehead/detail/kernel_pair.h>
#include <tapehead/detail/simd-inl.h>

#ifndef TAPEHEAD_REDUCE_KERNELS
#define TAPEHEAD_REDUCE_KERNELS
namespace tapehead {
template <class T>
struct SumKernels {
  T (*row)(const T* x, Index n);                                         // sum of x [n]
  void (*columns)(const T* x, Index rows, Index stride, Index n, T* y);  // y [n] = sum over rows of x [rows, n]
};
}  // namespace tapehead
#endif

HWY_BEFORE_NAMESPACE();
namespace tapehead::HWY_NAMESPACE {
namespace {

// Pairwise above a block: the error grows with the logarithm of n.
template <class T>
T sum_row(const T* x, Index n) {
  if (n > 2048) {
    const Index half = (n / 2 + 1023) / 1024 * 1024;
    return sum_row(x, half) + sum_row(x + half, n - half);
  }
  const Lanes<T> d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  Index i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = hn::Add(a, hn::LoadU(d, x + i));
    b = hn::Add(b, hn::LoadU(d, x + i + lanes));
    c = hn::Add(c, hn::LoadU(d, x + i + 2 * lanes));
    e = hn::Add(e, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i < n; i += lanes) {
    a = hn::Add(a, LoadFirst(d, x + i, n - i));
  }
  return AddLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e)));
}

template <class T>
void sum_columns(const T* x, Index rows, Index stride, Index n, T* y) {
  for_vectors<T>(n, [=](auto d, Index i, auto load, auto store) HWY_ATTR {
    (void)i;
    auto even = hn::Zero(d), odd = even;
    Index r = 0;
    for (; r + 2 <= rows; r += 2) {
      even = hn::Add(even, load(x + r * stride));
      odd = hn::Add(odd, load(x + (r + 1) * stride));
    }
    if (r < rows) even = hn::Add(even, load(x + r * stride));
    store(hn::Add(even, odd), y);
  });
}

const detail::KernelPair<SumKernels>* sums_kernels() {
  static constexpr detail::KernelPair<SumKernels> both{{sum_row<float>, sum_columns<float>},
                                                       {sum_row<double>, sum_columns<double>}};
  return &both;
}

}  // namespace
}  // namespace tapehead::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>

#include <fmt/format.h>

#include <tapehead/detail/kernel.h>
#include <tapehead/detail/parallel.h>
#include <tapehead/detail/reduction.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

using detail::check_not_empty;
using detail::data;
using detail::fresh;
using detail::parallel_ranges;
using detail::plan_reduction;
using detail::ReductionPlan;

HWY_EXPORT(sums_kernels);

template <class T>
const SumKernels<T>& sums(T) {
  static const auto* const chosen = HWY_DYNAMIC_DISPATCH(sums_kernels)();
  return chosen->of(T{});
}

struct Row {
  template <class T>
  static T sum(const T* x, Index n) {
    return sums(T{}).row(x, n);
  }
  static Index sum(const Index* x, Index n) {
    std::uint64_t total = 0;
    for (Index i = 0; i < n; ++i) total += static_cast<std::uint64_t>(x[i]);
    return static_cast<Index>(total);
  }
};

template <class T>
void sum_columns(const T* x, Index rows, Index stride, Index n, T* y) {
  if constexpr (std::is_same_v<T, Index>) {
    for (Index j = 0; j < n; ++j) {
      std::uint64_t total = 0;
      for (Index r = 0; r < rows; ++r) total += static_cast<std::uint64_t>(x[r * stride + j]);
      y[j] = static_cast<Index>(total);
    }
  } else {
    sums(T{}).columns(x, rows, stride, n, y);
  }
}

constexpr Index kRowBlock = 16384;   // elements of a long row summed by one chunk
constexpr Index kColumnBlock = 256;  // rows of a tall matrix summed by one chunk

// y [outer, inner] = sum over the middle axis of x [outer, size, inner]. Long axes are summed in blocks of fixed size
// first, so that threads share the work and the order of additions depends on the shape alone.
template <class T>
void sum_middle(const T* x, Index outer, Index size, Index inner, T* y) {
  const Index block = inner == 1 ? kRowBlock : kColumnBlock;
  const Index blocks = (size + block - 1) / block;
  if (blocks > 1) {
    Tensor partial = empty({outer, blocks, inner}, dtype_of<T>());
    T* sums_of_blocks = fresh<T>(partial);
    parallel_ranges(outer * blocks, block * inner, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        const Index first = i % blocks * block;
        const T* from = x + (i / blocks * size + first) * inner;
        const Index rows = std::min(block, size - first);
        if (inner == 1) {
          sums_of_blocks[i] = Row::sum(from, rows);
        } else {
          sum_columns(from, rows, inner, inner, sums_of_blocks + i * inner);
        }
      }
    });
    sum_middle(sums_of_blocks, outer, blocks, inner, y);
    return;
  }
  parallel_ranges(outer, size * inner, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      if (inner == 1) {
        y[i] = Row::sum(x + i * size, size);
      } else {
        sum_columns(x + i * size * inner, size, inner, inner, y + i * inner);
      }
    }
  });
}

// Keeps `best` when it is NaN, and takes the other when that wins or is NaN.
template <class T>
T larger(T best, T other) {
  return other > best || other != other ? (best != best ? best : other) : best;
}
template <class T>
T smaller(T best, T other) {
  return other < best || other != other ? (best != best ? best : other) : best;
}

template <class T, class Choose>
void choose_middle(const T* x, Index outer, Index size, Index inner, T* y, Choose choose) {
  parallel_ranges(outer, size * inner, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const T* from = x + i * size * inner;
      T* best = y + i * inner;
      std::copy(from, from + inner, best);
      for (Index r = 1; r < size; ++r) {
        for (Index j = 0; j < inner; ++j) best[j] = choose(best[j], from[r * inner + j]);
      }
    }
  });
}

// Reduces runs of neighbouring axes, the last run first, each as the middle of [outer, size, inner].
template <class T, class Middle>
Tensor fold(const Tensor& x, const ReductionPlan& p, Middle middle) {
  if (p.axes.empty()) {
    Tensor y = empty(p.result, x.dtype());
    std::copy_n(data<T>(x), x.numel(), fresh<T>(y));
    return y;
  }
  Tensor now = x.detach();
  Shape shape = x.shape();
  std::size_t end = p.axes.size();
  while (end > 0) {
    std::size_t begin = end - 1;
    while (begin > 0 && p.axes[begin - 1] == p.axes[begin] - 1) --begin;
    const Index outer = shape.numel(0, p.axes[begin]);
    const Index size = shape.numel(p.axes[begin], p.axes[end - 1] + 1);
    const Index inner = shape.numel(p.axes[end - 1] + 1, shape.rank());
    for (std::size_t i = begin; i < end; ++i) shape = shape.with(p.axes[i], 1);
    Tensor y = empty(begin == 0 ? p.result : shape, x.dtype());
    middle(data<T>(now), outer, size, inner, fresh<T>(y));
    now = std::move(y);
    end = begin;
  }
  return now;
}

template <class Choose>
Tensor extreme(const char* op, const Tensor& x, const Axes& axes, bool keepdim, Choose choose) {
  const ReductionPlan p = plan_reduction(op, x, axes, keepdim);
  check_not_empty(op, x, p);
  if (x.dtype() == DType::boolean) throw_dtype(op, "x", x.dtype(), "f32, f64 or i64; convert it with to()");
  Tensor y = visit_any(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return fold<T>(x, p, [&](const T* from, Index outer, Index size, Index inner, T* out) {
      choose_middle(from, outer, size, inner, out, choose);
    });
  });
  return record(op, y, {&x}, {&x, &y}, [kept = p.kept, axes = p.axes](Backward& back) {
    const Tensor x_saved = back.saved(0);
    const Tensor winner = to(equal(x_saved, reshape(back.saved(1).detach(), kept)), x_saved.dtype());
    const Tensor count = axes.empty() ? winner : sum(winner, Axes(axes), true);
    back.to(0, winner / count * reshape(back.gradient(), kept));
  });
}

// Index of the first element that no other wins against; a NaN wins against every number.
template <class Wins>
Tensor arg_extreme(const char* op, const Tensor& x, int axis, bool keepdim, Wins wins) {
  const ReductionPlan p = plan_reduction(op, x, axis, keepdim);
  check_not_empty(op, x, p);
  const int at = p.axes[0];
  const Index size = x.shape()[at];
  const Index inner = x.shape().numel(at + 1, x.rank());
  Tensor y = empty(p.result, DType::i64);
  visit_any(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = data<T>(x);
    Index* out = fresh<Index>(y);
    parallel_ranges(y.numel(), size, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        const T* row = from + i / inner * size * inner + i % inner;
        Index best = 0;
        for (Index r = 1; r < size; ++r) {
          const T value = row[r * inner];
          const T top = row[best * inner];
          if (top == top && (wins(value, top) || value != value)) best = r;
        }
        out[i] = best;
      }
    });
  });
  return y;
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, bool keepdim) {
  const ReductionPlan p = plan_reduction("sum", x, axes, keepdim);
  if (x.dtype() == DType::boolean) throw_dtype("sum", "x", x.dtype(), "f32, f64 or i64; convert it with to()");
  Tensor y = visit_any(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) {
      return Tensor();
    } else {
      return fold<T>(x, p, sum_middle<T>);
    }
  });
  return record("sum", std::move(y), {&x}, {}, [kept = p.kept, shape = x.shape()](Backward& back) {
    back.to(0, broadcast_to(reshape(back.gradient(), kept), shape));
  });
}

Tensor mean(const Tensor& x, const Axes& axes, bool keepdim) {
  detail::check_floating("mean", "x", x);
  const ReductionPlan p = plan_reduction("mean", x, axes, keepdim);
  check_not_empty("mean", x, p);
  return sum(x, axes, keepdim) / static_cast<double>(p.count);
}

Tensor max(const Tensor& x, const Axes& axes, bool keepdim) {
  return extreme("max", x, axes, keepdim, [](auto best, auto other) { return larger(best, other); });
}

Tensor min(const Tensor& x, const Axes& axes, bool keepdim) {
  return extreme("min", x, axes, keepdim, [](auto best, auto other) { return smaller(best, other); });
}

Tensor argmax(const Tensor& x, int axis, bool keepdim) {
  return arg_extreme("argmax", x, axis, keepdim, [](auto value, auto top) { return value > top; });
}

Tensor argmin(const Tensor& x, int axis, bool keepdim) {
  return arg_extreme("argmin", x, axis, keepdim, [](auto value, auto top) { return value < top; });
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  if (broadcast("sum_to", x.shape(), shape) != x.shape()) {
    throw ShapeError(
        fmt::format("sum_to: x {} is not what broadcasting {} gives", to_string(x.shape()), to_string(shape)));
  }
  const int added = x.rank() - shape.rank();
  std::vector<int> axes;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (axis < added || (shape[axis - added] == 1 && x.shape()[axis] != 1)) axes.push_back(axis);
  }
  return reshape(axes.empty() ? x : sum(x, Axes(std::move(axes)), true), shape);
}

}  // namespace tapehead
#endif  // HWY_ONCE
