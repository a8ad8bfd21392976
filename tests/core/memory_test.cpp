// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <thread>

#include <doctest/doctest.h>

#include <tapehead/attention.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/optim.h>
#include <tapehead/runtime.h>
#include <tapehead/tape.h>

#include "full.h"

using namespace tapehead;

namespace {

Tensor leaf(Tensor x) { return x.requires_grad_(); }

Tensor waves(const Shape& shape, double phase) {
  Tensor out = empty(shape);
  for (float& value : out.write<float>()) value = static_cast<float>(0.3 * std::sin(phase += 1.7));
  return out;
}

// Of this process, by Linux. A sanitizer keeps what was freed, so that its figure says nothing.
std::size_t resident_bytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 0;
#else
  std::size_t whole = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> whole >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
#endif
}

}  // namespace

TEST_CASE("elements start on a cache line, whatever their number") {
  for (const Index n : {0, 1, 3, 16, 17, 1000, 100003, 1 << 20}) {
    CAPTURE(n);
    const Tensor x = empty({n});
    CHECK(reinterpret_cast<std::uintptr_t>(x.read<float>().data()) % 64 == 0);
    CHECK(x.read<float>().size() == static_cast<std::size_t>(n));
  }
}

#if !defined(__SANITIZE_ADDRESS__)  // which has to see every free
TEST_CASE("a freed block is the next of its size") {
  for (const Index n : {40, 5000, 1 << 20}) {
    CAPTURE(n);
    const float* first = empty({n}).read<float>().data();
    CHECK(empty({n}).read<float>().data() == first);
    const Tensor held = empty({n});
    CHECK(empty({n}).read<float>().data() != held.read<float>().data());
  }
}
#endif

#ifdef TAPEHEAD_POOL_FILLS
TEST_CASE("with sanitizers new memory is no number, no index and no bool") {
  for (const Index n : {1, 40, 5000, 1 << 20}) {
    CAPTURE(n);
    zeros({n}, DType::f64);  // dirties what may come back
    const Tensor wide = empty({n}, DType::f64), narrow = empty({n}), index = empty({n}, DType::i64);
    CHECK(std::ranges::all_of(wide.read<double>(), [](double value) { return std::isnan(value); }));
    CHECK(std::ranges::all_of(narrow.read<float>(), [](float value) { return std::isnan(value); }));
    CHECK(std::ranges::all_of(index.read<Index>(), [](Index value) { return value > Index{1} << 62; }));
  }
}
#endif

TEST_CASE("live_bytes counts what is held, not what is kept for reuse") {
  const std::size_t before = live_bytes();
  {
    const Tensor x = empty({1 << 20});
    CHECK(live_bytes() >= before + (4u << 20));
    CHECK(live_bytes() <= before + (5u << 20) + 4096);  // a block is at most a quarter too large
    const Tensor same = x;
    const Tensor twin = x.detach();
    CHECK(live_bytes() <= before + (5u << 20) + 4096);
  }
  CHECK(live_bytes() == before);
  release_cached_memory();
  CHECK(live_bytes() == before);
  const Tensor after = ones({1 << 20});
  CHECK(after.at({-1}) == 1);
}

TEST_CASE("memory that does not exist is refused before anything changes") {
  const std::size_t before = live_bytes();
  CHECK_THROWS_AS(empty({Index{1} << 45}), ValueError);
  CHECK_THROWS_AS(empty({Index{1} << 31, Index{1} << 31, Index{1} << 31}), ValueError);
  CHECK_THROWS_AS(Shape({-1}), ShapeError);
  CHECK_THROWS_AS(Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}), ShapeError);
  CHECK(live_bytes() == before);
  CHECK(empty({Index{1} << 40, 0}).numel() == 0);
}

TEST_CASE("tensors may be made in one thread and freed in another, and outlive their thread") {
  const std::size_t before = live_bytes();
  for (int round = 0; round < 50; ++round) {
    std::vector<Tensor> made;
    std::thread([&] {
      for (int i = 0; i < 20; ++i) made.push_back(full({1000}, i));
    }).join();
    for (int i = 0; i < 20; ++i) CHECK(made[static_cast<std::size_t>(i)].at({999}) == i);
  }
  CHECK(live_bytes() == before);
}

TEST_CASE("three thousand steps, or in a full run a hundred thousand, leave memory where it was") {
  const Tensor w1 = leaf(waves({16, 8}, 0));
  const Tensor b1 = leaf(zeros({16}));
  const Tensor w2 = leaf(waves({3, 16}, 1));
  const Tensor x = waves({5, 8}, 2);
  const Index target_values[] = {0, 1, 2, 1, 0};
  const Tensor targets = from_data(std::span<const Index>(target_values), {5});
  AdamW adam({{"w1", w1}, {"b1", b1}, {"w2", w2}});
  std::int64_t nodes = 0;
  std::size_t bytes = 0;
  double first = 0;
  double last = 0;
  const int steps = full_run() ? 100000 : 3000;
  std::size_t resident = 0;
  for (int step = 0; step < steps; ++step) {
    const Tensor hidden = gelu(linear(layer_norm(x), w1, b1));
    const Tensor seen = scaled_dot_product_attention(hidden, hidden, hidden, {.mask = Mask::causal()}).output;
    const Tensor loss = cross_entropy(linear(softmax(hidden + seen), w2), targets);
    if (step % 100 == 99) {  // a step that fails half way
      CHECK_THROWS_AS(matmul(hidden, w2), ShapeError);
      CHECK_THROWS_AS(hidden.backward(), GraphError);
    }
    loss.backward();
    clip_grad_norm(adam.parameters(), 1);
    adam.step();
    last = loss.item();
    if (step == 0) {
      nodes = live_nodes();
      bytes = live_bytes();
      first = last;
    } else {
      REQUIRE(live_nodes() == nodes);
      REQUIRE(live_bytes() == bytes);
    }
    if (step == 999) resident = resident_bytes();
  }
  CHECK(resident_bytes() <= resident + (full_run() ? 1 << 20 : 1 << 18));
  CHECK(last < first);
}
