// SPDX-License-Identifier: MIT
// What every operation's file needs: raw access to elements and the checks that operands share.
#pragma once

#include <tapehead/dtype.h>
#include <tapehead/tensor.h>

namespace tapehead::detail {

/// The elements without checks; the caller knows the type.
template <class T>
const T* data(const Tensor& tensor) {
  return static_cast<const T*>(tensor.body().storage->data());
}
/// The elements of a tensor that the caller has just made: no version is counted.
template <class T>
T* fresh(Tensor& tensor) {
  return static_cast<T*>(tensor.body().storage->data());
}

inline Tensor empty_like(const Tensor& x) { return empty(x.shape(), x.dtype()); }

/// Throws DTypeError naming both types: nothing is converted silently.
void check_same_dtype(const char* op, const Tensor& a, const Tensor& b);
/// Throws DTypeError unless x is f32 or f64.
void check_floating(const char* op, const char* role, const Tensor& x);

}  // namespace tapehead::detail
