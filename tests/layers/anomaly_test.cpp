// SPDX-License-Identifier: MIT
// Where in a model the first NaN or infinity arose.
#include <doctest/doctest.h>
#include <tapehead/tapehead.h>

#include <functional>
#include <limits>
#include <string>

using namespace tapehead;

namespace {

struct Block : Module {
  LayerNorm norm{8};
  SelfAttention attention{8, 8};
  Linear up{8, 8};
  Tensor operator()(const Tensor& x) const { return x + gelu(up(attention(norm(x)).output)); }
  void members(Members& m) override { m("norm", norm), m("attention", attention), m("up", up); }
};

struct Model : Module {
  std::vector<Block> blocks = std::vector<Block>(2);
  Tensor operator()(Tensor x) const {
    for (const Block& block : blocks) x = block(x);
    return x;
  }
  void members(Members& m) override { m("blocks", blocks); }
};

// What the guard says of a step of a model that was tampered with.
std::string report(const std::function<void(Model&)>& tamper, double loss_scale = 1) {
  Model model;
  (void)model.parameters();  // gives them their names
  Generator generator(1);
  const Tensor input = randn({4, 8}, DType::f32, generator);
  tamper(model);
  try {
    const DetectAnomaly guard;
    (sum(model(input)) * loss_scale).backward();
  } catch (const ValueError& error) {
    return error.what();
  }
  return "";
}

void check_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

}  // namespace

TEST_CASE("anomaly: a model's first infinity is named with operation, place, path, shape, index and ranges") {
  CHECK(report([](Model&) {}).empty());
  const float infinity = std::numeric_limits<float>::infinity();
  check_parts(report([&](Model& model) { model.blocks[1].up.bias.write<float>()[3] = infinity; }),
              {"linear: result [4, 8] f32: 4 of 32 elements not finite, the first inf at [0, 3]; operation #",
               "on the tape, with \"blocks.1.up.weight\", \"blocks.1.up.bias\"; input 0 [4, 8] ", "; input 2 [8] ",
               " and 1 not finite; it came in with input 2"});
  // Attention has no parameters of its own.
  const std::string inside = report([](Model& model) {
    for (float& value : model.blocks[0].attention.W_q.write<float>()) value *= 1e30f;
    for (float& value : model.blocks[0].attention.W_k.write<float>()) value *= 1e30f;
  });
  check_parts(inside, {"attention_weights: result [4, 4] f32: ",
                       " elements not finite, the first nan at [0, 0]; operation #", " on the tape, after \"matmul\" #",
                       " with \"blocks.0.attention.W_q\"; input 0 [4, 8] -", "e+2", "; it arose here"});
  check_parts(report([](Model&) {}, 2e38),
              {"linear: backward gives input ", " f32: ", " elements not finite, the first inf at [", "]; operation #",
               " on the tape, with \"blocks.1.up.weight\", \"blocks.1.up.bias\"; gradient [4, 8] ", "; it arose here"});
}
