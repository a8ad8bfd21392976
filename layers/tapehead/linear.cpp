// SPDX-License-Identifier: MIT
#include <tapehead/linear.h>

#include <cmath>

#include <tapehead/ops.h>

namespace tapehead {
namespace {

Tensor uniform(const Shape& shape, Index in, Generator& generator) {
  const double limit = 1 / std::sqrt(static_cast<double>(in));
  return rand(shape, DType::f32, generator) * (2 * limit) - limit;
}

}  // namespace

Linear::Linear(Index in, Index out, const LinearOptions& options, Generator& generator) {
  detail::at_least_one("Linear", "in", in);
  detail::at_least_one("Linear", "out", out);
  weight = uniform({out, in}, in, generator);
  if (options.bias) bias = uniform({out}, in, generator);
}

Tensor Linear::operator()(const Tensor& x) const { return linear(x, weight, bias); }

void Linear::members(Members& m) {
  m("weight", weight);
  m("bias", bias);
}

}  // namespace tapehead
