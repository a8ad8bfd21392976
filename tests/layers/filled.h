// SPDX-License-Identifier: MIT
// Models and inputs that a line of Python makes too, so that figures of other libraries need no files.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <tapehead/tapehead.h>

#include "layers/same.h"

namespace tapehead {

/// sin(step * i + phase) * factor for i = 0, 1, ... in f64.
inline Tensor wave(const Shape& shape, double phase, double step = 0.7, double factor = 1) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = factor * std::sin(step * static_cast<double>(i) + phase);
  return from_data(std::span<const double>(values), shape);
}

/// The model in f64, the k-th of the named parameters being 0.4 sin(1.7 i + 0.9 k). The names are PyTorch's, in its
/// order; a name too many or too few is an error, which is how the names themselves are tested.
template <class Model>
Model filled(Model model, const std::vector<std::string>& in_order) {
  model.to(DType::f64);
  std::vector<NamedTensor> state;
  for (std::size_t k = 0; k < in_order.size(); ++k) {
    Shape shape = {};
    for (const NamedTensor& own : model.parameters()) {
      if (own.name == in_order[k]) shape = own.tensor.shape();
    }
    state.push_back({in_order[k], wave(shape, 0.9 * static_cast<double>(k), 1.7, 0.4)});
  }
  model.load_state(state);
  return model;
}

inline std::vector<std::string> with_prefix(const std::string& prefix, std::vector<std::string> list) {
  for (std::string& name : list) name = prefix + name;
  return list;
}

inline std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace tapehead
