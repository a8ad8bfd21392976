// SPDX-License-Identifier: MIT
// Lesson 2: gradients. Operations are recorded on a tape, and backward() plays it back.
#include <fmt/core.h>
#include <tapehead/tapehead.h>

namespace th = tapehead;
using th::Tensor;

namespace {

void heading(const char* text) { fmt::print("\n{}\n\n", text); }

Tensor leaf(const Tensor& values, const char* name) {
  Tensor out = th::clone(values);
  out.requires_grad_();
  out.set_name(name);
  return out;
}

void one_neuron() {
  heading("A neuron with two weights: y = sigmoid(w . x + b), loss = (y - 1)^2");
  const Tensor x = th::tensor({1, 2});
  Tensor w = leaf(th::tensor({0.5, -0.25}), "w");
  Tensor b = leaf(th::tensor(0.1), "b");
  const Tensor y = th::sigmoid(th::sum(w * x) + b);
  const Tensor loss = th::pow(y - 1, 2);
  fmt::print("The tape behind the loss, one line for each operation that a gradient passes through:\n\n{}\n",
             th::tape_table(loss));

  loss.backward();
  fmt::print("dloss/dw = {}   dloss/db = {}\n", w.grad(), b.grad());
  const double slope = 2 * (y.item() - 1) * y.item() * (1 - y.item());
  fmt::print("by hand    [{:.8f} {:.8f}]              {:.8f}\n", slope * 1, slope * 2, slope);
}

void gathering() {
  heading("Gradients add up until somebody drops them; optimizers do it in step()");
  Tensor w = leaf(th::tensor({1, 2, 3}), "w");
  for (int i = 1; i <= 3; ++i) {
    th::sum(w * w).backward();
    fmt::print("after backward {}: {}\n", i, w.grad());
  }
  w.zero_grad();
  fmt::print("after zero_grad(): {}\n", w.grad().defined() ? "still there" : "none");
}

void higher() {
  heading("grad() returns gradients, and with .create_graph they can be differentiated again");
  Tensor x = leaf(th::tensor(2, th::DType::f64), "x");
  Tensor y = th::pow(x, 4);
  fmt::print("x^4 at 2: {}\n", y.item());
  for (int order = 1; order <= 4; ++order) {
    y = th::grad(y, {x}, {.create_graph = true})[0];
    fmt::print("derivative {}: {}\n", order, y.item());
  }
}

void off_the_tape() {
  heading("Nothing is recorded without a leaf that asks, inside NoGrad, or after detach()");
  const Tensor w = leaf(th::tensor({1, 2}), "w");
  fmt::print("w * 2: {}, ones * 2: {}, w.detach() * 2: {}", (w * 2).requires_grad(),
             (th::ones({2}) * 2).requires_grad(), (w.detach() * 2).requires_grad());
  const th::NoGrad off;
  fmt::print(", w * 2 under NoGrad: {}\n", (w * 2).requires_grad());
}

void mistakes() {
  heading("The two classic mistakes do not go unnoticed");
  Tensor w = leaf(th::tensor({1, 2}), "w");
  const Tensor loss = th::sum(w * w);
  loss.backward();
  try {
    loss.backward();
  } catch (const th::GraphError& error) {
    fmt::print("{}\n", error.what());
  }
  const Tensor later = th::sum(w * w);
  w.write<float>()[0] = 5;
  try {
    later.backward();
  } catch (const th::GraphError& error) {
    fmt::print("{}\n", error.what());
  }
}

}  // namespace

int main() {
  one_neuron();
  gathering();
  higher();
  off_the_tape();
  mistakes();
  fmt::print("\nRecorded operations still alive: {}\n", th::live_nodes());
}
