// SPDX-License-Identifier: MIT
// A character language model: a GPT learns to go on with a text.
//
//   --preset cpu   nanoGPT's recipe for a laptop (A. Karpathy): 4 layers, 4 heads, width 128, context 64, batch 12,
//                  2,000 steps, AdamW 1e-3 to 1e-4 with 100 steps of warm-up. On tiny shakespeare the published loss is
//                  1.88 over twenty sampled batches; `char_lm --data tinyshakespeare.txt --seed S` ends with 1.8912,
//                  1.9092, 1.9047 and 1.9105 over the whole validation split for seeds 1337, 1, 2 and 3. A run takes
//                  57 to 66 s on two cores of an AMD EPYC (Zen 4).
//   --preset tiny  a model that trains in seconds.
//
// The last tenth of the text is for validation. Everything needed to go on is saved in one file at each evaluation:
// weights, the optimizer's state, the place in the stream of random numbers and the vocabulary.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tapehead/tapehead.h>

#include "common/arguments.h"
#include "common/digest.h"
#include "common/interrupt.h"
#include "common/progress.h"
#include "common/terminal.h"
#include "common/text.h"
#include "common/training.h"

using namespace tapehead;
using examples::kTestStream;
using examples::kTrainingStream;
using examples::stream_at;
using examples::Training;
using examples::with_commas;

namespace {

constexpr Index kEvaluationBatches = 20;
constexpr double kTrainShare = 0.9;

// Where in the seed's stream of random numbers the sample begins.
constexpr std::uint64_t kSampleStream = std::uint64_t{1} << 42;

struct Recipe {
  Index layers, heads, width, context, batch, steps, warm_up, evaluate_every;
};

const std::map<std::string, Recipe> kPresets = {
    {"cpu",
     {.layers = 4,
      .heads = 4,
      .width = 128,
      .context = 64,
      .batch = 12,
      .steps = 2000,
      .warm_up = 100,
      .evaluate_every = 250}},
    {"tiny",
     {.layers = 2,
      .heads = 2,
      .width = 32,
      .context = 32,
      .batch = 16,
      .steps = 300,
      .warm_up = 20,
      .evaluate_every = 100}},
};

struct Settings {
  std::string data;
  std::string preset = "cpu";
  std::string save = "char_lm.safetensors";
  std::string prompt;  // the text's first character unless given
  std::string stop;
  Index seed = 1337;
  Index steps = -1;  // the preset's
  Index threads = num_threads();
  Index sample = 500;
  double temperature = 0.8;
  bool resume = false;
  bool digest = false;

