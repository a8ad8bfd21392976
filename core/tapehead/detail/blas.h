// SPDX-License-Identifier: MIT
// The only door to BLAS. Products are cut into tiles by their shape alone and each tile is one single-threaded
// call, so that the same bits come out for any number of threads.
#pragma once

#include <tapehead/dtype.h>

namespace tapehead::detail {

/// Pins BLAS to one thread in the calling thread; on the first call repairs the choice of kernels.
void blas_prepare_thread();

/// A matrix in memory, row-major with `stride` elements from row to row, read as its transpose where asked.
template <class T>
struct MatrixView {
  const T* data;
  Index stride;
  bool transposed = false;
};

/// c [m, n] = alpha * a [m, k] * b [k, n] + beta * c, over all threads. beta 0 overwrites whatever c holds.
template <class T>
void gemm(Index m, Index n, Index k, T alpha, MatrixView<T> a, MatrixView<T> b, T beta, T* c, Index c_stride);

/// The same in this thread and in one call: the piece that gemm() and attention cut their work into.
template <class T>
void gemm_tile(Index m, Index n, Index k, T alpha, MatrixView<T> a, MatrixView<T> b, T beta, T* c, Index c_stride);

/// While it lives, subnormal numbers count as zero in this thread: a saturated softmax would slow products tenfold.
class FlushSubnormals {
 public:
  FlushSubnormals();
  ~FlushSubnormals();
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  unsigned long long saved_;
};

}  // namespace tapehead::detail
