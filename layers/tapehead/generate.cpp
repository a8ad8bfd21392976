// SPDX-License-Identifier: MIT
#include <tapehead/generate.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

void check_options(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    throw ValueError(
        fmt::format("sample_token: temperature is {}; it must be finite and not negative", options.temperature));
  }
  if (options.top_k < 0) throw ValueError(fmt::format("sample_token: top_k is {}; 0 means all", options.top_k));
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    throw ValueError(fmt::format("sample_token: top_p is {}; it must be above 0 and at most 1", options.top_p));
  }
  if (!(options.repetition_penalty > 0) || !std::isfinite(options.repetition_penalty)) {
    throw ValueError(
        fmt::format("sample_token: repetition_penalty is {}; it must be above 0", options.repetition_penalty));
  }
}

std::vector<double> values_of(const Tensor& logits) {
  if (logits.rank() != 1 || logits.numel() == 0) {
    throw ShapeError(
        fmt::format("sample_token: logits {} must be [vocabulary], those of one position", to_string(logits.shape())));
  }
  std::vector<double> values;
  visit_float(logits.dtype(), "sample_token", [&](auto zero) {
    const auto from = logits.read<decltype(zero)>();
    values.assign(from.begin(), from.end());
  });
  return values;
}

void penalise(std::vector<double>& logits, double penalty, std::vector<Index> seen) {
  if (penalty == 1) return;
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  for (const Index token : seen) {
    if (token < 0 || token >= static_cast<Index>(logits.size())) {
      throw IndexError(fmt::format("sample_token: token {} is not in a vocabulary of {}", token, logits.size()));
    }
    double& logit = logits[static_cast<std::size_t>(token)];
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
}

// Tokens from the most to the least likely, the smaller number first where two are alike.
std::vector<std::size_t> ranking(const std::vector<double>& logits, Index top_k) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto before = [&](std::size_t a, std::size_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  const std::size_t kept = top_k > 0 ? std::min(order.size(), static_cast<std::size_t>(top_k)) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), before);
  order.resize(kept);
  return order;
}

}  // namespace

Index sample_token(const Tensor& logits, const SamplingOptions& options, const std::vector<Index>& before) {
  check_options(options);
  std::vector<double> values = values_of(logits);
  penalise(values, options.repetition_penalty, before);
  const double highest = *std::max_element(values.begin(), values.end());
  if (std::any_of(values.begin(), values.end(), [](double v) { return std::isnan(v); }) || !std::isfinite(highest)) {
    throw ValueError(fmt::format(
        "sample_token: the logits leave nothing to draw from, the largest is {} and {} of {} "
        "are NaN; look for the cause with DetectAnomaly",
        highest, std::count_if(values.begin(), values.end(), [](double v) { return std::isnan(v); }), values.size()));
  }
  if (options.temperature == 0) return std::max_element(values.begin(), values.end()) - values.begin();
  const std::vector<std::size_t> order = ranking(values, options.top_k);
  std::vector<double> weights;  // running sums, of unnormalised probabilities
  double total = 0;
  for (const std::size_t token : order) {
    weights.push_back(total += std::exp((values[token] - highest) / options.temperature));
  }
  const auto find = [&](double sum) { return std::lower_bound(weights.begin(), weights.end(), sum); };
  const auto last = options.top_p < 1 ? std::min(find(options.top_p * total), weights.end() - 1) : weights.end() - 1;
  Generator& generator = options.generator != nullptr ? *options.generator : default_generator();
  const auto drawn = std::upper_bound(weights.begin(), last, generator.uniform() * *last);
  return static_cast<Index>(order[static_cast<std::size_t>(drawn - weights.begin())]);
}

std::function<bool(Index)> stop_at(std::vector<std::string> texts, std::function<std::string(Index)> text_of) {
  if (std::ranges::find(texts, "") != texts.end()) throw ValueError("stop_at: a text to stop at is empty");
  return [texts = std::move(texts), text_of = std::move(text_of), written = std::string()](Index token) mutable {
    const std::size_t before = written.size();
    written += text_of(token);
    return std::ranges::none_of(texts, [&](const std::string& text) {
      return written.find(text, before - std::min(before, text.size() - 1)) != std::string::npos;
    });
  };
}

std::vector<Index> generate(const GPT& model, const std::vector<Index>& prompt, const GenerateOptions& options) {
  if (prompt.empty()) throw ValueError("generate: the prompt is empty; give at least one token to go on from");
  if (model.training && model.options().dropout > 0) {
    throw StateError(fmt::format("generate: dropout of {} is on; call eval() first", model.options().dropout));
  }
  const NoGrad off;
  const auto context = static_cast<std::size_t>(model.options().context);
  std::vector<Index> tokens = prompt;
  GPTCache cache = model.make_cache(1);
  std::size_t next = tokens.size() - std::min(tokens.size(), context);  // the first token that is not in the cache
  for (Index i = 0; i < options.max_tokens; ++i) {
    if (static_cast<std::size_t>(cache.length()) + tokens.size() - next > context) {
      cache.clear();
      next = tokens.size() - std::max<std::size_t>(1, context / 2);
    }
    const std::span<const Index> fresh = std::span(tokens).subspan(next);
    const Tensor logits = model(from_data(fresh, {1, static_cast<Index>(fresh.size())}), &cache);
    next = tokens.size();
    tokens.push_back(sample_token(select(select(logits, 0, 0), 0, -1), options.sampling, tokens));
    if (options.on_token && !options.on_token(tokens.back())) break;
  }
  return tokens;
}

}  // namespace tapehead
