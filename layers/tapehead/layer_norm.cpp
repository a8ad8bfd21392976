// SPDX-License-Identifier: MIT
#include <tapehead/layer_norm.h>

#include <fmt/format.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {

LayerNorm::LayerNorm(Index width, const LayerNormOptions& options) : eps(options.eps) {
  detail::at_least_one("LayerNorm", "width", width);
  if (!(eps > 0)) throw ValueError(fmt::format("LayerNorm: eps must be above 0, is {}", eps));
  weight = ones({width});
  if (options.bias) bias = zeros({width});
}

Tensor LayerNorm::operator()(const Tensor& x) const { return layer_norm(x, weight, bias, eps); }

void LayerNorm::members(Members& m) {
  m("weight", weight);
  m("bias", bias);
}

}  // namespace tapehead
