// SPDX-License-Identifier: MIT
// A table of learned rows, looked up by number.
#pragma once

#include <tapehead/module.h>
#include <tapehead/random.h>

namespace tapehead {

struct Embedding : Module {
  Parameter weight;  ///< [count, width]

  /// Starts normal with mean 0 and variance 1, PyTorch's default. Throws ValueError for sizes below 1.
  Embedding(Index count, Index width, Generator& generator = default_generator());

  /// ids i64 [...] -> [..., width]. Throws IndexError for an id outside [0, count).
  Tensor operator()(const Tensor& ids) const;
  void members(Members& m) override;
};

}  // namespace tapehead
