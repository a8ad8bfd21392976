// SPDX-License-Identifier: MIT
#include <tapehead/self_attention.h>

#include <fmt/format.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {

SelfAttention::SelfAttention(Index embed_dim, Index head_dim, const SelfAttentionOptions& options, Generator& generator)
    : need_weights(options.need_weights), heads_(options.heads.value_or(0)) {
  detail::at_least_one("SelfAttention", "embed_dim", embed_dim);
  detail::at_least_one("SelfAttention", "head_dim", head_dim);
  if (options.heads) detail::at_least_one("SelfAttention", "heads", heads_);
  const Index width = options.heads ? heads_ * head_dim : head_dim;
  const auto normal = [&](const Shape& shape) { return randn(shape, DType::f32, generator) * 0.1; };
  W_q = normal({embed_dim, width});
  W_k = normal({embed_dim, width});
  W_v = normal({embed_dim, width});
  if (options.heads) W_o = normal({width, embed_dim});
}

AttentionResult SelfAttention::operator()(const Tensor& x, const Mask& mask) const {
  const Index embed_dim = W_q.shape()[0];
  if (x.rank() < 2 || x.shape()[-1] != embed_dim) {
    throw ShapeError(fmt::format("self_attention: x {} does not fit {} {}; x must be [..., T, {}]",
                                 to_string(x.shape()), W_q.name().empty() ? "W_q" : W_q.name(), to_string(W_q.shape()),
                                 embed_dim));
  }
  AttentionResult result = scaled_dot_product_attention(matmul(x, W_q), matmul(x, W_k), matmul(x, W_v),
                                                        {.mask = mask, .heads = heads_, .need_weights = need_weights});
  if (W_o.defined()) result.output = matmul(result.output, W_o);
  return result;
}

void SelfAttention::members(Members& m) {
  m("W_q", W_q);
  m("W_k", W_k);
  m("W_v", W_v);
  m("W_o", W_o);
}

}  // namespace tapehead
