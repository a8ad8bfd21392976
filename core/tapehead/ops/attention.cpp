// SPDX-License-Identifier: MIT
// Scaled dot-product attention: checks, recording and rules; the passes over memory are in detail/attention.cpp.
#include <cmath>

#include <fmt/format.h>

#include <tapehead/detail/attention.h>
#include <tapehead/detail/broadcast.h>
#include <tapehead/detail/kernel.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

using Plan = detail::AttentionPlan;
using PlanRef = std::shared_ptr<const Plan>;

Shape leading_of(const Shape& shape, int matrix_axes) {
  return Shape(std::span<const Index>(shape.begin(), static_cast<std::size_t>(shape.rank() - matrix_axes)));
}

// [..., rows, heads * width] -> [..., heads, rows, width]
Tensor split_heads(const PlanRef& p, const Tensor& x) {
  if (!p->packed) return x;
  const Shape& s = x.shape();
  const Tensor parts = reshape(x, s.with(-1, p->heads).inserted(s.rank(), s[-1] / p->heads));
  return transpose(parts, -3, -2);
}

Tensor merge_heads(const PlanRef& p, const Tensor& x) {
  if (!p->packed) return x;
  const Tensor parts = transpose(x, -3, -2);
  const Shape& s = parts.shape();
  return reshape(parts, s.without(-1).with(-1, s[-1] * s[-2]));
}

Tensor attention_weights(const PlanRef& p, const Tensor& query, const Tensor& key);

// For second derivatives: the same gradients from recorded operations, given those of the scaled scores.
void recorded_score_rule(Backward& back, const PlanRef& p, const Tensor& q, const Tensor& k, const Tensor& weights,
                         const Tensor& weights_gradient) {
  const Tensor scores = p->scale * weights * (weights_gradient - sum(weights_gradient * weights, -1, true));
  if (back.wants(0)) back.to(0, merge_heads(p, matmul(scores, k)));
  if (back.wants(1)) back.to(1, merge_heads(p, matmul(scores, q, {.transpose_a = true})));
}

void hand_over(Backward& back, detail::AttentionGradients gradients) {
  back.to(0, std::move(gradients.query));
  back.to(1, std::move(gradients.key));
  if (gradients.value.defined()) back.to(2, std::move(gradients.value));
}

void output_rule(Backward& back, const PlanRef& p) {
  p->mask->check_unchanged();
  const Tensor query = back.saved(0), key = back.saved(1), value = back.saved(2);
  const Tensor& gradient = back.gradient();
  if (is_recording()) {
    const Tensor weights = attention_weights(p, query, key);
    const Tensor g = split_heads(p, gradient);
    recorded_score_rule(back, p, split_heads(p, query), split_heads(p, key), weights,
                        matmul(g, split_heads(p, value), {.transpose_b = true}));
    if (back.wants(2)) back.to(2, merge_heads(p, matmul(weights, g, {.transpose_a = true})));
    return;
  }
  const Tensor stats = back.saved(4);
  hand_over(back, detail::attention_backward(*p, query, key, &value, gradient, back.saved(3), &stats));
}

void weights_rule(Backward& back, const PlanRef& p) {
  p->mask->check_unchanged();
  const Tensor query = back.saved(0), key = back.saved(1);
  if (is_recording()) {
    recorded_score_rule(back, p, split_heads(p, query), split_heads(p, key), back.saved(2), back.gradient());
    return;
  }
  hand_over(back, detail::attention_backward(*p, query, key, nullptr, back.gradient(), back.saved(2), nullptr));
}

Tensor attention_weights(const PlanRef& p, const Tensor& query, const Tensor& key) {
  Tensor weights = empty(p->scores_shape(), query.dtype());
  detail::attention_weights(*p, query, key, weights);
  return record("attention_weights", weights, {&query, &key}, {&query, &key, &weights},
                [p](Backward& back) { weights_rule(back, p); });
}

