// SPDX-License-Identifier: MIT
// Dropout (Srivastava et al. 2014, JMLR 15), only while training.
#pragma once

#include <tapehead/module.h>
#include <tapehead/random.h>

namespace tapehead {

struct Dropout : Module {
  double p;  ///< the probability of 0

  /// Throws ValueError for p outside [0, 1).
  explicit Dropout(double probability);

  /// While training each element is 0 with probability p and else divided by 1 - p; after eval() x itself.
  Tensor operator()(const Tensor& x, Generator& generator = default_generator()) const;
};

}  // namespace tapehead
