// SPDX-License-Identifier: MIT
// The first NaN or infinity gets a name: planted through every operation of the table, forward and backward.
#include <cmath>
#include <limits>
#include <set>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/optim.h>

#include "core/op_table.h"

using namespace tapehead;
using namespace op_table;

namespace {

const double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const ValueError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool finite(const Tensor& x) {
  const Tensor wide = to(x.detach(), DType::f64);
  return std::ranges::all_of(wide.read<double>(), [](double value) { return std::isfinite(value); });
}

std::vector<Tensor> samples(const Case& one) {
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < one.inputs.size(); ++i) {
    out.push_back(sample(one.inputs[i], static_cast<int>(i), DType::f64).requires_grad_());
  }
  return out;
}

// Passes its input on but for one element; and one whose rule does that to the gradient.
Tensor planted_forward(const Tensor& x, double value) {
  Tensor y = clone(x.detach());
  y.write<double>()[static_cast<std::size_t>(y.numel() / 2)] = value;
  return record("planted", std::move(y), {&x}, {}, [](Backward& back) { back.to(0, back.gradient()); });
}
Tensor planted_backward(const Tensor& x, double value) {
  return record("planted", clone(x.detach()), {&x}, {}, [value](Backward& back) {
    Tensor g = clone(back.gradient().detach());
    g.write<double>()[static_cast<std::size_t>(g.numel() / 2)] = value;
    back.to(0, g);
  });
}

template <class F>
void for_each_case(F f) {
  for (const Entry& entry : entries()) {
    for (const Case& one : entry.cases) {
      std::string text = fmt::format("{} ({})", entry.name, one.what);
      for (const Input& input : one.inputs) text += fmt::format(" {}", to_string(input.shape));
      INFO(text);
      try {
        f(entry, one);
      } catch (const std::exception& error) {
        FAIL_CHECK(std::string(error.what()));
      }
    }
  }
}

}  // namespace

TEST_CASE("anomaly: without one, every operation computes the same under the guard") {
  for_each_case([](const Entry&, const Case& one) {
    std::vector<Tensor> plain = samples(one), watched = samples(one);
    const Tensor expected = one.function(plain);
    const Tensor upstream = sample({expected.shape()}, 5, DType::f64);
    expected.backward({.gradient = upstream});
    const DetectAnomaly guard;
    const Tensor result = one.function(watched);
    result.backward({.gradient = upstream});
    CHECK(std::ranges::equal(result.read<double>(), expected.read<double>()));
    for (std::size_t i = 0; i < plain.size(); ++i) {
      CHECK(std::ranges::equal(plain[i].grad().read<double>(), watched[i].grad().read<double>()));
    }
  });
}

TEST_CASE("anomaly: what comes into an operation is named as having come in") {
  int named = 0;
  for_each_case([&](const Entry&, const Case& one) {
    for (const double value : {kNaN, kInfinity}) {
      for (std::size_t i = 0; i < one.inputs.size(); ++i) {
        if (one.inputs[i].shape.numel() == 0) continue;
        std::vector<Tensor> inputs = samples(one);
        Tensor values = inputs[i].detach();
        for (double& element : values.write<double>()) element = value;
        const Tensor result = one.function(inputs);
        if (result.is_leaf()) continue;                     // there was nothing to do
        std::set<std::string> ops = {"attention_weights"};  // computed before the output, and not always returned
        for (const TapeEntry& made : tape(result)) ops.insert(made.op);
        const std::string text = message([&] {
          const DetectAnomaly guard;
          (void)one.function(inputs);
        });
        if (text.empty()) {
          CHECK(finite(result));
          continue;
        }
        ++named;
        CHECK(ops.contains(text.substr(0, text.find(':'))));
        CHECK_MESSAGE(contains(text, "came in with input "), text);
        CHECK_FALSE_MESSAGE(contains(text, "arose here"), text);
      }
    }
  });
  CHECK(named > 700);
}

TEST_CASE("anomaly: what arises before, behind or inside an operation's rule is named where it arose") {
  for_each_case([&](const Entry&, const Case& one) {
    for (const double value : {kNaN, -kInfinity}) {
      for (std::size_t i = 0; i < one.inputs.size(); ++i) {
        if (one.inputs[i].shape.numel() == 0) continue;
        const std::vector<Tensor> leaves = samples(one);
        std::vector<Tensor> inputs = leaves;
        const DetectAnomaly guard;
        const std::string forward = message([&] { inputs[i] = planted_forward(leaves[i], value); });
        CHECK_MESSAGE(forward.starts_with("planted: result " + to_string(one.inputs[i].shape)), forward);
        CHECK_MESSAGE(contains(forward, "arose here"), forward);
        inputs[i] = planted_backward(leaves[i], value);
        const Tensor result = one.function(inputs);
        const std::string backward =
            message([&] { result.backward({.gradient = sample({result.shape()}, 5, DType::f64)}); });
        CHECK_MESSAGE(backward.starts_with("planted: backward gives input 0 the gradient "), backward);
        CHECK_MESSAGE(contains(backward, "arose here"), backward);
        CHECK_FALSE(leaves[i].grad().defined());
      }
    }
  });
}

