// SPDX-License-Identifier: MIT
// Walks beside another framework: nanoGPT's CPU recipe from that framework's start weights and on its batches. FOLDER
// holds weights/NAME.npy, batches.npy i64 [steps, 2, batch, T] (inputs and targets), expected.json with loss, gradient
// norm and learning rate of each step, and final/NAME.npy. The element type is the weights'. Prints the largest
// differences and fails beyond 1e-5, 1e-4 and 1e-4 (f64: 1e-9 each).
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tapehead/tapehead.h>

namespace th = tapehead;

namespace {

// Their names, which say what ours say in other words.
std::string their_name(std::string name) {
  const auto replace = [&](const std::string& ours, const std::string& theirs) {
    const std::size_t at = name.find(ours);
    if (at != std::string::npos) name.replace(at, ours.size(), theirs);
  };
  replace("self_attn.in_proj_weight", "attention.qkv.weight");
  replace("self_attn.out_proj", "attention.out");
  replace("linear1", "feed_forward.up");
  replace("linear2", "feed_forward.down");
  return name;
}

std::vector<th::NamedTensor> read_weights(const th::Module& model, const std::string& folder) {
  std::vector<th::NamedTensor> state;
  for (const th::NamedTensor& own : model.parameters()) {
    state.push_back({own.name, th::load_npy(folder + "/" + their_name(own.name) + ".npy")});
  }
  return state;
}

struct Differences {
  double loss = 0, norm = 0, weights = 0;
};

Differences walk(const std::string& folder) {
  const th::Tensor batches = th::load_npy(folder + "/batches.npy");
  std::ifstream file(folder + "/expected.json");
  const nlohmann::json expected = nlohmann::json::parse(file);

  th::GPT model({.vocabulary = 65, .context = 64, .layers = 4, .heads = 4, .width = 128, .bias = false});
  const std::vector<th::NamedTensor> start = read_weights(model, folder + "/weights");
  model.to(start.front().tensor.dtype());
  model.load_state(start);
  th::AdamW optimizer(th::decay_groups(model.parameters(), 0.1), {.lr = 1e-3, .beta2 = 0.99});
  const th::Schedule rate = th::warm_up(100, th::cosine_schedule(1e-3, 1e-4, 1900));

  Differences largest;
  for (th::Index step = 0; step < batches.shape()[0]; ++step) {
    const auto& row = expected.at(static_cast<std::size_t>(step));
    if (std::abs(rate(step) - row.at("rate").get<double>()) > 1e-18) throw th::ValueError("the schedules differ");
    optimizer.set_lr(rate(step));
    const th::Tensor batch = th::select(batches, 0, step);
    const th::Tensor loss = th::cross_entropy(model(th::select(batch, 0, 0)), th::select(batch, 0, 1));
    loss.backward();
    const double norm = th::clip_grad_norm(optimizer.parameters(), 1.0);
    optimizer.step();
    largest.loss = std::max(largest.loss, std::abs(loss.item() - row.at("loss").get<double>()));
    largest.norm = std::max(largest.norm, std::abs(norm - row.at("norm").get<double>()));
  }
  const std::vector<th::NamedTensor> last = read_weights(model, folder + "/final"), own = model.parameters();
  for (std::size_t i = 0; i < own.size(); ++i) {
    largest.weights = std::max(largest.weights, th::max(th::abs(own[i].tensor - last[i].tensor)).item());
  }
  return largest;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    fmt::print(stderr, "usage: parity FOLDER\n");
    return 2;
  }
  const std::string folder = argv[1];
  const bool wide = th::load_npy(folder + "/weights/token_embedding.weight.npy").dtype() == th::DType::f64;
  const Differences largest = walk(folder);
  const Differences limit = wide ? Differences{1e-9, 1e-9, 1e-9} : Differences{1e-5, 1e-4, 1e-4};
  fmt::print("{}: largest differences of loss {:.3g}, gradient norm {:.3g}, final weights {:.3g}\n",
             wide ? "f64" : "f32", largest.loss, largest.norm, largest.weights);
  return largest.loss <= limit.loss && largest.norm <= limit.norm && largest.weights <= limit.weights ? 0 : 1;
} catch (const std::exception& error) {
  fmt::print(stderr, "parity: {}\n", error.what());
  return 1;
}
