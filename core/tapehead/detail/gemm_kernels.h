// SPDX-License-Identifier: MIT
// The product of one thread, on vectors.
#pragma once

#include <tapehead/detail/gemm.h>

namespace tapehead::detail {

/// c [m, n] = alpha * a [m, k] * b [k, n] + beta * start, where a stride of 0 gives every row the same start. beta 0
/// never reads it. k is at least 1.
template <class T>
struct GemmTask {
  Index m, n, k;
  T alpha;
  MatrixView<T> a, b;
  T beta;
  const T* start;
  Index start_stride;
  T* c;
  Index c_stride;
};

/// Elements of scratch memory that a task needs, 64-byte aligned.
template <class T>
Index gemm_scratch(const GemmTask<T>& task);

/// Runs a task by the kernels of the best instruction set that this machine has.
template <class T>
void gemm_run(const GemmTask<T>& task, T* scratch);

}  // namespace tapehead::detail
