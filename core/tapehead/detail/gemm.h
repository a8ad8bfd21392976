// SPDX-License-Identifier: MIT
// Matrix products. An element of the result depends on its row of a and its column of b alone, to the bit, however many
// rows and columns surround it: one token through a layer gives the bits it has among sixty-four.
#pragma once

#include <tapehead/dtype.h>

namespace tapehead::detail {

/// A matrix in memory, row-major with `stride` elements from row to row, read as its transpose where asked.
template <class T>
struct MatrixView {
  const T* data;
  Index stride;
  bool transposed = false;
};

/// Products are summed over k in order, in pieces of this many terms, each one chain of multiply-adds from zero; the
/// pieces are added in order.
template <class T>
inline constexpr Index kGemmDepth = 2048 / sizeof(T);

/// c [m, n] = alpha * a [m, k] * b [k, n] + beta * c, over all threads. beta 0 overwrites whatever c holds. Large
/// products with a transposed, which weight gradients are, go to BLAS and keep no bits from one m to another.
template <class T>
void gemm(Index m, Index n, Index k, T alpha, MatrixView<T> a, MatrixView<T> b, T beta, T* c, Index c_stride);

/// c [m, n] = a [m, k] * b [k, n] + bias [n] in each row, over all threads; a not transposed.
template <class T>
void gemm_bias(Index m, Index n, Index k, MatrixView<T> a, MatrixView<T> b, const T* bias, T* c, Index c_stride);

/// gemm() in this thread, never by BLAS: the piece that attention cuts its work into.
template <class T>
void gemm_tile(Index m, Index n, Index k, T alpha, MatrixView<T> a, MatrixView<T> b, T beta, T* c, Index c_stride);

}  // namespace tapehead::detail
