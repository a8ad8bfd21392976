// SPDX-License-Identifier: MIT
#include "common/training.h"

#include <cstdio>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include <tapehead/tapehead.h>

#include "common/arguments.h"
#include "common/digest.h"
#include "common/interrupt.h"
#include "common/text.h"

namespace examples {

using tapehead::Index;
using tapehead::Tensor;

void add_training_options(CLI::App& app, TrainingSettings& settings) {
  add_number(app, "--seed", settings.seed, 0, std::numeric_limits<Index>::max(),
             "Of the first weights and of all examples");
  add_number(app, "--steps", settings.steps, 0, 1'000'000'000, "Training steps");
  add_number(app, "--threads", settings.threads, 1, 256, "Threads; the results do not depend on them");
  app.add_flag("--digest", settings.digest, "Print a hash of all trained parameters");
  app.footer(
      "The last lines of output are for scripts: digest (if asked for), exact.\n\n"
      "Exit codes: 0 done; 1 something failed; 2 a mistake in the command line; 130 training was ended with Ctrl-C, "
      "and\n"
      "what it had reached was tested.");
}

tapehead::Generator stream_at(Index seed, std::uint64_t position) {
  tapehead::Generator stream;
  stream.set_state(static_cast<std::uint64_t>(seed), position);
  return stream;
}

Tensor continue_greedily(const tapehead::GPT& model, const Tensor& prompts, Index count) {
  const tapehead::NoGrad no_grad;
  tapehead::GPTCache cache = model.make_cache(prompts.shape()[0]);
  Tensor input = prompts;
  std::vector<Tensor> continuation;
  for (Index i = 0; i < count; ++i) {
    input = tapehead::argmax(tapehead::slice(model(input, &cache), 1, {.start = -1}));
    continuation.push_back(input);
  }
  return tapehead::concat(continuation, 1);
}

Index count_equal(const Tensor& a, const Tensor& b) {
  return static_cast<Index>(tapehead::sum(tapehead::to(tapehead::equal(a, b), tapehead::DType::i64)).item());
}

Index count_equal_rows(const Tensor& a, const Tensor& b) {
  const Tensor equal = tapehead::to(tapehead::equal(a, b), tapehead::DType::f32);
  return static_cast<Index>(tapehead::sum(tapehead::min(equal, -1)).item());
}

double accuracy(const Tensor& logits, const Tensor& targets) {
  return static_cast<double>(count_equal(tapehead::argmax(logits), targets)) / static_cast<double>(targets.numel());
}

void print(const Training& training) {
  fmt::print("{} {} steps in {:.2f} s\n", training.interrupted ? "interrupted after" : "trained for",
             with_commas(training.steps), training.seconds);
}

int finish(const tapehead::Module& model, const TrainingSettings& settings, const Training& training, Index right,
           Index all) {
  if (settings.digest) fmt::print("digest: {}\n", digest(model.parameters()));
  fmt::print("exact: {}/{}\n", right, all);
  if (std::fflush(stdout) != 0) throw tapehead::IoError("cannot write to standard output");
  return training.interrupted ? Interrupt::kExitCode : 0;
}

}  // namespace examples
