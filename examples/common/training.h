// SPDX-License-Identifier: MIT
// What programs that train have in common besides their loops.
#pragma once

#include <cstdint>
#include <string_view>

#include <CLI/CLI.hpp>

#include <tapehead/gpt.h>
#include <tapehead/module.h>
#include <tapehead/random.h>
#include <tapehead/runtime.h>

namespace examples {

struct TrainingSettings {
  tapehead::Index steps;
  tapehead::Index seed = 42;
  tapehead::Index threads = tapehead::num_threads();
  bool digest = false;
};

/// Adds --seed, --steps, --threads and --digest, and says in --help how these programs end.
void add_training_options(CLI::App& app, TrainingSettings& settings);

/// Where in the seed's stream of random numbers the examples begin: the first weights and dropout are drawn from its
/// start, and what a model is tested on comes from elsewhere than what it was trained on.
inline constexpr std::uint64_t kTrainingStream = std::uint64_t{1} << 40, kTestStream = std::uint64_t{1} << 41;
tapehead::Generator stream_at(tapehead::Index seed, std::uint64_t position);

/// What a GPT in eval() takes for the most likely continuation: prompts i64 [batch, T] -> [batch, count]. Each position
/// is computed once.
tapehead::Tensor continue_greedily(const tapehead::GPT& model, const tapehead::Tensor& prompts, tapehead::Index count);

/// What a training loop came to.
struct Training {
  tapehead::Index steps = 0;
  double seconds = 0;
  bool interrupted = false;
};
/// "trained for 400 steps in 6.20 s"
void print(const Training& training);

/// In how many elements, and in how many rows, i64 [rows, columns], two tensors agree completely.
tapehead::Index count_equal(const tapehead::Tensor& a, const tapehead::Tensor& b);
tapehead::Index count_equal_rows(const tapehead::Tensor& a, const tapehead::Tensor& b);

/// The share of targets i64 [...] that have the largest of the logits [..., classes].
double accuracy(const tapehead::Tensor& logits, const tapehead::Tensor& targets);

/// Prints the digest, if asked for, and the line "exact: right/all", with which these programs end. Returns the exit
/// code.
int finish(const tapehead::Module& model, const TrainingSettings& settings, const Training& training,
           tapehead::Index right, tapehead::Index all);

}  // namespace examples
