// SPDX-License-Identifier: MIT
// Lesson 3: gradient checks. An operation of your own, right and wrong, and a whole layer, against finite differences.
#include <cmath>
#include <vector>

#include <fmt/core.h>
#include <tapehead/tapehead.h>

namespace th = tapehead;
using th::Tensor;

namespace {

void heading(const char* text) { fmt::print("\n{}\n\n", text); }

// log_cosh(x) = log(cosh(x)), computed here element by element. Its derivative is tanh(x).
Tensor log_cosh_values(const Tensor& x) {
  Tensor y = th::empty(x.shape(), x.dtype());
  const auto from = x.read<double>();
  const auto to = y.write<double>();
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = std::log(std::cosh(from[i]));
  return y;
}

// An operation is a kernel and a rule. Rules are written with operations, so that second derivatives follow.
Tensor log_cosh(const Tensor& x) {
  return th::record("log_cosh", log_cosh_values(x), {&x}, {&x},
                    [](th::Backward& back) { back.to(0, back.gradient() * th::tanh(back.saved(0))); });
}

// The same with a slip: sigmoid where tanh was meant. It runs, it trains a little, and it is wrong.
Tensor log_cosh_with_a_slip(const Tensor& x) {
  return th::record("log_cosh", log_cosh_values(x), {&x}, {&x},
                    [](th::Backward& back) { back.to(0, back.gradient() * th::sigmoid(back.saved(0))); });
}

}  // namespace

int main() {
  const Tensor x = th::NumpyRandom(1).randn({3, 4});

  heading("The right rule");
  const auto right = [](const std::vector<Tensor>& in) { return log_cosh(in[0]); };
  fmt::print("{}", th::gradcheck(right, {x}).table());

  heading("Its second derivative");
  fmt::print("{}", th::gradgradcheck(right, {x}).table());

  heading("The wrong rule: the table shows the worst element and both values");
  const auto wrong = [](const std::vector<Tensor>& in) { return log_cosh_with_a_slip(in[0]); };
  fmt::print("{}", th::gradcheck(wrong, {x}).table());

  heading("A kink is no mistake: relu bends at 0, so no slope can be compared there");
  const auto bent = [](const std::vector<Tensor>& in) { return th::relu(in[0]); };
  fmt::print("{}", th::gradcheck(bent, {th::tensor({-1, 0, 2}, th::DType::f64)}).table());

  heading("A layer: every parameter by name, output and attention weights");
  th::SelfAttention attention(4, 3, {.heads = 2});
  attention.to(th::DType::f64);
  fmt::print("{}", th::gradcheck(attention, {th::NumpyRandom(2).randn({2, 5, 4})}).table());

  heading("Checks need f64");
  try {
    (void)th::gradcheck(th::Linear(4, 2), {x});
  } catch (const th::DTypeError& error) {
    fmt::print("{}\n", error.what());
  }
}
