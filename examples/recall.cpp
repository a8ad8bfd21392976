// SPDX-License-Identifier: MIT
// Associative recall: a model reads four pairs of a key and a value, then the four keys in another order, and has to
// name each one's value. One layer of attention cannot: it finds the key's first place, or it finds a value, but to
// know which value followed which key takes a layer that looks one symbol back and another one that searches what the
// first one found (Olsson et al. 2022, "In-context learning and induction heads", arXiv:2209.11895). Both are trained
// here.
//
// Settings, after the basic example of Zoology (Arora et al. 2023, arXiv:2312.04927): 4 pairs, GPTs of one head,
// without dropout. Differences: a vocabulary of 64 where Zoology has 256, half keys and half values as there, and width
// 64; the questions follow the pairs at once, where Zoology spreads them over 64 places filled with random symbols;
// each step draws 128 new sequences, where Zoology goes through 10,000 again and again; rotary positions in place of
// learned ones, so that what attention hands on does not say where it stood; AdamW 2e-3 with warm-up and cosine, 800
// steps, clip 1.0.
//
// Expected result: one layer knows the four values but not which of them, and is right a quarter of the time; two
// layers are right more than 99 times in 100. Time on two cores: at most 25 s, which is the processor time of one.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tapehead/tapehead.h>

#include "common/arguments.h"
#include "common/attention_map.h"
#include "common/interrupt.h"
#include "common/progress.h"
#include "common/terminal.h"
#include "common/text.h"
#include "common/training.h"

using namespace tapehead;
using examples::accuracy;
using examples::count_equal;
using examples::with_commas;

