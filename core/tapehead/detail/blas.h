// SPDX-License-Identifier: MIT
// The only door to BLAS: calls of one thread each.
#pragma once

#include <tapehead/detail/gemm.h>

namespace tapehead::detail {

/// Pins BLAS to one thread in the calling thread; on the first call repairs the choice of kernels.
void blas_prepare_thread();

/// gemm() of gemm.h by one call of BLAS in this thread; k at least 1.
template <class T>
void blas_tile(Index m, Index n, Index k, T alpha, MatrixView<T> a, MatrixView<T> b, T beta, T* c, Index c_stride);

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
