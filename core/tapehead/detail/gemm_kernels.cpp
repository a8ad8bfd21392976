// SPDX-License-Identifier: MIT
// A product in three layers of tiles: a block of b is packed into panels that stay in the L2 cache; a few rows of a
// meet each panel in turn; of each such pair all sums live in registers while k runs.
#undef HWY_DISABLED_TARGETS  // vectors of unknown size cannot stand in the arrays below
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tapehead/detail/gemm_kernels.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include <tapehead/detail/gemm_kernels.h>
#include <tapehead/detail/kernel_pair.h>

#ifndef TAPEHEAD_GEMM_KERNELS
#define TAPEHEAD_GEMM_KERNELS
namespace tapehead {
template <class T>
struct GemmKernels {
  void (*run)(const detail::GemmTask<T>& task, T* scratch);
};
namespace detail {
// Sizes that hold for every instruction set. Columns are multiples of three vectors of any length.
inline constexpr Index kGemmColumns = 240;  // of b packed at once: half a megabyte, with kGemmDepth rows
inline constexpr Index kFewRows = 16;       // up to here b is used up panel by panel
inline constexpr Index kInPlaceRows = 512;  // up to here b is not packed where its rows lie well

template <class T>
Index block_columns(Index m, Index n) {
  if (m <= kFewRows) return kGemmColumns / 5;
  const Index blocks = (n + kGemmColumns - 1) / kGemmColumns;
  return ((n + blocks - 1) / blocks + 47) / 48 * 48;
}
}  // namespace detail
}  // namespace tapehead
#endif

HWY_BEFORE_NAMESPACE();
namespace tapehead::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using detail::GemmTask;
using detail::MatrixView;

// Sums of kRows x 3 vectors leave room in 32 or in 16 registers for three of b and one or more of a.
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3
constexpr Index kRows = 4;
#else
constexpr Index kRows = 8;
#endif
constexpr Index kVectors = 3;

template <class T>
constexpr Index kLanes = static_cast<Index>(HWY_LANES(T));

// Where one tile of the result goes, and what it starts from.
template <class T>
struct Target {
  Index rows, columns;
  T alpha, beta;
  const T* start;
  Index start_stride;
  T* c;
  Index c_stride;
};

// c = alpha * sum + beta * start for one vector of which `columns` elements exist.
template <class D, class V, class T>
HWY_INLINE void Finish(D d, V sum, const Target<T>& to, Index row, Index column, Index columns) {
  const T* start = to.start + row * to.start_stride + column;
  T* c = to.c + row * to.c_stride + column;
  const V alpha = hn::Set(d, to.alpha), beta = hn::Set(d, to.beta);
  if (columns >= kLanes<T>) {
    hn::StoreU(to.beta == T{0} ? hn::Mul(alpha, sum) : hn::MulAdd(alpha, sum, hn::Mul(beta, hn::LoadU(d, start))), d,
               c);
    return;
  }
  HWY_ALIGN T edge[kLanes<T>] = {};
  if (to.beta != T{0}) std::copy(start, start + columns, edge);
  const V result = to.beta == T{0} ? hn::Mul(alpha, sum) : hn::MulAdd(alpha, sum, hn::Mul(beta, hn::Load(d, edge)));
  hn::Store(result, d, edge);
  std::copy(edge, edge + columns, c);
}

// The sums over k of kR rows and kV vectors of columns. a is read along rows `a_step` apart (kByRows), or as packed:
// kR rows side by side, `a_step` from one k to the next.
template <class T, Index kR, Index kV, bool kByRows>
HWY_NOINLINE void multiply(Index k, const T* HWY_RESTRICT a, Index a_step, const T* HWY_RESTRICT b, Index b_step,
                           const Target<T>& to) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  V sums[kR][kV];
  HWY_UNROLL(8)
  for (Index r = 0; r < kR; ++r) {
    HWY_UNROLL(3)
    for (Index v = 0; v < kV; ++v) sums[r][v] = hn::Zero(d);
  }
  for (Index p = 0; p < k; ++p) {
    V right[kV];
    HWY_UNROLL(3)
    for (Index v = 0; v < kV; ++v) right[v] = hn::LoadU(d, b + v * kLanes<T>);
    HWY_UNROLL(8)
    for (Index r = 0; r < kR; ++r) {
      const V left = hn::Set(d, kByRows ? a[r * a_step] : a[r]);
      HWY_UNROLL(3)
      for (Index v = 0; v < kV; ++v) sums[r][v] = hn::MulAdd(left, right[v], sums[r][v]);
    }
    a += kByRows ? 1 : a_step;
    b += b_step;
  }
  HWY_UNROLL(8)
  for (Index r = 0; r < kR; ++r) {
    if (r >= to.rows) break;
    HWY_UNROLL(3)
    for (Index v = 0; v < kV; ++v) {
      const Index left = to.columns - v * kLanes<T>;
      if (left > 0) Finish(d, sums[r][v], to, r, v * kLanes<T>, left);
    }
  }
}

template <class T>
using Multiply = void (*)(Index, const T*, Index, const T*, Index, const Target<T>&);

