// SPDX-License-Identifier: MIT
#include <tapehead/multi_head_attention.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

constexpr const char* kName = "MultiHeadAttention";

Index checked_heads(Index embed_dim, Index heads, Index kv_heads) {
  detail::at_least_one(kName, "embed_dim", embed_dim);
  detail::at_least_one(kName, "heads", heads);
  if (kv_heads < 0) throw ValueError(fmt::format("{}: kv_heads must not be negative, is {}", kName, kv_heads));
  if (embed_dim % heads != 0) {
    throw ValueError(fmt::format("{}: {} heads do not divide embed_dim {}", kName, heads, embed_dim));
  }
  if (kv_heads > 0 && heads % kv_heads != 0) {
    throw ValueError(fmt::format("{}: {} heads cannot share {} heads of key and value evenly", kName, heads, kv_heads));
  }
  return kv_heads > 0 ? kv_heads : heads;
}

// x [batch, T, width] into rows `at` to at + T of table [batch, capacity, width].
void append(Tensor& table, const Tensor& x, Index at) {
  const Index rows = x.shape()[-2], width = x.shape()[-1], capacity = table.shape()[1];
  visit_float(table.dtype(), kName, [&](auto zero) {
    using T = decltype(zero);
    const std::span<const T> from = x.read<T>();
    T* to = table.write<T>().data();
    for (Index b = 0; b < table.shape()[0]; ++b) {
      std::copy_n(from.data() + b * rows * width, rows * width, to + (b * capacity + at) * width);
    }
  });
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(Index embed_dim, Index heads, const MultiHeadAttentionOptions& options,
                                       Generator& generator)
    : out_proj(embed_dim, detail::at_least_one(kName, "embed_dim", embed_dim), {.bias = options.bias}, generator),
      heads_(heads),
      kv_heads_(checked_heads(embed_dim, heads, options.kv_heads)),
      key_width_(kv_heads_ * (embed_dim / heads)),
      dropout_(options.dropout),
      pairs_(options.rotary_pairs) {
  if (!(dropout_ >= 0 && dropout_ < 1)) {
    throw ValueError(fmt::format("{}: dropout is {}; it must be at least 0 and below 1", kName, dropout_));
  }
  const Index rows = embed_dim + 2 * key_width_;
  const double limit = std::sqrt(6 / static_cast<double>(embed_dim + rows));  // Glorot and Bengio 2010 (AISTATS)
  in_proj_weight = rand({rows, embed_dim}, DType::f32, generator) * (2 * limit) - limit;
  if (!options.bias) return;
  in_proj_bias = zeros({rows});
  out_proj.bias = zeros({embed_dim});
}

void MultiHeadAttention::check_input(const char* role, const Tensor& x) const {
  const Index width = in_proj_weight.shape()[1];
  if (x.rank() >= 2 && x.shape()[-1] == width) return;
  throw ShapeError(fmt::format("{}: {} {} does not fit {} {}; it must be [..., T, {}]", kName, role,
                               to_string(x.shape()),
                               in_proj_weight.name().empty() ? "in_proj_weight" : in_proj_weight.name(),
                               to_string(in_proj_weight.shape()), width));
}

AttentionOptions MultiHeadAttention::options_for(const AttentionCall& call) const {
  return {.mask = call.mask,
          .heads = heads_,
          .kv_heads = kv_heads_,
          .dropout = training ? dropout_ : 0,
          .need_weights = call.weights != nullptr};
}

Tensor MultiHeadAttention::finish(AttentionResult result, const AttentionCall& call) const {
  if (call.weights != nullptr) call.weights->push_back(std::move(result.weights));
  return out_proj(result.output);
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const AttentionCall& call) const {
  check_input("x", x);
  const Tensor qkv = linear(x, in_proj_weight, in_proj_bias);
  if (call.rotary == nullptr && call.cache == nullptr) {
    return finish(scaled_dot_product_attention(qkv, options_for(call)), call);
  }
  const Index width = in_proj_weight.shape()[1], key_end = width + key_width_;
  Tensor query = slice(qkv, -1, {.stop = width});
  Tensor key = slice(qkv, -1, {.start = width, .stop = key_end});
  const Tensor value = slice(qkv, -1, {.start = key_end});
  if (call.rotary != nullptr) {
    query = rotary(query, *call.rotary, {.heads = heads_, .pairs = pairs_});
    key = rotary(key, *call.rotary, {.heads = kv_heads_, .pairs = pairs_});
  }
  if (call.cache != nullptr) return attend_cached(query, key, value, call);
  return finish(scaled_dot_product_attention(query, key, value, options_for(call)), call);
}

Tensor MultiHeadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                      const AttentionCall& call) const {
  check_input("query", query);
  check_input("key", key);
  check_input("value", value);
  if (call.cache != nullptr || call.rotary != nullptr) {
    throw ValueError(fmt::format("{}: a {} belongs to self-attention, call the layer with x alone", kName,
                                 call.cache != nullptr ? "cache" : "rotary table"));
  }
  const Index width = in_proj_weight.shape()[1], key_end = width + key_width_;
  const auto project = [&](const Tensor& x, Index from, Index to) {
    const Slice rows{.start = from, .stop = to};
    return linear(x, slice(in_proj_weight, 0, rows), in_proj_bias.defined() ? slice(in_proj_bias, 0, rows) : Tensor());
  };
  return finish(scaled_dot_product_attention(project(query, 0, width), project(key, width, key_end),
                                             project(value, key_end, key_end + key_width_), options_for(call)),
                call);
}

