// SPDX-License-Identifier: MIT
// What attention does to single rows of scores, on vectors.
#pragma once

#include <tapehead/dtype.h>

namespace tapehead::detail {

template <class T>
struct AttentionRows {
  // stats [2] = the largest score of a row and the sum of exp(score - largest); scores [n] become the exponentials.
  void (*exponentials)(T* scores, T* stats, Index n);
  // scores [n] become the weights that exponentials() led to.
  void (*weights)(T* scores, const T* stats, Index n);
  void (*scale)(const T* x, T factor, T* y, Index n);
  T (*dot)(const T* x, const T* y, Index n);
  // y = weights (g - mean), the gradient of scores from that of weights
  void (*score_gradient)(const T* weights, const T* g, T mean, T* y, Index n);
  // scores [n] become cap * tanh(scores / cap), slope [n] the derivative
  void (*softcap)(T* scores, T cap, T* slope, Index n);
  void (*multiply)(const T* x, const T* y, T* out, Index n);
  bool (*all_finite)(const T* x, Index n);
};

/// The kernels of the best instruction set that this machine has.
template <class T>
const AttentionRows<T>& attention_rows();

}  // namespace tapehead::detail
