// SPDX-License-Identifier: MIT
// The affine layer: y = x weight^T + bias.
#pragma once

#include <tapehead/module.h>
#include <tapehead/random.h>

namespace tapehead {

struct LinearOptions {
  bool bias = true;
};

struct Linear : Module {
  Parameter weight;  ///< [out, in]
  Parameter bias;    ///< [out]; empty without bias

  /// Both start uniform in +-1/sqrt(in), PyTorch's default. Throws ValueError for sizes below 1.
  Linear(Index in, Index out, const LinearOptions& options = {}, Generator& generator = default_generator());

  /// [..., in] -> [..., out]
  Tensor operator()(const Tensor& x) const;
  void members(Members& m) override;
};

}  // namespace tapehead
