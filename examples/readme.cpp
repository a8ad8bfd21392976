// SPDX-License-Identifier: MIT
#include <fmt/core.h>
#include <tapehead/tapehead.h>

namespace th = tapehead;

struct Reverser : th::Module {  // reads eight digits and says them backwards
  th::Embedding digit{10, 32}, place{8, 32};
  th::SelfAttention attention{32, 32};
  th::Linear head{32, 10};

  th::Tensor operator()(const th::Tensor& digits) const {  // [batch, 8] -> [batch, 8, 10]
    const th::Tensor x = digit(digits) + place(th::arange(8));
    return head(attention(x).output);
  }
  void members(th::Members& m) override {
    m("digit", digit), m("place", place), m("attention", attention), m("head", head);
  }
};

int main() {
  th::manual_seed(1);
  Reverser model;
  th::Adam optimizer(model.parameters(), {.lr = 5e-3});
  for (int step = 1; step <= 500; ++step) {
    const th::Tensor digits = th::randint(0, 10, {64, 8});
    const th::Tensor loss = th::cross_entropy(model(digits), th::slice(digits, 1, {.step = -1}));
    loss.backward();
    optimizer.step();
    if (step % 100 == 0) fmt::print("step {:3}  loss {:.4f}\n", step, loss.item());
  }
  const th::Tensor digits = th::randint(0, 10, {1, 8});
  fmt::print("{} backwards is {}\n", digits, th::argmax(model(digits)));
}
