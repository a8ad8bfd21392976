// SPDX-License-Identifier: MIT
// Training gives the same bits again, on any number of threads.
#include <doctest/doctest.h>
#include <tapehead/tapehead.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "full.h"

using namespace tapehead;

namespace {

constexpr Index kWidth = 48, kTokens = 70, kTime = 40, kBatch = 6;

// Large enough that its operations are cut into several chunks.
struct Model : Module {
  Embedding token{kTokens, kWidth}, position{kTime, kWidth};
  LayerNorm norm1{kWidth}, norm2{kWidth};
  Linear query{kWidth, kWidth}, key{kWidth, kWidth}, value{kWidth, kWidth};
  Linear up{kWidth, 4 * kWidth}, down{4 * kWidth, kWidth}, head{kWidth, kTokens};
  Dropout dropout{0.1};

  Tensor operator()(const Tensor& ids) const {
    Tensor x = dropout(token(ids) + position(arange(kTime)));
    const Tensor normed = norm1(x);
    x = x + scaled_dot_product_attention(query(normed), key(normed), value(normed),
                                         {.mask = Mask::causal(), .heads = 4, .dropout = 0.1, .need_weights = false})
                .output;
    return head(x + dropout(down(gelu(up(norm2(x))))));
  }
  void members(Members& m) override {
    m("token", token), m("position", position), m("norm1", norm1), m("norm2", norm2), m("query", query), m("key", key);
    m("value", value), m("up", up), m("down", down), m("head", head), m("dropout", dropout);
  }
};

// FNV-1a (Fowler, Noll and Vo) over every bit.
class Digest {
 public:
  void add(const Tensor& x) {
    for (const float element : x.read<float>()) {
      std::uint32_t bits;
      std::memcpy(&bits, &element, sizeof bits);
      for (int byte = 0; byte < 4; ++byte) value_ = (value_ ^ (bits >> (8 * byte) & 0xFF)) * 0x100000001B3;
    }
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325;
};

// Starts from a seed alone. Losses of all steps and the parameters after each, which hold what the moments were.
std::uint64_t train(std::uint64_t seed) {
  manual_seed(seed);
  Model model;
  AdamW optimizer(model.parameters(), {.lr = 1e-2, .weight_decay = 1e-2});
  Digest digest;
  for (int step = 0; step < (full_run() ? 200 : 50); ++step) {
    const Tensor ids = randint(0, kTokens, {kBatch, kTime + 1});
    const Tensor loss = cross_entropy(model(slice(ids, 1, {.stop = kTime})), slice(ids, 1, {.start = 1}));
    loss.backward();
    clip_grad_norm(optimizer.parameters(), 1);
    optimizer.step();
    digest.add(loss);
    for (const NamedTensor& parameter : optimizer.parameters()) digest.add(parameter.tensor);
  }
  return digest.value();
}

}  // namespace

TEST_CASE("training with dropout: one digest for several runs on each number of threads") {
  const int before = num_threads();
  const std::uint64_t other = train(2);
  std::vector<std::uint64_t> digests;
  for (const int threads : full_run() ? std::vector{1, 2, 4} : std::vector{1, 2}) {
    set_num_threads(threads);
    for (int run = 0; run < (full_run() ? 20 : 3); ++run) digests.push_back(train(1));
  }
  set_num_threads(before);
  for (const std::uint64_t digest : digests) CHECK(digest == digests[0]);
  CHECK(digests[0] != other);
}
