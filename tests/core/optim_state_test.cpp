// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/optim.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

using namespace tapehead;

namespace {

using Parameters = std::vector<NamedTensor>;
using Make = std::function<std::unique_ptr<Optimizer>(const Parameters&)>;

Parameters start() {
  return {{"a", tensor({1, -2, 3}, DType::f64).requires_grad_()}, {"b", tensor({{0.5, 0.25}}).requires_grad_()}};
}

void step(Parameters& parameters, Optimizer& optimizer, int number) {
  (sum(to(parameters[0].tensor, DType::f32) * (1.0 + number)) + sum(parameters[1].tensor * parameters[1].tensor))
      .backward();
  optimizer.step();
}

bool same(const Tensor& a, const Tensor& b) {
  return visit_any(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return a.dtype() == b.dtype() && std::ranges::equal(a.read<T>(), b.read<T>());
  });
}

const std::vector<Make> kAll = {
    [](const Parameters& p) { return std::make_unique<SGD>(p, SGDOptions{.momentum = 0.9, .dampening = 0.1}); },
    [](const Parameters& p) { return std::make_unique<SGD>(p); },
    [](const Parameters& p) { return std::make_unique<Adam>(p); },
    [](const Parameters& p) { return std::make_unique<AdamW>(p); },
    [](const Parameters& p) {
      return std::make_unique<Adagrad>(p, AdagradOptions{.lr_decay = 0.1, .initial_accumulator_value = 0.5});
    },
    [](const Parameters& p) { return std::make_unique<RMSprop>(p, RMSpropOptions{.momentum = 0.9, .centered = true}); },
    [](const Parameters& p) { return std::make_unique<Lion>(p); },
};

}  // namespace

TEST_CASE("optimizers: a new one with the state of another goes on with the same bits") {
  for (const Make& make : kAll) {
    Parameters whole = start(), first = start();
    const auto without_stop = make(whole), before = make(first);
    for (int i = 0; i < 6; ++i) step(whole, *without_stop, i);
    for (int i = 0; i < 3; ++i) step(first, *before, i);
    const Parameters state = before->state();
    step(first, *before, 9);  // the state is a copy
    Parameters second = start();
    {
      const auto again = make(second);
      for (int i = 0; i < 3; ++i) step(second, *again, i);
    }
    const auto after = make(second);
    after->load_state(state);
    for (int i = 3; i < 6; ++i) step(second, *after, i);
    for (std::size_t i = 0; i < whole.size(); ++i) CHECK(same(whole[i].tensor, second[i].tensor));
  }
}

TEST_CASE("optimizers: states have PyTorch's names, and one that does not fit changes nothing") {
  Parameters parameters = start();
  Adam adam(parameters);
  step(parameters, adam, 0);
  Parameters state = adam.state();
  std::vector<std::string> names;
  for (const NamedTensor& entry : state) names.push_back(entry.name);
  CHECK(names ==
        std::vector<std::string>{"a.exp_avg", "a.exp_avg_sq", "a.step", "b.exp_avg", "b.exp_avg_sq", "b.step"});
  CHECK(state[2].tensor.item() == 1);
  Parameters other = start();
  Adam fresh(other);
  state.pop_back();
  state.push_back({"c.step", state[2].tensor});
  state[0].tensor = zeros({4}, DType::f64);
  CHECK_THROWS_WITH_AS(fresh.load_state(state),
                       "Adam.load_state: the state belongs to something else; nothing was loaded; names, shapes and "
                       "types must agree\n"
                       "  other shape  a.exp_avg: here it is [3], in the state [4]\n"
                       "  missing      b.step []\n"
                       "  unexpected   c.step []",
                       StateError);
  CHECK(fresh.state()[2].tensor.item() == 0);
  CHECK(SGD(other).state().size() == 2);
}