template <class T, Index kR, bool kByRows>
Multiply<T> multiply_for(Index vectors) {
  return vectors == 3   ? multiply<T, kR, 3, kByRows>
         : vectors == 2 ? multiply<T, kR, 2, kByRows>
                        : multiply<T, kR, 1, kByRows>;
}

// Rows side by side for which there is a kernel: at least `rows`.
inline Index kernel_rows(Index rows) { return rows == 1 ? 1 : rows == 2 ? 2 : rows <= 4 ? 4 : kRows; }

template <class T>
Multiply<T> packed_kernel(Index rows, Index vectors) {
  return rows == 1   ? multiply_for<T, 1, false>(vectors)
         : rows == 2 ? multiply_for<T, 2, false>(vectors)
         : rows == 4 ? multiply_for<T, 4, false>(vectors)
                     : multiply_for<T, kRows, false>(vectors);
}

#if HWY_TARGET == HWY_SCALAR
template <class T>
constexpr Index kSquare = 1;

template <class T, Index kWidth>
HWY_INLINE void TransposeStrip(const T* from, Index, T* to, Index) {
  *to = *from;
}
#else
// Elements of the small squares that are transposed in registers, one in each 128 bits of a vector.
template <class T>
constexpr Index kSquare = 16 / sizeof(T);

// kSquare elements of each of the rows 0, kSquare, 2 kSquare... `stride` apart, side by side.
template <class T, Index kWidth>
HWY_INLINE hn::Vec<hn::FixedTag<T, kWidth>> Gather(const T* from, Index stride) {
  const hn::FixedTag<T, kWidth> d;
  if constexpr (kWidth <= kSquare<T>) {
    return hn::LoadU(d, from);
  } else {
    return hn::Combine(d, Gather<T, kWidth / 2>(from + kWidth / 2 * stride, stride),
                       Gather<T, kWidth / 2>(from, stride));
  }
}

// to [kSquare, kWidth] = the transpose of from [kWidth, kSquare]
template <class T, Index kWidth>
HWY_INLINE void TransposeStrip(const T* from, Index stride, T* to, Index to_stride) {
  const hn::FixedTag<T, kWidth> d;
  const auto row = [&](Index i) HWY_ATTR { return Gather<T, kWidth>(from + i * stride, stride); };
  if constexpr (kSquare<T> == 2) {
    const auto r0 = row(0), r1 = row(1);
    hn::StoreU(hn::InterleaveLower(d, r0, r1), d, to);
    hn::StoreU(hn::InterleaveUpper(d, r0, r1), d, to + to_stride);
  } else {
    const hn::Repartition<double, decltype(d)> pairs;
    const auto r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3);
    const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
    const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
    const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
    const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + to_stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * to_stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * to_stride);
  }
}
#endif

// to [k, width] = the transpose of from [columns, k]; columns up to width are zero.
template <class T>
void pack_transposed(const T* from, Index stride, Index k, Index columns, Index width, T* to) {
  constexpr Index kLine = 64 / sizeof(T);
  const Index whole = k / kSquare<T> * kSquare<T>, strips = columns / kLanes<T> * kLanes<T>;
  for (Index line = 0; line < whole; line += kLine) {
    const Index end = std::min(whole, line + kLine);
    for (Index j = 0; j < strips; j += kLanes<T>) {
      for (Index r = j; r < j + kLanes<T>; ++r) hwy::Prefetch(from + r * stride + line + 2 * kLine);
      for (Index p = line; p < end; p += kSquare<T>) {
        TransposeStrip<T, kLanes<T>>(from + j * stride + p, stride, to + p * width + j, width);
      }
    }
  }
  for (Index p = 0; p < k; ++p) {
    for (Index j = p < whole ? strips : 0; j < width; ++j) {
      to[p * width + j] = j < columns ? from[j * stride + p] : T{0};
    }
  }
}

// to [k, width] = from [k, columns]; columns up to width are zero.
template <class T>
void pack_rows(const T* from, Index stride, Index k, Index columns, Index width, T* to) {
  const hn::ScalableTag<T> d;
  const Index whole = columns / kLanes<T> * kLanes<T>;
  for (Index p = 0; p < k; ++p, from += stride, to += width) {
    for (Index j = 0; j < whole; j += kLanes<T>) hn::StoreU(hn::LoadU(d, from + j), d, to + j);
    for (Index j = whole; j < width; ++j) to[j] = j < columns ? from[j] : T{0};
  }
}

// Vectors in the next panel of a block that has so many left: no single one beside two or more.
inline Index panel_vectors(Index left) { return left == 4 || left == 2 ? 2 : left == 1 ? 1 : kVectors; }

template <class T>
class Product {
 public:
  Product(const GemmTask<T>& task, T* scratch) : task_(task), scratch_(scratch) {}

  void run() {
    const Index step = detail::block_columns<T>(task_.m, task_.n);
    for (begin_ = 0; begin_ < task_.n; begin_ += step) {
      columns_ = std::min(step, task_.n - begin_);
      for (from_ = 0; from_ < task_.k; from_ += depth_) {
        depth_ = std::min(detail::kGemmDepth<T>, task_.k - from_);
        split();
        rows();
      }
    }
  }

