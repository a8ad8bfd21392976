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

// The operands of a call; one tensor that holds all three stands in each place.
struct Operands {
  Tensor query, key, value;
};

Operands saved_operands(Backward& back, const PlanRef& p, bool with_value) {
  if (p->joined) return {back.saved(0), back.saved(0), back.saved(0)};
  return {back.saved(0), back.saved(1), with_value ? back.saved(2) : Tensor()};
}

// The same as three tensors, from recorded operations.
Operands separate(const PlanRef& p, const Operands& whole) {
  if (!p->joined) return whole;
  const auto columns = [&](Index from, Index to) { return slice(whole.query, -1, {.start = from, .stop = to}); };
  return {columns(0, p->key_at), columns(p->key_at, p->value_at), columns(p->value_at, p->query_stride)};
}

Tensor attention_weights(const PlanRef& p, const Operands& from);

Tensor scaled_scores(const PlanRef& p, const Tensor& query, const Tensor& key) {
  return matmul(query_heads(p, query * p->scale), shared_heads(p, key), {.transpose_b = true});
}

// Products over pairs of a query and a key, recorded. Where an operand holds NaN or infinity behind a mask, a weight of
// 0 times it would not be 0: then every pair is formed by itself, and blocked ones are left out.
class Pairs {
 public:
  Pairs(const Plan& p, std::initializer_list<const Tensor*> operands)
      : allowed_(detail::attention_allowed(p, operands)) {}

  /// a [..., queries, size] and b [..., keys, size] -> [..., queries, keys]
  Tensor of(const Tensor& a, const Tensor& b) const {
    if (!allowed_.defined()) return matmul(a, b, {.transpose_b = true});
    return sum(kept(unsqueeze(a, -2)) * kept(unsqueeze(b, -3)), -1);
  }
  /// pairs [..., queries, keys] and x [..., keys, size] -> [..., queries, size]
  Tensor summed_over_keys(const Tensor& pairs, const Tensor& x) const {
    if (!allowed_.defined()) return matmul(pairs, x);
    return sum(kept(unsqueeze(pairs, -1)) * kept(unsqueeze(x, -3)), -2);
  }
  /// pairs [..., queries, keys] and x [..., queries, size] -> [..., keys, size]
  Tensor summed_over_queries(const Tensor& pairs, const Tensor& x) const {
    if (!allowed_.defined()) return matmul(pairs, x, {.transpose_a = true});
    return sum(kept(unsqueeze(pairs, -1)) * kept(unsqueeze(x, -2)), -3);
  }
  /// 0 where a pair is blocked.
  Tensor without_blocked(const Tensor& pairs) const {
    return allowed_.defined() ? where(allowed_, pairs, zeros({}, pairs.dtype())) : pairs;
  }

 private:
  // x broadcast to [..., queries, keys, size], 0 where a pair is blocked.
  Tensor kept(const Tensor& x) const { return where(unsqueeze(allowed_, -1), x, zeros({}, x.dtype())); }

  Tensor allowed_;  // bool [..., queries, keys]; not defined while plain products do
};

// For second derivatives: gradients of query and key from recorded operations, given those of the weights.
detail::AttentionGradients recorded_score_gradients(const PlanRef& p, const Operands& parts, const Tensor& weights,
                                                    const Tensor& gradient, const Pairs& pairs) {
  const Tensor query = query_heads(p, parts.query), key = shared_heads(p, parts.key);
  const Tensor weights_gradient = pairs.without_blocked(gradient);
  Tensor scores = p->scale * weights * (weights_gradient - sum(weights_gradient * weights, -1, true));
  if (p->softcap > 0) {
    const Tensor t = tanh(pairs.of(query * p->scale, key) / p->softcap);
    scores = scores * (1.0 - t * t);
  }
  return {merge_query_heads(p, pairs.summed_over_keys(scores, key)),
          merge_shared_heads(p, pairs.summed_over_queries(scores, query)),
          {}};
}

