// SPDX-License-Identifier: MIT
// One self-attention layer learns to write sequences backwards: the output at place i has to fetch the symbol at place
// 15 - i, so a trained model's attention map shows the other diagonal. The task is the one of the "Transformers and
// multi-head attention" lesson of the University of Amsterdam's deep-learning course (P. Lippe).
#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tapehead/tapehead.h>

#include "common/arguments.h"
#include "common/attention_map.h"
#include "common/digest.h"
#include "common/interrupt.h"
#include "common/progress.h"
#include "common/terminal.h"
#include "common/text.h"
#include "common/training.h"

using namespace tapehead;
using examples::accuracy;
using examples::count_equal;
using examples::kTestStream;
using examples::kTrainingStream;
using examples::share;
using examples::stream_at;
using examples::Training;
using examples::with_commas;

namespace {

constexpr Index kSymbols = 10, kLength = 16, kWidth = 32;
constexpr Index kBatch = 128, kWarmUp = 50;
constexpr double kLearningRate = 1e-2;
constexpr Index kUnseen = 10'000, kUnseenBatch = 500;

struct Settings {
  Index seed = 42;
  Index steps = 500;
  Index threads = num_threads();
  bool digest = false;
  std::string out = "reverse_attention.svg";
};

struct Reverser : Module {
  Embedding symbol{kSymbols, kWidth};
  Embedding position{kLength, kWidth};
  SelfAttention attention{kWidth, kWidth};
  Linear answer{kWidth, kSymbols};

