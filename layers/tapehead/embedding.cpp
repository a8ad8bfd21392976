// SPDX-License-Identifier: MIT
#include <tapehead/embedding.h>

#include <tapehead/ops.h>

namespace tapehead {

Embedding::Embedding(Index count, Index width, Generator& generator) {
  detail::at_least_one("Embedding", "count", count);
  detail::at_least_one("Embedding", "width", width);
  weight = randn({count, width}, DType::f32, generator);
}

Tensor Embedding::operator()(const Tensor& ids) const { return embedding(weight, ids); }

void Embedding::members(Members& m) { m("weight", weight); }

}  // namespace tapehead