namespace {

constexpr Index kKeys = 32, kVocabulary = 64, kPairs = 4, kWidth = 64;
constexpr Index kBatch = 128, kWarmUp = 100, kTest = 1000;
constexpr double kLearningRate = 2e-3, kWeightDecay = 0.1, kMaxNorm = 1.0;

GPT make_model(Index layers) {
  return GPT({.vocabulary = kVocabulary,
              .context = 3 * kPairs,
              .layers = layers,
              .heads = 1,
              .width = kWidth,
              .positions = Positions::rotary});
}

struct Sequences {
  Tensor symbols;  // i64 [count, 12]: key, value, key, value, and so on, then the keys in another order
  Tensor answers;  // i64 [count, 4]
};

std::vector<Index> draw_distinct(Index count, Index low, Index high, Generator& stream) {
  std::vector<Index> drawn;
  while (std::ssize(drawn) < count) {
    const Index number = low + stream.below(high - low);
    if (std::find(drawn.begin(), drawn.end(), number) == drawn.end()) drawn.push_back(number);
  }
  return drawn;
}

Sequences draw(Index count, Generator& stream) {
  std::vector<Index> symbols, answers;
  for (Index i = 0; i < count; ++i) {
    const std::vector<Index> keys = draw_distinct(kPairs, 0, kKeys, stream);
    const std::vector<Index> values = draw_distinct(kPairs, kKeys, kVocabulary, stream);
    for (std::size_t pair = 0; pair < keys.size(); ++pair) {
      symbols.push_back(keys[pair]);
      symbols.push_back(values[pair]);
    }
    for (const Index pair : draw_distinct(kPairs, 0, kPairs, stream)) {
      symbols.push_back(keys[static_cast<std::size_t>(pair)]);
      answers.push_back(values[static_cast<std::size_t>(pair)]);
    }
  }
  return {from_data(symbols, {count, 3 * kPairs}), from_data(answers, {count, kPairs})};
}

// Logits [..., 12, 64] where the questions stand: [..., 4, 64].
Tensor at_questions(const Tensor& logits) { return slice(logits, -2, {.start = 2 * kPairs}); }

examples::Training train(GPT& model, const examples::TrainingSettings& settings) {
  AdamW optimizer(decay_groups(model.parameters(), kWeightDecay), {.beta2 = 0.95});
  const Schedule rate =
      warm_up(kWarmUp, cosine_schedule(kLearningRate, 0, std::max<Index>(1, settings.steps - kWarmUp)));
  Generator stream = examples::stream_at(settings.seed, examples::kTrainingStream);
  const examples::Interrupt interrupt;
  examples::Progress progress({.steps = settings.steps,
                               .items_per_step = kBatch,
                               .items = "sequences",
                               .terminal = examples::stdout_terminal()});
  while (progress.steps_done() < settings.steps && !interrupt.requested()) {
    const Sequences batch = draw(kBatch, stream);
    const Tensor logits = at_questions(model(batch.symbols));
    const Tensor loss = cross_entropy(logits, batch.answers);
    loss.backward();
    clip_grad_norm(optimizer.parameters(), kMaxNorm);
    optimizer.set_lr(rate(progress.steps_done()));
    optimizer.step();
    progress.step(loss.item(), [&] { return accuracy(logits, batch.answers); });
  }
  return {progress.steps_done(), progress.seconds(), interrupt.requested()};
}

// How each layer reads one sequence i64 [1, 12]. A symbol is shown in base 16: keys up to 1f, values from 20 on.
std::vector<examples::AttentionMap> look(const GPT& model, const Tensor& sequence) {
  const NoGrad no_grad;
  std::vector<Tensor> weights;
  model(sequence, weights);
  std::vector<std::string> labels;
  for (const Index symbol : sequence.read<Index>()) labels.push_back(fmt::format("{:02x}", symbol));
  std::vector<examples::AttentionMap> maps;
  for (std::size_t layer = 0; layer < weights.size(); ++layer) {
    const Tensor map = reshape(weights[layer], {3 * kPairs, 3 * kPairs});
    maps.push_back({fmt::format("layer {} of {}", layer + 1, weights.size()), map, labels, labels});
  }
  return maps;
}

void print_header(const GPT& model, const examples::TrainingSettings& settings) {
  const Index layers = model.options().layers;
  fmt::print("\n{} layer{}, width {}, {} parameters; {} steps of {} sequences, seed {}\n", layers,
             layers == 1 ? "" : "s", kWidth, with_commas(model.parameter_count()), with_commas(settings.steps), kBatch,
             settings.seed);
  std::fflush(stdout);
}

// Returns the exit code.
int run(const examples::TrainingSettings& settings) {
  set_num_threads(static_cast<int>(settings.threads));
  manual_seed(static_cast<std::uint64_t>(settings.seed));
  GPT one = make_model(1), two = make_model(2);
  Generator stream = examples::stream_at(settings.seed, examples::kTestStream);
  const Sequences test = draw(kTest, stream);
  const Tensor first = slice(test.symbols, 0, {.stop = 1});
  fmt::print("Associative recall: {} keys with their values, then the keys again; name their values\n", kPairs);

  examples::Training training;
  std::vector<examples::AttentionMap> maps;
  std::vector<Index> right;
  for (GPT* model : {&one, &two}) {
    if (!training.interrupted) {
      print_header(*model, settings);
      training = train(*model, settings);
      examples::print(training);
    }
    for (examples::AttentionMap& map : look(*model, first)) maps.push_back(std::move(map));
    const NoGrad no_grad;
    right.push_back(count_equal(argmax(at_questions((*model)(test.symbols))), test.answers));
  }
  fmt::print(
      "\nAttention on an unseen sequence, one line for each symbol that looks: from the first question, {:02x}, on\n"
      "the last layer should look at the value that followed it.\n\n{}\n",
      static_cast<int>(first.at({0, 2 * kPairs})), attention_text(maps, examples::stdout_terminal()));
  fmt::print("one layer: {}/{}\n", right[0], test.answers.numel());
  return examples::finish(two, settings, training, right[1], test.answers.numel());
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program("recall", [&]() -> int {
    examples::TrainingSettings settings{.steps = 800};
    CLI::App app("Trains GPTs of one layer and of two on associative recall and shows why one is not enough.",
                 "recall");
    examples::add_training_options(app, settings);
    if (const auto code = examples::parse_arguments(app, argc, argv)) return *code;
    return run(settings);
  });
}