  // sequences i64 [batch, 16] -> logits [batch, 16, 10] and attention weights [batch, 16, 16]
  AttentionResult operator()(const Tensor& sequences) const {
    const auto [fetched, weights] = attention(symbol(sequences) + position.weight);
    return {answer(fetched), weights};
  }
  void members(Members& m) override {
    m("symbol", symbol), m("position", position), m("attention", attention), m("answer", answer);
  }
};

// Sequences i64 [count, 16] of random symbols. There are 10^16 of them, so none drawn for the test was trained on.
Tensor draw(Index count, Generator& stream) { return randint(0, kSymbols, {count, kLength}, stream); }

Tensor reversed(const Tensor& sequences) { return slice(sequences, 1, {.step = -1}); }

// Rises over the first steps and then falls along half a cosine.
Schedule learning_rate(Index steps) {
  return warm_up(kWarmUp, cosine_schedule(kLearningRate, 0, std::max<Index>(1, steps - kWarmUp)));
}

Training train(Reverser& model, const Settings& settings, const examples::Terminal& terminal) {
  Adam optimizer(model.parameters());
  const Schedule rate = learning_rate(settings.steps);
  Generator stream = stream_at(settings.seed, kTrainingStream);
  const examples::Interrupt interrupt;
  examples::Progress progress(
      {.steps = settings.steps, .items_per_step = kBatch, .items = "sequences", .terminal = terminal});
  model.attention.need_weights = false;
  while (progress.steps_done() < settings.steps && !interrupt.requested()) {
    const Tensor sequences = draw(kBatch, stream), targets = reversed(sequences);
    const Tensor logits = model(sequences).output;
    const Tensor loss = cross_entropy(logits, targets);
    loss.backward();
    optimizer.set_lr(rate(progress.steps_done()));
    optimizer.step();
    progress.step(loss.item(), [&] { return accuracy(logits, targets); });
  }
  model.attention.need_weights = true;
  return {progress.steps_done(), progress.seconds(), interrupt.requested()};
}

struct Evaluation {
  Index right = 0;     // symbols
  Index mirrored = 0;  // queries whose largest weight is on the mirrored position
  Index all = 0;
};

Evaluation evaluate(const Reverser& model, const Tensor& unseen) {
  const NoGrad no_grad;
  const Tensor mirror = arange(kLength - 1, -1, -1);
  Evaluation result;
  for (Index start = 0; start < unseen.shape()[0]; start += kUnseenBatch) {
    const Tensor sequences = slice(unseen, 0, {.start = start, .stop = start + kUnseenBatch});
    const auto [logits, weights] = model(sequences);
    result.right += count_equal(argmax(logits), reversed(sequences));
    result.mirrored += count_equal(argmax(weights), mirror);
    result.all += sequences.numel();
  }
  return result;
}

// How the model reads one sequence i64 [1, 16]: its answers are the rows, the symbols that it is given the columns.
examples::AttentionMap look(const Reverser& model, const Tensor& sequence, std::string title) {
  const NoGrad no_grad;
  const auto [logits, weights] = model(sequence);
  const auto labels = [](const Tensor& symbols) {
    std::vector<std::string> texts;
    for (const Index symbol : symbols.read<Index>()) texts.push_back(std::to_string(symbol));
    return texts;
  };
  return {std::move(title), select(weights, 0, 0), labels(argmax(logits)), labels(sequence)};
}

// The gradients of logits and attention weights by every parameter, against differences in f64.
bool check_gradients(const Reverser& trained, const Tensor& sequence) {
  Reverser model = trained;
  model.to(DType::f64);
  const GradcheckResult result = gradcheck(model, {sequence});
  fmt::print("\nGradients against finite differences in f64: the worst element of each parameter\n");
  fmt::print("{:<16} {:>8}  {:<9} {:>14} {:>14} {:>9}\n", "parameter", "elements", "worst at", "analytic", "numeric",
             "error");
  for (const GradcheckRow& row : result.rows) {
    fmt::print("{:<16} {:>8}  {:<9} {:>14.8g} {:>14.8g} {:>9.1e}\n", row.name, row.checked,
               fmt::format("[{}]", fmt::join(row.worst_index, ", ")), row.analytic, row.numeric, row.error);
  }
  fmt::print("gradient check: {}\n", result ? "passed" : "FAILED");
  return result.passed();
}

void print_header(const Reverser& model, const Settings& settings) {
  fmt::print("One self-attention layer learns to write sequences backwards\n");
  fmt::print("  task      {} symbols in, each one of {}; the same out in reverse order\n", kLength, kSymbols);
  fmt::print("  model     embeddings of symbol and position, one attention head, linear\n");
  fmt::print("            width {}, {} parameters\n", kWidth, with_commas(model.parameter_count()));
  fmt::print("  training  {} steps of {} sequences, seed {}\n", with_commas(settings.steps), kBatch, settings.seed);
  fmt::print("            Adam {} with warm-up and cosine\n", kLearningRate);
  fmt::print("  machine   {} thread{}, OpenBLAS on {} kernels\n\n", num_threads(), num_threads() == 1 ? "" : "s",
             blas_core());
  std::fflush(stdout);
}

// Returns the exit code.
int run(const Settings& settings) {
  const examples::Terminal terminal = examples::stdout_terminal();
  constexpr std::string_view kCaption = "Attention on an unseen sequence: input above, the model's answer on the left";
  set_num_threads(static_cast<int>(settings.threads));
  manual_seed(static_cast<std::uint64_t>(settings.seed));
  Reverser model;
  Generator unseen_stream = stream_at(settings.seed, kTestStream);
  const Tensor unseen = draw(kUnseen, unseen_stream), first = slice(unseen, 0, {.stop = 1});
  print_header(model, settings);

  // Written now as well, so that a file that cannot be written costs no training.
  std::vector<examples::AttentionMap> maps = {look(model, first, "before training")};
  write_file(settings.out, attention_svg(maps, kCaption));

  const Training training = train(model, settings, terminal);
  print(training);
  const bool gradients_passed = check_gradients(model, first);

  maps.push_back(look(model, first, fmt::format("after {} steps", with_commas(training.steps))));
  fmt::print("\n{}\n\n{}", kCaption, attention_text(maps, terminal));
  write_file(settings.out, attention_svg(maps, kCaption));
  fmt::print("picture: {}\n\n", settings.out);

  const Evaluation result = evaluate(model, unseen);
  fmt::print("{} unseen sequences, from another part of the random stream (10^{} exist)\n", with_commas(kUnseen),
             kLength);
  fmt::print("  {} of {} symbols right\n", with_commas(result.right), with_commas(result.all));
  fmt::print("  {} of {} queries look most at the mirrored position\n", with_commas(result.mirrored),
             with_commas(result.all));
  if (settings.digest) fmt::print("digest: {}\n", examples::digest(model.parameters()));
  fmt::print("test accuracy: {}\n", share(result.right, result.all));
  fmt::print("mirrored attention: {}\n", share(result.mirrored, result.all));
  if (std::fflush(stdout) != 0) throw IoError("cannot write to standard output");
  if (training.interrupted) return examples::Interrupt::kExitCode;
  return gradients_passed ? 0 : 1;
}

std::optional<int> read_settings(int argc, char** argv, Settings& settings) {
  CLI::App app("Trains one self-attention layer to write sequences backwards and shows what it learned.", "reverse");
  examples::add_number(app, "--seed", settings.seed, 0, std::numeric_limits<Index>::max(),
                       "Of the first weights and of all sequences");
  examples::add_number(app, "--steps", settings.steps, 0, 1'000'000'000, "Training steps");
  examples::add_number(app, "--threads", settings.threads, 1, 256, "Threads; the results do not depend on them");
  app.add_option("--out", settings.out, "Where the attention maps go, as SVG")
      ->capture_default_str()
      ->type_name("FILE");
  app.add_flag("--digest", settings.digest, "Print a hash of all trained parameters");
  app.footer(
      "The last lines of output are for scripts: digest (if asked for), test accuracy, mirrored attention.\n\n"
      "Exit codes: 0 done; 1 a file cannot be written, or the gradient check failed; 2 a mistake in the command line;\n"
      "130 training was ended with Ctrl-C, and what it had reached was shown and written.");
  return examples::parse_arguments(app, argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program("reverse", [&]() -> int {
    Settings settings;
    if (const auto code = read_settings(argc, argv, settings)) return *code;
    return run(settings);
  });
}