  Recipe recipe() const {
    Recipe out = kPresets.at(preset);
    if (steps >= 0) out.steps = steps;
    return out;
  }
};

// The sources of the project, one after the other, in the order of their paths.
std::string own_sources() {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (const char* folder : {"core", "layers", "examples", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(TAPEHEAD_SOURCE_DIR) / folder)) {
      const fs::path extension = entry.path().extension();
      if (extension == ".h" || extension == ".cpp" || extension == ".md") files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::string text;
  for (const fs::path& file : files) text += TextFile(file.string()).text();
  return text;
}

struct Corpus {
  CharTokenizer tokenizer;
  TokenData train, validation;
  Index characters;
  std::string first;  // character
};

Corpus read_corpus(const Settings& settings) {
  const std::string text = settings.data.empty() ? own_sources() : std::string(TextFile(settings.data).text());
  CharTokenizer tokenizer(text);
  const TokenData all(tokenizer.encode(text));
  auto [train, validation] = all.split(kTrainShare);
  std::string first = tokenizer.token(all.at(0));
  return {std::move(tokenizer), std::move(train), std::move(validation), all.size(), std::move(first)};
}

double loss_of(const GPT& model, const TokenBatch& batch) {
  const NoGrad off;
  return cross_entropy(model(batch.inputs), batch.targets).item();
}

// Over some windows of the validation split, always the same ones.
double sampled_loss(const GPT& model, const Corpus& corpus, const Settings& settings) {
  Generator stream = stream_at(settings.seed, kTestStream);
  double total = 0;
  for (Index i = 0; i < kEvaluationBatches; ++i) {
    total += loss_of(model, corpus.validation.random_batch(settings.recipe().batch, model.options().context, stream));
  }
  return total / kEvaluationBatches;
}

// Over the whole split, windows one after the other.
double whole_loss(const GPT& model, const Corpus& corpus, Index batch) {
  const Index context = model.options().context, count = corpus.validation.window_count(context);
  double total = 0;
  for (Index first = 0; first < count; first += batch) {
    const TokenBatch windows = corpus.validation.windows(first, batch, context);
    total += loss_of(model, windows) * static_cast<double>(windows.inputs.shape()[0]);
  }
  return total / static_cast<double>(count);
}

struct Run {
  GPT model;
  AdamW optimizer;
  Generator stream;
  Index steps = 0;  // done
};

Run new_run(const Corpus& corpus, const Settings& settings) {
  const Recipe recipe = settings.recipe();
  manual_seed(static_cast<std::uint64_t>(settings.seed));
  GPT model({.vocabulary = corpus.tokenizer.vocab_size(),
             .context = recipe.context,
             .layers = recipe.layers,
             .heads = recipe.heads,
             .width = recipe.width,
             .bias = false});
  // Decay on matrices only.
  std::vector<ParameterGroup> groups = decay_groups(model.parameters(), 0.1);
  return {std::move(model), AdamW(groups, {.beta2 = 0.99}), stream_at(settings.seed, kTrainingStream)};
}

// What a saved run must have been started with for this one to go on with it.
std::map<std::string, std::string> description(const Corpus& corpus, const Settings& settings) {
  return {{"preset", settings.preset},
          {"seed", std::to_string(settings.seed)},
          {"steps", std::to_string(settings.recipe().steps)},
          {"vocabulary", corpus.tokenizer.characters()}};
}

void save(const Run& run, const Corpus& corpus, const Settings& settings) {
  std::vector<NamedTensor> tensors = run.model.parameters();
  for (NamedTensor& entry : run.optimizer.state()) {
    entry.name = "optimizer." + entry.name;
    tensors.push_back(std::move(entry));
  }
  auto metadata = description(corpus, settings);
  metadata["done"] = std::to_string(run.steps);
  metadata["position"] = std::to_string(run.stream.position());
  save_safetensors(settings.save, tensors, metadata);
}

void resume(Run& run, const Corpus& corpus, const Settings& settings) {
  Safetensors file = load_safetensors(settings.save);
  for (const auto& [name, value] : description(corpus, settings)) {
    if (file.metadata[name] == value) continue;
    throw StateError(fmt::format(
        "{} was saved with another {}; go on with the same options and text, or save elsewhere", settings.save, name));
  }
  std::vector<NamedTensor> weights, optimizer;
  for (NamedTensor& entry : file.tensors) {
    const bool of_optimizer = entry.name.starts_with("optimizer.");
    if (of_optimizer) entry.name.erase(0, std::string("optimizer.").size());
    (of_optimizer ? optimizer : weights).push_back(std::move(entry));
  }
  run.model.load_state(weights);
  run.optimizer.load_state(optimizer);
  run.steps = std::stoll(file.metadata["done"]);
  run.stream = stream_at(settings.seed, std::stoull(file.metadata["position"]));
}

Training train(Run& run, const Corpus& corpus, const Settings& settings) {
  const Recipe recipe = settings.recipe();
  const Schedule rate =
      warm_up(recipe.warm_up, cosine_schedule(1e-3, 1e-4, std::max<Index>(1, recipe.steps - recipe.warm_up)));
  const examples::Interrupt interrupt;
  examples::Progress progress({.steps = recipe.steps,
                               .first = run.steps,
                               .items_per_step = recipe.batch * recipe.context,
                               .items = "tokens",
                               .measure = "validation",
                               .terminal = examples::stdout_terminal()});
  const Index before = run.steps;
  double validation = sampled_loss(run.model, corpus, settings);
  while (run.steps < recipe.steps && !interrupt.requested()) {
    const TokenBatch batch = corpus.train.random_batch(recipe.batch, recipe.context, run.stream);
    const Tensor loss = cross_entropy(run.model(batch.inputs), batch.targets);
    loss.backward();
    clip_grad_norm(run.optimizer.parameters(), 1.0);
    run.optimizer.set_lr(rate(run.steps));
    run.optimizer.step();
    ++run.steps;
    if (run.steps % recipe.evaluate_every == 0 || run.steps == recipe.steps) {
      validation = sampled_loss(run.model, corpus, settings);
      save(run, corpus, settings);
    }
    progress.step(loss.item(), [&] { return validation; });
  }
  if (interrupt.requested()) save(run, corpus, settings);
  return {run.steps - before, progress.seconds(), interrupt.requested()};
}

void print_header(const Run& run, const Corpus& corpus, const Settings& settings) {
  const Recipe recipe = settings.recipe();
  fmt::print("A GPT learns to go on with a text, character by character\n");
  fmt::print("  text      {}: {} characters, {} different ones; the last tenth is for validation\n",
             settings.data.empty() ? "the sources of this project" : settings.data, with_commas(corpus.characters),
             corpus.tokenizer.vocab_size());
  fmt::print("  model     {} layers, {} heads, width {}, context {}: {} parameters\n", recipe.layers, recipe.heads,
             recipe.width, recipe.context, with_commas(run.model.parameter_count()));
  fmt::print("  training  {} steps of {} windows, seed {}, saved in {}\n", with_commas(recipe.steps), recipe.batch,
             settings.seed, settings.save);
  if (run.steps > 0) fmt::print("            goes on after step {}\n", with_commas(run.steps));
  fmt::print("  machine   {} thread{}, OpenBLAS on {} kernels\n\n", num_threads(), num_threads() == 1 ? "" : "s",
             blas_core());
  std::fflush(stdout);
}

// Prints what the model makes of the prompt as it comes.
void print_sample(const GPT& model, const Corpus& corpus, const Settings& settings) {
  Generator stream = stream_at(settings.seed, kSampleStream);
  GenerateOptions options{.max_tokens = settings.sample,
                          .sampling = {.temperature = settings.temperature, .top_k = 200, .generator = &stream}};
  const auto text_of = [&](Index token) { return corpus.tokenizer.token(token); };
  std::function<bool(Index)> goes_on;
  if (!settings.stop.empty()) goes_on = stop_at({settings.stop}, text_of);
  options.on_token = [&](Index token) {
    fmt::print("{}", text_of(token));
    std::fflush(stdout);
    return goes_on == nullptr || goes_on(token);
  };
  fmt::print("\n--- {} characters after the prompt, temperature {}\n{}", settings.sample, settings.temperature,
             settings.prompt);
  generate(model, corpus.tokenizer.encode(settings.prompt), options);
  fmt::print("\n---\n\n");
}

// Returns the exit code.
int run(Settings settings) {
  set_num_threads(static_cast<int>(settings.threads));
  const Corpus corpus = read_corpus(settings);
  if (settings.prompt.empty()) settings.prompt = corpus.first;
  corpus.tokenizer.encode(settings.prompt);  // a character that the text lacks costs no training
  Run run = new_run(corpus, settings);
  if (settings.resume) resume(run, corpus, settings);
  const Index windows = corpus.validation.window_count(run.model.options().context);
  print_header(run, corpus, settings);
  if (!settings.resume) save(run, corpus, settings);  // neither does a file that cannot be written

  const Training training = train(run, corpus, settings);
  print(training);
  if (settings.sample > 0) print_sample(run.model, corpus, settings);
  fmt::print("validation on all {} windows of {} characters\n", with_commas(windows), run.model.options().context);
  if (settings.digest) fmt::print("digest: {}\n", examples::digest(run.model.parameters()));
  fmt::print("validation loss: {:.4f}\n", whole_loss(run.model, corpus, settings.recipe().batch));
  if (std::fflush(stdout) != 0) throw IoError("cannot write to standard output");
  return training.interrupted ? examples::Interrupt::kExitCode : 0;
}

std::optional<int> read_settings(int argc, char** argv, Settings& settings) {
  CLI::App app("Trains a character language model and lets it write.", "char_lm");
  app.add_option("--data", settings.data, "A text file (UTF-8); the sources of this project unless given")
      ->type_name("FILE");
  std::vector<std::string> presets;
  for (const auto& [name, recipe] : kPresets) presets.push_back(name);
  app.add_option("--preset", settings.preset, "Sizes and schedule: cpu (nanoGPT's recipe) or tiny")
      ->check(CLI::IsMember(presets))
      ->capture_default_str();
  examples::add_number(app, "--seed", settings.seed, 0, std::numeric_limits<Index>::max(),
                       "Of the first weights, the training windows and the sample");
  app.add_option("--steps", settings.steps, "Training steps; the preset's unless given")
      ->check(CLI::Range(Index{0}, Index{1'000'000'000}));
  examples::add_number(app, "--threads", settings.threads, 1, 256, "Threads; the results do not depend on them");
  app.add_option("--save", settings.save, "Where the run is kept, as safetensors")
      ->capture_default_str()
      ->type_name("FILE");
  app.add_flag("--resume", settings.resume, "Go on with the run in that file");
  app.add_option("--prompt", settings.prompt, "What the sample begins with; the text's first character unless given")
      ->type_name("TEXT");
  examples::add_number(app, "--sample", settings.sample, 0, 1'000'000, "Characters to write after training");
  app.add_option("--stop", settings.stop, "The sample ends with this text where it comes up")->type_name("TEXT");
  app.add_option("--temperature", settings.temperature, "Of the sample; 0: always the most likely character")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str();
  app.add_flag("--digest", settings.digest, "Print a hash of all trained parameters");
  app.footer(
      "The last lines of output are for scripts: digest (if asked for), validation loss.\n\n"
      "Exit codes: 0 done; 1 a file cannot be read or written, or holds what cannot be learned from; 2 a mistake in "
      "the\n"
      "command line; 130 training was ended with Ctrl-C; the run was saved and can be resumed.");
  return examples::parse_arguments(app, argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program("char_lm", [&]() -> int {
    Settings settings;
    if (const auto code = read_settings(argc, argv, settings)) return *code;
    return run(settings);
  });
}
