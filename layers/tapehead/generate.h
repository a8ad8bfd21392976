// SPDX-License-Identifier: MIT
// Text from a language model, token by token.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <tapehead/gpt.h>
#include <tapehead/random.h>

namespace tapehead {

struct SamplingOptions {
  double temperature = 1;         ///< logits are divided by it; 0: always the most likely token
  Index top_k = 0;                ///< only the k most likely tokens; 0: all
  double top_p = 1;               ///< only the most likely ones that together reach this probability (arXiv:1904.09751)
  double repetition_penalty = 1;  ///< logits of tokens that occurred are divided by it, negative ones multiplied
                                  ///< (Keskar et al. 2019, arXiv:1909.05858)
  Generator* generator = nullptr;  ///< default_generator() unless given
};

/// A token drawn from logits [vocabulary] of the next one. `before`: the tokens so far, for the penalty. Throws
/// ValueError for options without sense and where the logits leave nothing to draw from (NaN, +inf, or all -inf).
Index sample_token(const Tensor& logits, const SamplingOptions& options = {}, const std::vector<Index>& before = {});

struct GenerateOptions {
  Index max_tokens = 100;
  SamplingOptions sampling = {};
  std::function<bool(Index)> on_token = nullptr;  ///< sees each token as it comes; false ends generation after it
};

/// An on_token that ends generation once one of the texts has been written, wherever tokens cut it. `text_of` gives the
/// text of a token, as a tokenizer's token() does. It remembers what it saw: take a new one for each text. Throws
/// ValueError for an empty text, which every text holds.
std::function<bool(Index)> stop_at(std::vector<std::string> texts, std::function<std::string(Index)> text_of);

/// The prompt's tokens and what the model makes of them. Computes each position once, with a cache; when the context is
/// full, generation goes on from its last half. A prompt longer than the context counts by its end. Throws ValueError
/// for an empty prompt and StateError while dropout is on: call eval() first.
std::vector<Index> generate(const GPT& model, const std::vector<Index>& prompt, const GenerateOptions& options = {});

}  // namespace tapehead