TEST_CASE("anomaly: a gradient that comes into an operation's rule is named as having come in") {
  int named = 0;
  for_each_case([&](const Entry&, const Case& one) {
    for (const double value : {kNaN, kInfinity}) {
      const std::vector<Tensor> inputs = samples(one);
      const Tensor result = one.function(inputs);
      if (result.numel() == 0 || result.is_leaf()) continue;
      std::set<std::string> ops;
      for (const TapeEntry& made : tape(result)) ops.insert(made.op);
      const std::string text = message([&] {
        const DetectAnomaly guard;
        result.backward({.gradient = full(result.shape(), value, DType::f64), .retain = true});
      });
      if (text.empty()) {
        for (const Tensor& input : inputs) CHECK((!input.grad().defined() || finite(input.grad())));
        continue;
      }
      ++named;
      CHECK(ops.contains(text.substr(0, text.find(':'))));
      CHECK_MESSAGE(contains(text, "backward gives input "), text);
      CHECK_MESSAGE(contains(text, "came in with gradient"), text);
    }
  });
  CHECK(named > 500);
}

TEST_CASE("anomaly: the report, word by word") {
  Tensor w = tensor({{1, 2, 3}, {4, 0, 6}}, DType::f64).requires_grad_();
  w.set_name("layers.0.weight");
  const Tensor x = tensor({{1, 1, 1}}, DType::f64);
  const Tensor before = w * x;
  const std::string number = tape(before).back().inputs.empty() ? "" : std::to_string(tape(before).back().number);
  const std::string forward = message([&] {
    const DetectAnomaly guard;
    (void)log(before - 2.0);
  });
  CHECK(forward.starts_with("log: result [2, 3] f64: 3 of 6 elements not finite, the first "));
  CHECK(contains(forward, "nan at [0, 0]; operation #"));
  CHECK(contains(forward, " on the tape, after \"multiply\" #" + number + " with \"layers.0.weight\"; "));
  CHECK(forward.ends_with("input 0 [2, 3] -2 to 4; it arose here"));

  const std::string bare = message([&] {
    const DetectAnomaly guard;
    const NoGrad off;
    (void)(1.0 / w);
  });
  CHECK(bare ==
        "divide: result [2, 3] f64: 1 of 6 elements not finite, the first inf at [1, 1]; not recorded, with "
        "\"layers.0.weight\"; input 0 [2, 3] 0 to 6; it arose here");

  const std::string backward = message([&] {
    const DetectAnomaly guard;
    sum(sqrt(w)).backward();
  });
  CHECK(
      backward.starts_with("sqrt: backward gives input 0 the gradient [2, 3] f64: 1 of 6 elements not finite, the "
                           "first inf at [1, 1]; operation #"));
  CHECK(contains(backward, " on the tape, with \"layers.0.weight\"; gradient [2, 3] 1 to 1; saved 0 [2, 3] 0 to "));
  CHECK(backward.ends_with("; it arose here"));
  CHECK_FALSE(w.grad().defined());

  const Tensor holes = tensor({kNaN, 1, -kInfinity}, DType::f64);
  const std::string both = message([&] {
    const DetectAnomaly guard;
    (void)(ones({3}, DType::f64) + holes);
  });
  CHECK(both ==
        "add: result [3] f64: 2 of 3 elements not finite, the first nan at [0]; not recorded; input 0 [3] 1 to "
        "1; input 1 [3] 1 to 1 and 2 not finite; it came in with input 1");
}

TEST_CASE("anomaly: finite gradients that add up to an infinity are named where they meet") {
  const double top = std::numeric_limits<double>::max();
  Tensor x = tensor({1, 1}, DType::f64).requires_grad_();
  x.set_name("x");
  const auto play = [&](const Tensor& y, double scale) {
    return message([&] {
      const DetectAnomaly guard;
      y.backward({.gradient = full(y.shape(), scale, DType::f64)});
    });
  };
  CHECK(
      play(clone(x) + clone(x), top).starts_with("backward: the gradients gathered at leaf \"x\" add up to [2] f64: "));
  const Tensor inner = clone(x);
  CHECK(contains(play(negate(inner) + negate(inner), top), "gathered at \"clone\" #"));
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("anomaly: a rule may pass through infinities that it does not hand over") {
  const Tensor x = tensor({0, 4}, DType::f64).requires_grad_();
  const Tensor y = record("careful", clone(x.detach()), {&x}, {&x}, [](Backward& back) {
    const Tensor inverse = 1.0 / back.saved(0);
    back.to(0, where(equal(back.saved(0), zeros({}, DType::f64)), zeros({}, DType::f64), inverse));
  });
  const DetectAnomaly guard;
  CHECK(message([&] { y.backward({.gradient = ones({2}, DType::f64)}); }).empty());
  CHECK(x.grad().at({1}) == 0.25);
}

TEST_CASE("anomaly: guards nest, end, and concern one thread") {
  const auto divide_by_zero = [] { (void)(1.0 / zeros({2})); };
  const auto refused = [&] { return !message(divide_by_zero).empty(); };
  CHECK_NOTHROW(divide_by_zero());
  {
    const DetectAnomaly outer;
    { const DetectAnomaly inner; }
    CHECK(refused());
    bool elsewhere = true;
    std::thread([&] { elsewhere = refused(); }).join();
    CHECK_FALSE(elsewhere);
  }
  CHECK_NOTHROW(divide_by_zero());
}
