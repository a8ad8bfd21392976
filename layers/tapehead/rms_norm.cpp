// SPDX-License-Identifier: MIT
#include <tapehead/rms_norm.h>

#include <fmt/format.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {

RMSNorm::RMSNorm(Index width, const RMSNormOptions& options) : eps(options.eps) {
  detail::at_least_one("RMSNorm", "width", width);
  if (eps && !(*eps > 0)) throw ValueError(fmt::format("RMSNorm: eps must be above 0, is {}", *eps));
  weight = ones({width});
}

Tensor RMSNorm::operator()(const Tensor& x) const { return rms_norm(x, weight, eps); }

void RMSNorm::members(Members& m) { m("weight", weight); }

}  // namespace tapehead
