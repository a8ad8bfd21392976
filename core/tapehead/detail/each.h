// SPDX-License-Identifier: MIT
// A function of one number applied to every element.
#pragma once

#include <tapehead/detail/kernel.h>
#include <tapehead/detail/parallel.h>

namespace tapehead::detail {

/// y = f(x) for functions that no vector library offers: one call to libm an element. Off the tape.
template <class F>
Tensor each(const char* op, const Tensor& x, F f) {
  Tensor y = empty_like(x);
  visit_float(x.dtype(), op, [&](auto zero) {
    using T = decltype(zero);
    const T* from = data<T>(x);
    T* out = fresh<T>(y);
    parallel_ranges(x.numel(), 16, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) out[i] = f(from[i]);
    });
  });
  return y;
}

}  // namespace tapehead::detail