detail::AttentionGradients recorded_output_gradients(const PlanRef& p, const Operands& whole, const Tensor& gradient) {
  const Operands parts = separate(p, whole);
  const Tensor weights = attention_weights(p, whole);
  const Tensor g = query_heads(p, gradient);
  const Pairs pairs(*p, {&whole.query, &whole.key, &whole.value, &gradient});
  Tensor weights_gradient = pairs.of(g, shared_heads(p, parts.value));
  Tensor dropped = weights;
  if (p->dropout > 0) {
    const Tensor factors = detail::attention_drop_factors(*p, gradient.dtype());
    weights_gradient = weights_gradient * factors;
    dropped = weights * factors;
  }
  detail::AttentionGradients gradients = recorded_score_gradients(p, parts, weights, weights_gradient, pairs);
  gradients.value = merge_shared_heads(p, pairs.summed_over_queries(dropped, g));
  return gradients;
}

void hand_over(Backward& back, const PlanRef& p, detail::AttentionGradients gradients) {
  if (!p->joined) {
    back.to(0, std::move(gradients.query));
    back.to(1, std::move(gradients.key));
    if (gradients.value.defined()) back.to(2, std::move(gradients.value));
  } else if (is_recording()) {
    if (!gradients.value.defined()) {
      gradients.value = zeros(p->full(p->keys, p->query_stride - p->value_at), gradients.key.dtype());
    }
    back.to(0, concat({gradients.query, gradients.key, gradients.value}, -1));
  } else {
    back.to(0, std::move(gradients.query));
  }
}

void output_rule(Backward& back, const PlanRef& p) {
  p->mask->check_unchanged();
  const Operands whole = saved_operands(back, p, true);
  if (is_recording()) {
    hand_over(back, p, recorded_output_gradients(p, whole, back.gradient()));
    return;
  }
  const int next = p->joined ? 1 : 3;
  const Tensor output = back.saved(next), stats = back.saved(next + 1);
  hand_over(back, p,
            detail::attention_backward(*p, whole.query, whole.key, &whole.value, back.gradient(), output, &stats));
}

void weights_rule(Backward& back, const PlanRef& p) {
  p->mask->check_unchanged();
  const Operands whole = saved_operands(back, p, false);
  const Tensor weights = back.saved(p->joined ? 1 : 2);
  if (is_recording()) {
    const Pairs pairs(*p, {&whole.query, &whole.key, &back.gradient()});
    hand_over(back, p, recorded_score_gradients(p, separate(p, whole), weights, back.gradient(), pairs));
    return;
  }
  hand_over(back, p,
            detail::attention_backward(*p, whole.query, whole.key, nullptr, back.gradient(), weights, nullptr));
}

Tensor attention_weights(const PlanRef& p, const Operands& from) {
  Tensor weights = empty(p->scores_shape(), from.query.dtype());
  detail::attention_weights(*p, from.query, from.key, weights);
  const auto rule = [p](Backward& back) { weights_rule(back, p); };
  if (p->joined) return record("attention_weights", weights, {&from.query}, {&from.query, &weights}, rule);
  return record("attention_weights", weights, {&from.query, &from.key}, {&from.query, &from.key, &weights}, rule);
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

// Everything that masks, dropout and batches decide, once the sizes are known.
void finish_plan(Plan& p, const AttentionOptions& options, DType dtype, const Shape& q, const Shape& k,
                 const Shape& v) {
  check_numbers(options);
  p.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(p.size)));
  p.softcap = options.softcap;
  p.dropout = options.dropout;
  p.batch = broadcast(detail::kAttention, q, broadcast(detail::kAttention, k, v));
  p.leading = p.packed ? p.batch.inserted(p.batch.rank(), p.heads) : p.batch;
  p.mask = std::make_shared<const detail::MaskPlan>(options.mask, p.batch, p.leading, p.queries, p.keys, dtype);
  if (p.batch.numel() == 0) return;
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
}

