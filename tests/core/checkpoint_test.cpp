// SPDX-License-Identifier: MIT
#include <cmath>

#include <doctest/doctest.h>

#include <tapehead/checkpoint.h>
#include <tapehead/error.h>
#include <tapehead/gradcheck.h>
#include <tapehead/ops.h>
#include <tapehead/random.h>
#include <tapehead/runtime.h>
#include <tapehead/tape.h>

using namespace tapehead;

namespace {

struct Block {
  Tensor weight, bias;
  Tensor operator()(const Tensor& x) const {
    const Tensor hidden = gelu(linear(tanh(linear(x, weight, bias)), weight, bias));
    return x + dropout(tanh(linear(hidden, weight, bias)), 0.25);
  }
};

std::vector<Block> make_blocks(int count, Index width) {
  Generator generator(3);
  std::vector<Block> out;
  for (int i = 0; i < count; ++i) {
    out.push_back({(0.3 * randn({width, width}, DType::f32, generator)).requires_grad_(),
                   randn({width}, DType::f32, generator).requires_grad_()});
  }
  return out;
}

Tensor run(const std::vector<Block>& blocks, Tensor x, bool with_checkpoints) {
  for (const Block& block : blocks) {
    x = with_checkpoints ? checkpoint([&](const std::vector<Tensor>& in) { return block(in[0]); }, {x}) : block(x);
  }
  return x;
}

std::vector<float> values(const Tensor& x) { return {x.read<float>().begin(), x.read<float>().end()}; }

}  // namespace

TEST_CASE("checkpoint gives the same result, gradients and random numbers, to the bit") {
  std::vector<std::vector<float>> results[2];
  std::uint64_t positions[2];
  for (const bool with : {false, true}) {
    manual_seed(7);
    const std::vector<Block> blocks = make_blocks(3, 16);
    Generator generator(4);
    const Tensor x = randn({5, 16}, DType::f32, generator).requires_grad_();
    const Tensor out = run(blocks, x, with);
    const Tensor loss = sum(out * out);
    rand({3});  // between the passes: what came after must not be drawn again
    loss.backward();
    auto& all = results[with];
    all = {values(out), values(x.grad()), values(rand({4}))};
    for (const Block& block : blocks)
      all.push_back(values(block.weight.grad())), all.push_back(values(block.bias.grad()));
    positions[with] = default_generator().position();
  }
  CHECK(results[0] == results[1]);
  CHECK(positions[0] == positions[1]);
}

TEST_CASE("checkpoint keeps inputs alone") {
  const std::vector<Block> blocks = make_blocks(8, 64);
  const Tensor x = ones({256, 64});
  const auto held = [&](bool with) {
    const std::size_t before = live_bytes();
    const Tensor out = run(blocks, x, with);
    return live_bytes() - before;
  };
  const std::size_t without = held(false), with = held(true);
  CAPTURE(without);
  CHECK(with < 8 * (256 * 64 * 4 * 5 / 4 + 4096));  // one input each; blocks of memory are at most a quarter too large
  CHECK(with * 4 < without);
  const std::int64_t nodes = live_nodes();
  {
    const Tensor out = run(blocks, x, true);
    CHECK(live_nodes() == nodes + 8);
    sum(out).backward();
  }
  CHECK(live_nodes() == nodes);
  for (const Block& block : blocks) Tensor(block.weight).zero_grad(), Tensor(block.bias).zero_grad();
}

TEST_CASE("checkpoint takes inputs of all kinds") {
  const Tensor table = ones({4, 3}, DType::f64).requires_grad_();
  const Tensor ids = arange(3), constant = full({3, 3}, 2, DType::f64);
  const auto function = [&](const std::vector<Tensor>& in) { return embedding(table, in[0]) * in[1] * in[1]; };
  sum(checkpoint(function, {ids, constant})).backward();
  CHECK(table.grad().at({2, 1}) == 4);
  CHECK(table.grad().at({3, 1}) == 0);
  CHECK_FALSE(checkpoint([](const std::vector<Tensor>& in) { return in[0] * 2.0; }, {constant}).requires_grad());
  {
    const NoGrad no_grad;
    CHECK_FALSE(checkpoint(function, {ids, constant}).requires_grad());
  }
  // several inputs, one twice, one that has no part in it
  const Tensor a = tensor({1.5}, DType::f64).requires_grad_(), b = tensor({-2}, DType::f64).requires_grad_();
  const Tensor c = a * 1.0;
  checkpoint([](const std::vector<Tensor>& in) { return in[0] * in[1] * in[2]; }, {c, b, c, b * 3.0})
      .backward({.gradient = ones({1}, DType::f64)});
  CHECK(a.grad().item() == 2 * 1.5 * -2);
  CHECK(b.grad().item() == 1.5 * 1.5);
}

TEST_CASE("gradients through nested checkpoints agree with finite differences") {
  const auto inner = [](const std::vector<Tensor>& in) { return tanh(in[0]) * in[0]; };
  const auto outer = [&](const std::vector<Tensor>& in) {
    return checkpoint(inner, {exp(checkpoint(inner, {in[0]}))});
  };
  const Tensor x = tensor({0.3, -0.7, 1.1}, DType::f64).requires_grad_();
  sum(checkpoint(outer, {x})).backward();
  for (Index i = 0; i < 3; ++i) {
    const auto value = [&](double h) {
      const double v = x.at({i}) + h, a = std::exp(std::tanh(v) * v);
      return std::tanh(a) * a;
    };
    CHECK(x.grad().at({i}) == doctest::Approx((value(1e-5) - value(-1e-5)) / 2e-5).epsilon(1e-8));
  }
}

TEST_CASE("checkpoint says what it cannot do") {
  const Tensor x = tensor({2}, DType::f64).requires_grad_();
  const auto square = [](const std::vector<Tensor>& in) { return in[0] * in[0]; };
  const Tensor y = checkpoint(square, {x});
  CHECK_THROWS_WITH_AS(grad(y, {x}, {.gradient = ones({1}, DType::f64), .create_graph = true}),
                       doctest::Contains("checkpoint: no second derivative"), GraphError);
  CHECK_THROWS_AS(checkpoint(nullptr, {x}), ValueError);
  Tensor edited = x * 1.0;
  const Tensor z = checkpoint(square, {edited});
  edited.write<double>()[0] = 7;
  CHECK_THROWS_WITH_AS(z.backward({.gradient = ones({1}, DType::f64)}), doctest::Contains("checkpoint: a value"),
                       GraphError);
  int calls = 0;
  const Tensor moody = checkpoint(
      [&](const std::vector<Tensor>& in) { return ++calls == 1 ? in[0] * 2.0 : ones({1}, DType::f64); }, {x});
  CHECK_THROWS_AS(moody.backward({.gradient = ones({1}, DType::f64)}), GraphError);
  CHECK_FALSE(x.grad().defined());
}
