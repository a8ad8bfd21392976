// SPDX-License-Identifier: MIT
// Lesson 4: linear regression. Data, a layer, a loss, an optimizer: the loop that every training has.
#include <fmt/core.h>
#include <tapehead/tapehead.h>

namespace th = tapehead;
using th::Tensor;

namespace {

// y = 3 a - 2 b + 0.5 and some noise.
struct Data {
  Tensor x;  // [count, 2]
  Tensor y;  // [count, 1]
};

Data measure(th::Index count, th::Generator& generator) {
  const Tensor x = th::randn({count, 2}, th::DType::f32, generator);
  const Tensor noise = th::randn({count, 1}, th::DType::f32, generator) * 0.1;
  return {x, th::linear(x, th::tensor({{3, -2}})) + 0.5 + noise};
}

double error_on(const th::Linear& model, const Data& data) {
  const th::NoGrad off;
  return th::mse_loss(model(data.x), data.y).item();
}

}  // namespace

int main() {
  th::Generator generator(1);
  const Data train = measure(256, generator), validation = measure(1000, generator);

  th::Linear model(2, 1, {}, generator);
  th::SGD optimizer(model.parameters(), {.lr = 0.1});
  fmt::print("{} parameters, noise of variance 0.01 that no model can explain\n\n", model.parameter_count());

  th::Linear best = model;  // a copy has weights of its own: this is a snapshot
  double lowest = error_on(model, validation);
  fmt::print(" step   train loss   validation loss\n");
  for (int step = 0; step <= 50; ++step) {
    const Tensor loss = th::mse_loss(model(train.x), train.y);
    if (step % 10 == 0) fmt::print("{:5}   {:10.6f}   {:15.6f}\n", step, loss.item(), error_on(model, validation));
    loss.backward();
    optimizer.step();  // uses the gradients up
    if (const double error = error_on(model, validation); error < lowest) {
      lowest = error;
      best = model;  // writes the values into the snapshot
    }
  }

  fmt::print("\nbest validation loss {:.6f}\n\n", lowest);
  for (const th::NamedTensor& parameter : best.parameters()) {
    fmt::print("{:<7}{}\n", parameter.name, parameter.tensor);
  }
  fmt::print("truth  [[ 3. -2.]]\n       [0.5]\n");
}