PlanRef plan_of(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) {
  check_operands(query, key, value, options);
  const auto made = std::make_shared<Plan>();
  Plan& p = *made;
  p.packed = options.heads > 0;
  p.joined = false;
  p.heads = heads_of(options);
  p.kv_heads = kv_heads_of(options);
  p.queries = query.shape()[-2];
  p.keys = key.shape()[-2];
  p.size = query.shape()[-1] / p.heads;
  p.value_size = value.shape()[-1] / p.kv_heads;
  p.query_stride = query.shape()[-1];
  p.key_stride = key.shape()[-1];
  p.value_stride = value.shape()[-1];
  finish_plan(p, options, query.dtype(), leading_of(query.shape(), 2), leading_of(key.shape(), 2),
              leading_of(value.shape(), 2));
  return made;
}

PlanRef joined_plan_of(const Tensor& qkv, const AttentionOptions& options) {
  detail::check_floating(detail::kAttention, "qkv", qkv);
  if (options.heads < 1 || options.kv_heads < 0 || heads_of(options) % kv_heads_of(options) != 0) {
    throw ValueError(fmt::format("{}: qkv {} needs heads of at least 1, and kv_heads that divide them; got {} and {}",
                                 detail::kAttention, to_string(qkv.shape()), options.heads, options.kv_heads));
  }
  const Index parts = options.heads + 2 * kv_heads_of(options);
  if (qkv.rank() < 2 || qkv.shape()[-1] == 0 || qkv.shape()[-1] % parts != 0) {
    throw ShapeError(fmt::format(
        "{}: qkv {} must be [..., T, width] with a width that {} heads of query, {} of key "
        "and {} of value divide",
        detail::kAttention, to_string(qkv.shape()), options.heads, kv_heads_of(options), kv_heads_of(options)));
  }
  const auto made = std::make_shared<Plan>();
  Plan& p = *made;
  p.packed = p.joined = true;
  p.heads = options.heads;
  p.kv_heads = kv_heads_of(options);
  p.queries = p.keys = qkv.shape()[-2];
  p.size = p.value_size = qkv.shape()[-1] / parts;
  p.query_stride = p.key_stride = p.value_stride = qkv.shape()[-1];
  p.key_at = p.heads * p.size;
  p.value_at = p.key_at + p.kv_heads * p.size;
  const Shape batch = leading_of(qkv.shape(), 2);
  finish_plan(p, options, qkv.dtype(), batch, batch, batch);
  return made;
}

AttentionResult attend(const PlanRef& p, const Operands& from, bool need_weights) {
  AttentionResult result;
  if (need_weights) result.weights = attention_weights(p, from);
  Tensor output = empty(p->full(p->queries, p->output_stride()), from.query.dtype());
  Tensor stats = empty({p->matrices(), p->queries, 2}, from.query.dtype());
  detail::attention_forward(*p, from.query, from.key, from.value, output, stats);
  const auto rule = [p](Backward& back) { output_rule(back, p); };
  const auto& [query, key, value] = from;
  result.output = p->joined ? record(detail::kAttention, output, {&query}, {&query, &output, &stats}, rule)
                            : record(detail::kAttention, output, {&query, &key, &value},
                                     {&query, &key, &value, &output, &stats}, rule);
  return result;
}

}  // namespace

AttentionResult scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                             const AttentionOptions& options) {
  return attend(plan_of(query, key, value, options), {query, key, value}, options.need_weights);
}

AttentionResult scaled_dot_product_attention(const Tensor& qkv, const AttentionOptions& options) {
  return attend(joined_plan_of(qkv, options), {qkv, qkv, qkv}, options.need_weights);
}

Tensor attention_scores(const Tensor& query, const Tensor& key, const AttentionOptions& options) {
  AttentionOptions scores_only = options;
  scores_only.dropout = 0;  // must not draw random numbers
  return scaled_scores(plan_of(query, key, key, scores_only), query, key);
}

}  // namespace tapehead
