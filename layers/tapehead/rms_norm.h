// SPDX-License-Identifier: MIT
// Root mean square normalisation (Zhang and Sennrich 2019, arXiv:1910.07467).
#pragma once

#include <optional>

#include <tapehead/module.h>

namespace tapehead {

struct RMSNormOptions {
  std::optional<double> eps = std::nullopt;  ///< added to the mean square; the type's machine epsilon unless given
};

struct RMSNorm : Module {
  Parameter weight;  ///< [width], starts at 1
  std::optional<double> eps;

  /// Throws ValueError for a width below 1 or unless eps > 0.
  explicit RMSNorm(Index width, const RMSNormOptions& options = {});

  /// [..., width] -> [..., width]
  Tensor operator()(const Tensor& x) const;
  void members(Members& m) override;
};

}  // namespace tapehead
