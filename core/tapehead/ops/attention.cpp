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

// [..., rows, count * width] -> [..., count, rows, width]
Tensor split(const Tensor& x, Index count) {
  const Shape& s = x.shape();
  return transpose(reshape(x, s.with(-1, count).inserted(s.rank(), s[-1] / count)), -3, -2);
}

Tensor merge(const Tensor& x) {
  const Tensor parts = transpose(x, -3, -2);
  const Shape& s = parts.shape();
  return reshape(parts, s.without(-1).with(-1, s[-1] * s[-2]));
}

Tensor query_heads(const PlanRef& p, const Tensor& x) { return p->packed ? split(x, p->heads) : x; }
Tensor merge_query_heads(const PlanRef& p, const Tensor& x) { return p->packed ? merge(x) : x; }

// Keys or values with one matrix for each head of the query: those that heads share are repeated.
Tensor shared_heads(const PlanRef& p, const Tensor& x) {
  if (!p->packed) return x;
  const Tensor own = unsqueeze(split(x, p->kv_heads), -3);
  const Shape each = own.shape().with(-3, p->group());
  return reshape(broadcast_to(own, each), each.without(-3).with(-3, p->heads));
}

Tensor merge_shared_heads(const PlanRef& p, const Tensor& x) {
  if (!p->packed) return x;
  const Shape& s = x.shape();
  return merge(sum(reshape(x, s.with(-3, p->kv_heads).inserted(s.rank() - 2, p->group())), -3));
}

Tensor attention_weights(const PlanRef& p, const Tensor& query, const Tensor& key);

Tensor scaled_scores(const PlanRef& p, const Tensor& query, const Tensor& key) {
  return matmul(query_heads(p, query * p->scale), shared_heads(p, key), {.transpose_b = true});
}

// For second derivatives: the same gradients from recorded operations, given those of the weights.
void recorded_score_rule(Backward& back, const PlanRef& p, const Tensor& query, const Tensor& key,
                         const Tensor& weights, const Tensor& weights_gradient) {
  Tensor scores = p->scale * weights * (weights_gradient - sum(weights_gradient * weights, -1, true));
  if (p->softcap > 0) {
    const Tensor t = tanh(scaled_scores(p, query, key) / p->softcap);
    scores = scores * (1.0 - t * t);
  }
  if (back.wants(0)) back.to(0, merge_query_heads(p, matmul(scores, shared_heads(p, key))));
  if (back.wants(1)) {
    back.to(1, merge_shared_heads(p, matmul(scores, query_heads(p, query), {.transpose_a = true})));
  }
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
    const Tensor g = query_heads(p, gradient);
    Tensor weights_gradient = matmul(g, shared_heads(p, value), {.transpose_b = true});
    Tensor dropped = weights;
    if (p->dropout > 0) {
      const Tensor factors = detail::attention_drop_factors(*p, query.dtype());
      weights_gradient = weights_gradient * factors;
      dropped = weights * factors;
    }
    recorded_score_rule(back, p, query, key, weights, weights_gradient);
    if (back.wants(2)) back.to(2, merge_shared_heads(p, matmul(dropped, g, {.transpose_a = true})));
    return;
  }
  const Tensor stats = back.saved(4);
  hand_over(back, detail::attention_backward(*p, query, key, &value, gradient, back.saved(3), &stats));
}

