// SPDX-License-Identifier: MIT
// softmax() as a layer.
#pragma once

#include <tapehead/module.h>

namespace tapehead {

struct Softmax : Module {
  int axis;  ///< along which results sum to 1; negative ones count from the end

  explicit Softmax(int along = -1) : axis(along) {}

  /// Any shape; throws IndexError when it has no such axis.
  Tensor operator()(const Tensor& x) const;
};

}  // namespace tapehead
