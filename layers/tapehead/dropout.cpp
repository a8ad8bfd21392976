// SPDX-License-Identifier: MIT
#include <tapehead/dropout.h>

#include <fmt/format.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {

Dropout::Dropout(double probability) : p(probability) {
  if (!(p >= 0 && p < 1)) throw ValueError(fmt::format("Dropout: p must be in [0, 1), is {}", p));
}

Tensor Dropout::operator()(const Tensor& x, Generator& generator) const {
  return training ? dropout(x, p, generator) : x;
}

}  // namespace tapehead