void weights_rule(Backward& back, const PlanRef& p) {
  p->mask->check_unchanged();
  const Tensor query = back.saved(0), key = back.saved(1);
  if (is_recording()) {
    recorded_score_rule(back, p, query, key, back.saved(2), back.gradient());
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

Index heads_of(const AttentionOptions& options) { return options.heads > 0 ? options.heads : 1; }
Index kv_heads_of(const AttentionOptions& options) {
  return options.kv_heads > 0 ? options.kv_heads : heads_of(options);
}

// The number of heads; throws ValueError unless everything divides.
Index check_heads(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) {
  if (options.heads < 0 || options.kv_heads < 0 || (options.kv_heads > 0 && options.heads == 0)) {
    throw ValueError(fmt::format("{}: {} heads and {} kv_heads must not be negative, and kv_heads needs heads",
                                 detail::kAttention, options.heads, options.kv_heads));
  }
  const Index heads = heads_of(options), kv_heads = kv_heads_of(options);
  if (heads % kv_heads != 0) {
    throw ValueError(
        fmt::format("{}: {} heads cannot share {} heads of key and value evenly", detail::kAttention, heads, kv_heads));
  }
  if (query.shape()[-1] % heads != 0 || key.shape()[-1] % kv_heads != 0 || value.shape()[-1] % kv_heads != 0) {
    throw ValueError(
        fmt::format("{}: {} heads do not divide the width {} of the query, or {} the widths {} of the key "
                    "and {} of the value",
                    detail::kAttention, heads, query.shape()[-1], kv_heads, key.shape()[-1], value.shape()[-1]));
  }
  return heads;
}

void check_numbers(const AttentionOptions& options) {
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    throw ValueError(
        fmt::format("{}: dropout is {}; it must be at least 0 and below 1", detail::kAttention, options.dropout));
  }
  if (!(options.softcap >= 0) || !std::isfinite(options.softcap)) {
    throw ValueError(fmt::format("{}: softcap is {}; it must be finite and above 0, or 0 for none", detail::kAttention,
                                 options.softcap));
  }
  if (options.scale && !std::isfinite(*options.scale)) {
    throw ValueError(fmt::format("{}: scale is {}; it must be finite", detail::kAttention, *options.scale));
  }
}

void check_operands(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) {
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
  if (key.shape()[-2] != value.shape()[-2]) {
    fail(fmt::format("there must be as many keys as values, {} against {}", key.shape()[-2], value.shape()[-2]));
  }
  if (query.shape()[-1] == 0) {
    throw ValueError(fmt::format("{}: query {} and key {} have head size 0; scores need at least 1", detail::kAttention,
                                 to_string(query.shape()), to_string(key.shape())));
  }
  const Index size = query.shape()[-1] / check_heads(query, key, value, options);
  const Index key_size = key.shape()[-1] / kv_heads_of(options);
  if (size != key_size) {
    fail(fmt::format("queries of size {} cannot be compared with keys of size {}", size, key_size));
  }
}

PlanRef plan_of(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) {
  check_operands(query, key, value, options);
  check_numbers(options);
  const auto made = std::make_shared<Plan>();
  Plan& p = *made;
  p.packed = options.heads > 0;
  p.heads = heads_of(options);
  p.kv_heads = kv_heads_of(options);
  p.queries = query.shape()[-2];
  p.keys = key.shape()[-2];
  p.size = query.shape()[-1] / p.heads;
  p.value_size = value.shape()[-1] / p.kv_heads;
  p.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(p.size)));
  p.softcap = options.softcap;
  p.dropout = options.dropout;
  const Shape q = leading_of(query.shape(), 2), k = leading_of(key.shape(), 2), v = leading_of(value.shape(), 2);
  p.batch = broadcast(detail::kAttention, q, broadcast(detail::kAttention, k, v));
  p.leading = p.packed ? p.batch.inserted(p.batch.rank(), p.heads) : p.batch;
  p.mask = std::make_shared<const detail::MaskPlan>(options.mask, p.batch, p.leading, p.queries, p.keys, query.dtype());
  if (p.batch.numel() == 0) return made;
  if (p.dropout > 0) {
    Generator& generator = options.generator != nullptr ? *options.generator : default_generator();
    p.seed = generator.seed();
    p.first = generator.reserve(static_cast<std::uint64_t>(p.matrices() * p.queries * p.random_blocks()));
  }
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
  Tensor output = empty(p->full(p->queries, p->output_stride()), query.dtype());
  Tensor stats = empty({p->matrices(), p->queries, 2}, query.dtype());
  detail::attention_forward(*p, query, key, value, output, stats);
  result.output = record(detail::kAttention, output, {&query, &key, &value}, {&query, &key, &value, &output, &stats},
                         [p](Backward& back) { output_rule(back, p); });
  return result;
}

Tensor attention_scores(const Tensor& query, const Tensor& key, const AttentionOptions& options) {
  AttentionOptions scores_only = options;
  scores_only.dropout = 0;  // must not draw random numbers
  return scaled_scores(plan_of(query, key, key, scores_only), query, key);
}

}  // namespace tapehead
