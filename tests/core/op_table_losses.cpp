// SPDX-License-Identifier: MIT
// The table's page on losses.
#include <tapehead/losses.h>
#include <tapehead/ops.h>

#include "core/op_table.h"

namespace op_table {

using namespace tapehead;

namespace {

constexpr Reduction kReductions[] = {Reduction::mean, Reduction::sum, Reduction::none};
const Shape kPairShapes[] = {{}, {1, 1}, {7}, {5, 3}, {1, 2, 1, 3, 1, 2}};

struct Targets {
  std::string what;
  Shape input;
  Tensor targets;
};

// Class weights, one of them 0, in the type of the case.
Tensor class_weights(Index classes, DType dtype) { return to(arange(classes), dtype).detach() * 0.75; }

void add_class_losses(std::vector<Entry>& table) {
  Entry entropy{"cross_entropy", WrongType::whole};
  Entry nll{"nll_loss", WrongType::whole};
  const std::vector<Targets> batches = {
      {"", {5, 3}, whole({0, 2, 1, 1, 0}, {5})},
      {"ignored", {5, 3}, whole({0, -100, 1, -100, 0}, {5})},
      {"one row", {7}, whole({6}, {})},
      {"batches", {2, 2, 3}, whole({0, 2, 1, 1}, {2, 2})},
      {"three axes of targets", {1, 2, 2, 3}, whole({0, 2, 1, -100}, {1, 2, 2})},
      {"wide", {2, 37}, whole({36, 4}, {2})},
  };
  for (const Targets& batch : batches) {
    for (const Reduction reduction : kReductions) {
      for (const bool weighted : {false, true}) {
        const auto weight = [weighted](const Tensor& x) {
          return weighted ? class_weights(x.shape()[-1], x.dtype()) : Tensor();
        };
        const auto likelihood = [=, targets = batch.targets](Inputs in) {
          return nll_loss(in[0], targets, {.reduction = reduction, .weight = weight(in[0])});
        };
        nll.cases.push_back({batch.what, likelihood, {{batch.input}}});
        for (const double smoothing : {0.0, 0.3}) {
          const auto loss = [=, targets = batch.targets](Inputs in) {
            return cross_entropy(in[0], targets,
                                 {.reduction = reduction, .weight = weight(in[0]), .label_smoothing = smoothing});
          };
          const std::string options = (weighted ? ", weights" : "") + std::string(smoothing > 0 ? ", smooth" : "");
          entropy.cases.push_back({batch.what + options, loss, {{batch.input}}});
        }
      }
    }
  }
  for (const Shape& shape : {Shape{0, 3}, Shape{2, 1}}) {
    const Tensor targets = zeros(shape.without(-1), DType::i64);
    const auto total = [targets](Inputs in) {
      return cross_entropy(in[0], targets, {.reduction = Reduction::sum, .label_smoothing = 0.3});
    };
    entropy.cases.push_back({"no rows or one class", total, {{shape}}});
    nll.cases.push_back(
        {"no rows or one class",
         [targets](Inputs in) { return nll_loss(in[0], targets, {.ignore_index = {}, .reduction = Reduction::sum}); },
         {{shape}}});
  }
  table.push_back(std::move(entropy));
  table.push_back(std::move(nll));
}

// Element by element losses; the ranges keep inputs and targets clear of kinks.
template <class F>
Entry pair_loss(const std::string& name, F f, Input input = {{}}, Input target = {{}}) {
  Entry entry{name, WrongType::mixed};
  for (const Reduction reduction : kReductions) {
    for (const Shape& shape : kPairShapes) {
      input.shape = target.shape = shape;
      entry.cases.push_back({"", [f, reduction](Inputs in) { return f(in[0], in[1], reduction); }, {input, target}});
    }
  }
  return entry;
}

}  // namespace

void add_losses(std::vector<Entry>& table) {
  add_class_losses(table);
  table.push_back(pair_loss("mse_loss", [](auto& x, auto& y, Reduction r) { return mse_loss(x, y, r); }));
  table.push_back(pair_loss("l1_loss", [](auto& x, auto& y, Reduction r) { return l1_loss(x, y, r); }));
  Entry huber = pair_loss("huber_loss", [](auto& x, auto& y, Reduction r) { return huber_loss(x, y, 1, r); });
  append(huber.cases, pair_loss("", [](auto& x, auto& y, Reduction r) { return huber_loss(x, y, 0.37, r); }).cases);
  table.push_back(std::move(huber));
  Entry binary =
      pair_loss("binary_cross_entropy_with_logits",
                [](auto& x, auto& y, Reduction r) { return binary_cross_entropy_with_logits(x, y, {.reduction = r}); },
                {{}}, {{}, 0, 1});
  for (const Reduction reduction : kReductions) {
    const auto weighted = [reduction](Inputs in) {
      return binary_cross_entropy_with_logits(in[0], in[1], {.pos_weight = in[2], .reduction = reduction});
    };
    binary.cases.push_back({"pos_weight", weighted, {{{5, 3}}, {{5, 3}, 0, 1}, {{3}, 0.5, 3}}});
  }
  table.push_back(std::move(binary));
  Entry divergence{"kl_div", WrongType::mixed};
  for (const KlReduction reduction : {KlReduction::batchmean, KlReduction::mean, KlReduction::sum, KlReduction::none}) {
    const auto f = [reduction](Inputs in) { return kl_div(in[0], in[1], reduction); };
    for (const Shape& shape : kPairShapes) {
      if (shape.rank() == 0 && reduction == KlReduction::batchmean) continue;
      divergence.cases.push_back({"", f, {{shape, -3, -0.1}, {shape, 0.1, 0.9}}});
    }
  }
  table.push_back(std::move(divergence));
}

}  // namespace op_table
