// SPDX-License-Identifier: MIT
#include <tapehead/gpt.h>

#include <cmath>

#include <fmt/format.h>

#include <tapehead/checkpoint.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

TransformerOptions block_options(const GPTOptions& options) {
  return {.feedforward = options.feedforward > 0 ? options.feedforward : 4 * options.width,
          .dropout = options.dropout,
          .activation = options.activation,
          .norm = options.norm,
          .norm_first = true,
          .bias = options.bias,
          .kv_heads = options.kv_heads};
}

// GPT-2's start: normal with deviation 0.02, smaller where a residual branch ends, so that the sum of all branches
// does not grow with their number.
class Start final : public Members {
 public:
  Start(Index layers, Generator& generator)
      : in_branch_(0.02 / std::sqrt(2.0 * static_cast<double>(layers))), generator_(generator) {}

 private:
  void on_parameter(const std::string& name, Parameter& parameter) override {
    const bool ends_branch = name.ends_with("out_proj.weight") || name.ends_with("linear2.weight");
    if (parameter.rank() > 1) {
      parameter = randn(parameter.shape(), parameter.dtype(), generator_) * (ends_branch ? in_branch_ : 0.02);
    } else if (name.ends_with("bias")) {
      parameter = zeros(parameter.shape());
    }
  }
  double in_branch_;
  Generator& generator_;
};

}  // namespace

void GPTCache::clear() {
  for (KeyValueCache& layer : layers) layer.length = 0;
}

GPT::GPT(const GPTOptions& options, Generator& generator)
    : token_embedding(detail::at_least_one("GPT", "vocabulary", options.vocabulary),
                      detail::at_least_one("GPT", "width", options.width), generator),
      dropout(options.dropout),
      norm(detail::make_norm(options.width, block_options(options))),
      options_(options) {
  detail::at_least_one("GPT", "context", options.context);
  detail::at_least_one("GPT", "layers", options.layers);
  if (options.positions == Positions::learned) position_embedding.emplace(options.context, options.width, generator);
  for (Index i = 0; i < options.layers; ++i) {
    blocks.emplace_back(options.width, options.heads, block_options(options), generator);
  }
  if (options.positions == Positions::rotary && options.width / options.heads % 2 != 0) {
    throw ValueError(fmt::format("GPT: rotary positions turn pairs, but {} heads of width {} have the odd size {}",
                                 options.heads, options.width, options.width / options.heads));
  }
  Start start(options.layers, generator);
  members(start);
}

Tensor GPT::embed(const Tensor& ids, Index past) const {
  Tensor x = token_embedding(ids);
  if (position_embedding) {
    x = (*position_embedding)(x, past);
  } else if (options_.positions == Positions::sinusoidal) {
    const Index end = past + ids.shape()[-1];
    x = x + slice(sinusoidal_positions(end, options_.width, x.dtype()), 0, {.start = past});
  }
  return dropout(x);
}

Tensor GPT::forward(const Tensor& ids, GPTCache* cache, std::vector<Tensor>* weights) const {
  if (ids.rank() < 1) throw ShapeError("GPT: ids must be [..., T], are a single number");
  const Index past = cache == nullptr ? 0 : cache->length(), length = ids.shape()[-1], end = past + length;
  if (end > options_.context) {
    throw ValueError(
        fmt::format("GPT: {} positions{} do not fit the context of {}; shorten the input or make the "
                    "model with a longer context",
                    end, past > 0 ? fmt::format(", {} of them in the cache,", past) : "", options_.context));
  }
  Tensor x = embed(ids, past);
  AttentionCall call{.weights = weights};
  if (cache == nullptr) call.mask = Mask::causal();
  RotaryTable table;
  if (options_.positions == Positions::rotary) {
    table = rotary_table(slice(arange(end), 0, {.start = past}), options_.width / options_.heads, 10000, x.dtype());
    call.rotary = &table;
  } else if (options_.positions == Positions::alibi) {
    const Index keys = cache == nullptr ? length : cache->layers.front().keys.shape()[1];
    call.mask = call.mask & Mask::add(alibi(options_.heads, length, keys, past, x.dtype()));
  }
  if (options_.checkpoint_blocks && is_recording() && weights == nullptr) {
    x = run_checkpointed(std::move(x), call);
  } else {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (cache != nullptr) call.cache = &cache->layers[i];
      x = blocks[i](x, call);
    }
  }
  return linear(detail::apply(norm, x), token_embedding.weight);
}

Tensor GPT::run_checkpointed(Tensor x, const AttentionCall& call) const {
  const RotaryTable table = call.rotary == nullptr ? RotaryTable{} : *call.rotary;
  for (const TransformerEncoderLayer& block : blocks) {
    x = checkpoint(
        [&block, mask = call.mask, table](const std::vector<Tensor>& in) {
          return block(in[0], {.mask = mask, .rotary = table.cos.defined() ? &table : nullptr});
        },
        {x});
  }
  return x;
}

Tensor GPT::operator()(const Tensor& ids, GPTCache* cache) const { return forward(ids, cache, nullptr); }

Tensor GPT::operator()(const Tensor& ids, std::vector<Tensor>& weights) const {
  return forward(ids, nullptr, &weights);
}

GPTCache GPT::make_cache(Index batch) const {
  GPTCache cache;
  for (const TransformerEncoderLayer& block : blocks) {
    cache.layers.push_back(block.self_attn.make_cache(batch, options_.context));
  }
  return cache;
}

void GPT::members(Members& m) {
  m("token_embedding", token_embedding);
  if (position_embedding) m("position_embedding", *position_embedding);
  m("dropout", dropout);
  m("blocks", blocks);
  detail::list(m, "norm", norm);
}

}  // namespace tapehead
