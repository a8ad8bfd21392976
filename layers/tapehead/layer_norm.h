// SPDX-License-Identifier: MIT
// Layer normalisation (Ba, Kiros and Hinton 2016, arXiv:1607.06450).
#pragma once

#include <tapehead/module.h>

namespace tapehead {

struct LayerNormOptions {
  double eps = 1e-5;  ///< added to the variance
  bool bias = true;
};

struct LayerNorm : Module {
  Parameter weight;  ///< [width], starts at 1
  Parameter bias;    ///< [width], starts at 0; empty without bias
  double eps;

  /// Throws ValueError for a width below 1 or unless eps > 0.
  explicit LayerNorm(Index width, const LayerNormOptions& options = {});

  /// [..., width] -> [..., width]
  Tensor operator()(const Tensor& x) const;
  void members(Members& m) override;
};

}  // namespace tapehead
