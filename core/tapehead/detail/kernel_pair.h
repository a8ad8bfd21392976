// SPDX-License-Identifier: MIT
// How an operation's file hands the kernels of one instruction set to the code that is compiled once.
#pragma once

#include <type_traits>

namespace tapehead::detail {

/// A table of kernels for both floating types. Each instruction set has one; the file that owns it picks by
///
///     HWY_EXPORT(softmax_kernels);
///     template <class T>
///     const SoftmaxKernels<T>& kernels(T) {
///       static const auto* const chosen = HWY_DYNAMIC_DISPATCH(softmax_kernels)();
///       return chosen->of(T{});
///     }
template <template <class> class Kernels>
struct KernelPair {
  Kernels<float> f32;
  Kernels<double> f64;

  const Kernels<float>& of(float) const { return f32; }
  const Kernels<double>& of(double) const { return f64; }
};

}  // namespace tapehead::detail