Tensor MultiHeadAttention::attend_cached(const Tensor& query, const Tensor& key, const Tensor& value,
                                         const AttentionCall& call) const {
  KeyValueCache& cache = *call.cache;
  if (is_recording()) throw GraphError(fmt::format("{}: a cache is written in place; use it under NoGrad", kName));
  if (!cache.keys.defined()) throw StateError(fmt::format("{}: the cache is empty; get one from make_cache()", kName));
  const Index batch = key.shape().numel(0, key.rank() - 2), added = key.shape()[-2], capacity = cache.keys.shape()[1];
  if (key.rank() != 3 || batch != cache.keys.shape()[0] || key.shape()[-1] != cache.keys.shape()[-1] ||
      key.dtype() != cache.keys.dtype()) {
    throw ShapeError(fmt::format("{}: keys {} {} do not fit the cache {} {}; make a cache for this batch and model",
                                 kName, name_of(key.dtype()), to_string(key.shape()), name_of(cache.keys.dtype()),
                                 to_string(cache.keys.shape())));
  }
  if (cache.length < 0 || cache.length + added > capacity) {
    throw ValueError(
        fmt::format("{}: the cache holds {} of {} positions, {} more do not fit; make it longer or set "
                    "its length to 0",
                    kName, cache.length, capacity, added));
  }
  AttentionOptions options = options_for(call);
  options.mask = call.mask & Mask::causal(cache.length);
  append(cache.keys, key, cache.length);
  append(cache.values, value, cache.length);
  cache.length += added;
  return finish(scaled_dot_product_attention(query, cache.keys, cache.values, options), call);
}

KeyValueCache MultiHeadAttention::make_cache(Index batch, Index capacity) const {
  const Shape shape = {detail::at_least_one(kName, "batch", batch), detail::at_least_one(kName, "capacity", capacity),
                       key_width_};
  return {zeros(shape, in_proj_weight.dtype()), zeros(shape, in_proj_weight.dtype())};
}

void MultiHeadAttention::members(Members& m) {
  m("in_proj_weight", in_proj_weight);
  m("in_proj_bias", in_proj_bias);
  m("out_proj", out_proj);
}

}  // namespace tapehead