void check_operands(const Tensor& query, const Tensor& key, const Tensor& value, Index heads) {
  detail::check_floating(detail::kAttention, "query", query);
  const auto fail = [&](const std::string& what) {
    throw ShapeError(fmt::format("{}: query {}, key {} and value {}; {}", detail::kAttention, to_string(query.shape()),
                                 to_string(key.shape()), to_string(value.shape()), what));
  };
  for (const Tensor* other : {&key, &value}) {
    if (other->dtype() != query.dtype()) {
      throw DTypeError(fmt::format("{}: query is {}, key {} and value {}; convert them to one type with to()",
                                   detail::kAttention, name_of(query.dtype()), name_of(key.dtype()),
                                   name_of(value.dtype())));
    }
  }
  if (query.rank() < 2 || key.rank() < 2 || value.rank() < 2) fail("each needs at least two axes, [length, size]");
  if (query.shape()[-1] != key.shape()[-1]) {
    fail(fmt::format("queries of size {} cannot be compared with keys of size {}", query.shape()[-1], key.shape()[-1]));
  }
  if (key.shape()[-2] != value.shape()[-2]) {
    fail(fmt::format("there must be as many keys as values, {} against {}", key.shape()[-2], value.shape()[-2]));
  }
  const Index count = std::max<Index>(1, heads);
  if (heads < 0 || query.shape()[-1] % count != 0 || value.shape()[-1] % count != 0) {
    throw ValueError(fmt::format("{}: {} heads do not divide the widths, {} of query and key and {} of value",
                                 detail::kAttention, heads, query.shape()[-1], value.shape()[-1]));
  }
  if (query.shape()[-1] == 0) {
    throw ValueError(fmt::format("{}: query {} and key {} have head size 0; scores need at least 1", detail::kAttention,
                                 to_string(query.shape()), to_string(key.shape())));
  }
}

PlanRef plan_of(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) {
  check_operands(query, key, value, options.heads);
  const auto made = std::make_shared<Plan>();
  Plan& p = *made;
  p.packed = options.heads > 0;
  p.heads = p.packed ? options.heads : 1;
  p.queries = query.shape()[-2];
  p.keys = key.shape()[-2];
  p.size = query.shape()[-1] / p.heads;
  p.value_size = value.shape()[-1] / p.heads;
  p.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(p.size)));
  const Shape q = leading_of(query.shape(), 2), k = leading_of(key.shape(), 2), v = leading_of(value.shape(), 2);
  p.batch = broadcast(detail::kAttention, q, broadcast(detail::kAttention, k, v));
  p.leading = p.packed ? p.batch.inserted(p.batch.rank(), p.heads) : p.batch;
  p.mask = std::make_shared<const detail::MaskPlan>(options.mask, p.batch, p.leading, p.queries, p.keys, query.dtype());
  if (p.batch.numel() == 0) return made;
  p.offsets.reserve(static_cast<std::size_t>(p.batch.numel()));
  const detail::BroadcastLoop<3> loop(p.batch, {&q, &k, &v});
  loop.run_in_order([&](const auto& at, Index, Index n) {
    for (Index i = 0; i < n; ++i) {
      p.offsets.push_back({at[0] + i * loop.steps()[0], at[1] + i * loop.steps()[1], at[2] + i * loop.steps()[2]});
    }
  });
  return made;
}

}  // namespace

AttentionResult scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                             const AttentionOptions& options) {
  const PlanRef p = plan_of(query, key, value, options);
  AttentionResult result;
  if (options.need_weights) result.weights = attention_weights(p, query, key);
  Tensor output = empty(p->full(p->queries, p->value_size), query.dtype());
  Tensor stats = empty({p->matrices(), p->queries, 2}, query.dtype());
  detail::attention_forward(*p, query, key, value, output, stats);
  result.output = record(detail::kAttention, output, {&query, &key, &value}, {&query, &key, &value, &output, &stats},
                         [p](Backward& back) { output_rule(back, p); });
  return result;
}

}  // namespace tapehead
