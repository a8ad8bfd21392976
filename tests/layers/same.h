// SPDX-License-Identifier: MIT
// What the tests of this room ask of two tensors.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <tapehead/tapehead.h>

namespace tapehead {

inline bool same_leaf(const Tensor& a, const Tensor& b) { return a.ref().get() == b.ref().get(); }

/// Shape, element type and every bit of every value.
inline bool same_values(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  return visit_any(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return std::ranges::equal(a.read<T>(), b.read<T>());
  });
}

/// The largest difference of two f32 or two f64 tensors of one shape; infinite for other pairs and for NaN.
inline double difference(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return INFINITY;
  return visit_float(a.dtype(), "difference", [&](auto zero) {
    using T = decltype(zero);
    double largest = 0;
    for (std::size_t i = 0; i < a.read<T>().size(); ++i) {
      const double error = std::abs(static_cast<double>(a.read<T>()[i]) - static_cast<double>(b.read<T>()[i]));
      if (!(error <= largest)) largest = std::isnan(error) ? INFINITY : error;
    }
    return largest;
  });
}

inline std::vector<std::string> names(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> out;
  for (const NamedTensor& named : tensors) out.push_back(named.name);
  return out;
}

}  // namespace tapehead