 private:
  struct Panel {
    const T* data;
    Index step, first, columns, vectors;
  };

  // The panels of the block of b, packed unless they lie well.
  void split() {
    T* to = scratch_;
    count_ = 0;
    for (Index first = 0; first < columns_;) {
      const Index vectors = panel_vectors((columns_ - first + kLanes<T> - 1) / kLanes<T>);
      const Index width = vectors * kLanes<T>, columns = std::min(width, columns_ - first);
      const MatrixView<T>& b = task_.b;
      Panel& panel = panels_[count_++];
      panel = {to, width, first, columns, vectors};
      const Index j = begin_ + first;
      if (b.transposed) {
        pack_transposed(b.data + j * b.stride + from_, b.stride, depth_, columns, width, to);
      } else if (columns == width && task_.m <= detail::kInPlaceRows) {
        panel.data = b.data + from_ * b.stride + j;
        panel.step = b.stride;
      } else {
        pack_rows(b.data + from_ * b.stride + j, b.stride, depth_, columns, width, to);
      }
      if (panel.data == to) to += depth_ * width;
      first += columns;
    }
    free_ = to;
  }

  void rows() {
    const MatrixView<T>& a = task_.a;
    const Index whole = task_.m / kRows * kRows;
    if (!a.transposed) {
      for (Index i = 0; i < whole; i += kRows) meet<true>(i, kRows, kRows, a.data + i * a.stride + from_, a.stride);
    } else {
      const T* from = a.data + from_ * a.stride;
      for (Index i = 0; i < whole; i += kRows) meet<false>(i, kRows, kRows, from + i, a.stride);
    }
    if (whole < task_.m) last_rows(whole);
  }

  void last_rows(Index i) {
    const MatrixView<T>& a = task_.a;
    const Index left = task_.m - i, width = kernel_rows(left);
    if (left == 1 && !a.transposed) return meet<false>(i, 1, 1, a.data + i * a.stride + from_, 1);
    if (a.transposed) {
      pack_rows(a.data + from_ * a.stride + i, a.stride, depth_, left, width, free_);
    } else {
      for (Index p = 0; p < depth_; ++p) {
        for (Index r = 0; r < width; ++r) {
          free_[p * width + r] = r < left ? a.data[(i + r) * a.stride + from_ + p] : T{0};
        }
      }
    }
    meet<false>(i, left, width, free_, width);
  }

  // Rows i to i + rows with every panel.
  template <bool kByRows>
  void meet(Index i, Index rows, Index kernel, const T* a, Index a_step) {
    const bool first = from_ == 0;
    for (Index at = 0; at < count_; ++at) {
      const Panel& panel = panels_[at];
      const Index j = begin_ + panel.first;
      T* c = task_.c + i * task_.c_stride + j;
      const Target<T> to{rows,
                         panel.columns,
                         task_.alpha,
                         first ? task_.beta : T{1},
                         first ? task_.start + i * task_.start_stride + j : c,
                         first ? task_.start_stride : task_.c_stride,
                         c,
                         task_.c_stride};
      const auto multiply =
          kByRows ? multiply_for<T, kRows, true>(panel.vectors) : packed_kernel<T>(kernel, panel.vectors);
      multiply(depth_, a, a_step, panel.data, panel.step, to);
    }
  }

  const GemmTask<T>& task_;
  T* scratch_;
  T* free_ = nullptr;              // scratch memory behind the panels
  Index begin_ = 0, columns_ = 0;  // of b
  Index from_ = 0, depth_ = 0;     // of k
  Index count_ = 0;
  Panel panels_[(detail::kGemmColumns + kLanes<T> - 1) / kLanes<T>];
};

template <class T>
void run(const GemmTask<T>& task, T* scratch) {
  Product<T>(task, scratch).run();
}

const detail::KernelPair<GemmKernels>* gemm_kernels() {
  static constexpr detail::KernelPair<GemmKernels> both{{run<float>}, {run<double>}};
  return &both;
}

}  // namespace
}  // namespace tapehead::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapehead::detail {
namespace {

HWY_EXPORT(gemm_kernels);

template <class T>
const GemmKernels<T>& kernels(T) {
  static const auto* const chosen = HWY_DYNAMIC_DISPATCH(gemm_kernels)();
  return chosen->of(T{});
}

}  // namespace

template <class T>
Index gemm_scratch(const GemmTask<T>& task) {
  const Index widest = 64 / sizeof(T);  // the last vector of a block is whole
  const Index columns = (std::min(task.n, block_columns<T>(task.m, task.n)) + widest - 1) / widest * widest;
  return std::min(task.k, kGemmDepth<T>) * (columns + 8);
}

template <class T>
void gemm_run(const GemmTask<T>& task, T* scratch) {
  kernels(T{}).run(task, scratch);
}

template Index gemm_scratch(const GemmTask<float>&);
template Index gemm_scratch(const GemmTask<double>&);
template void gemm_run(const GemmTask<float>&, float*);
template void gemm_run(const GemmTask<double>&, double*);

}  // namespace tapehead::detail
#endif  // HWY_ONCE
