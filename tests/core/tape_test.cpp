// SPDX-License-Identifier: MIT
#include <pthread.h>

#include <cmath>
#include <functional>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/optim.h>
#include <tapehead/runtime.h>
#include <tapehead/tape.h>

using namespace tapehead;

namespace {

Tensor leaf(Tensor x) { return x.requires_grad_(); }

std::vector<double> elements(const Tensor& x) { return {x.read<double>().begin(), x.read<double>().end()}; }

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const GraphError& error) {
    return error.what();
  }
  return "no GraphError was thrown";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The identity, whose rule calls `on_backward` first.
Tensor probe(const Tensor& x, const std::function<void()>* on_backward) {
  return record("probe", clone(x.detach()), {&x}, {}, [on_backward](Backward& back) {
    (*on_backward)();
    back.to(0, back.gradient());
  });
}

// Every test leaves as many nodes as it found.
struct NodesStay {
  std::int64_t before = live_nodes();
  ~NodesStay() { CHECK(live_nodes() == before); }
};

void run_with_stack(std::size_t bytes, std::function<void()> body) {
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&attributes, bytes) == 0);
  pthread_t thread;
  const auto start = [](void* context) -> void* {
    (*static_cast<std::function<void()>*>(context))();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, start, &body) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

}  // namespace

TEST_CASE("a second playback is refused, naming the operation, unless the first retained") {
  const NodesStay nodes;
  const Tensor x = leaf(tensor({2, 3}, DType::f64));
  const Tensor y = sum(exp(x));
  y.backward();
  CHECK(message_of([&] { y.backward(); }) ==
        "backward: the values that \"sum\" saved are gone, this tape was played before; pass .retain = true to the "
        "first playback");
  CHECK(contains(message_of([&] { grad(y, {x}); }), "grad: the values that \"sum\""));
  CHECK(x.grad().at({0}) == doctest::Approx(std::exp(2.0)));

  const Tensor z = sum(x * x);
  z.backward({.retain = true});
  z.backward({.retain = true});
  z.backward();
  CHECK(x.grad().at({1}) == doctest::Approx(std::exp(3.0) + 3 * 2 * 3));
  CHECK_THROWS_AS(z.backward(), GraphError);
}

TEST_CASE("derivatives of derivatives") {
  const NodesStay nodes;
  const Tensor x = leaf(tensor(1.5, DType::f64));
  const Tensor y = x * x * x;
  const Tensor first = grad(y, {x}, {.create_graph = true})[0];
  const Tensor second = grad(first, {x}, {.create_graph = true})[0];
  const Tensor third = grad(second, {x})[0];
  CHECK(first.item() == 3 * 1.5 * 1.5);
  CHECK(second.item() == 6 * 1.5);
  CHECK(third.item() == 6);
  CHECK_FALSE(third.requires_grad());
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("backward with create_graph leaves gradients that can be played") {
  Tensor x = leaf(tensor(2.0, DType::f64));
  (x * x * x).backward({.create_graph = true});
  const Tensor slope = x.grad();
  CHECK(slope.requires_grad());
  x.zero_grad();
  slope.backward();
  CHECK(x.grad().item() == 12);
}

TEST_CASE("an edit of a saved value is noticed and its author named") {
  const NodesStay nodes;
  Tensor x = leaf(tensor({1, 2}, DType::f64));
  x.set_name("layer.weight");
  const Tensor y = sum(x * x);
  x.write<double>()[0] = 5;
  const std::string text = message_of([&] { y.backward(); });
  CHECK(contains(text, "multiply: a value \"layer.weight\" [2] that its gradient needs was changed by write()"));
  CHECK_FALSE(x.grad().defined());

  Tensor result = exp(x);  // saves its own result
  const Tensor after = sum(result);
  result.write<double>()[1] = 0;
  CHECK(contains(message_of([&] { after.backward(); }), "exp: a value [2]"));

  Tensor free_to_change = leaf(tensor({1, 2}, DType::f64));
  const Tensor total = sum(free_to_change + 1.0);  // saves nothing
  free_to_change.write<double>()[0] = 7;
  total.backward();
  CHECK(elements(free_to_change.grad()) == std::vector<double>{1, 1});
}

TEST_CASE("a reshaped or detached twin shares the edit") {
  Tensor x = leaf(tensor({1, 2}, DType::f64));
  const Tensor y = sum(x * x);
  x.detach().write<double>()[0] = 5;
  CHECK_THROWS_AS(y.backward(), GraphError);
}

TEST_CASE("backward asks for a scalar or a gradient that fits") {
  const NodesStay nodes;
  const Tensor x = leaf(tensor({1, 2}, DType::f64));
  const Tensor y = x * 3.0;
  CHECK(contains(message_of([&] { y.backward(); }), "backward: the output is [2], not a scalar"));
  CHECK_THROWS_AS(y.backward({.gradient = ones({3}, DType::f64)}), ShapeError);
  CHECK_THROWS_AS(y.backward({.gradient = ones({2})}), DTypeError);
  CHECK_FALSE(x.grad().defined());
  y.backward({.gradient = tensor({10, 100}, DType::f64)});
  CHECK(elements(x.grad()) == std::vector<double>{30, 300});

  CHECK(contains(message_of([] { ones({1}).backward(); }), "needs no gradient"));
  const NoGrad off;
  CHECK_FALSE(is_recording());
  const Tensor unrecorded = x * 2.0;
  CHECK_FALSE(unrecorded.requires_grad());
  CHECK_THROWS_AS(unrecorded.backward(), GraphError);
}

TEST_CASE("NoGrad scopes nest and end, also by an exception") {
  CHECK(is_recording());
  try {
    const NoGrad outer;
    {
      const NoGrad inner;
      CHECK_FALSE(is_recording());
    }
    CHECK_FALSE(is_recording());
    throw ValueError("test");
  } catch (const ValueError&) {
  }
  CHECK(is_recording());
}

TEST_CASE("grad() gives gradients of leaves and intermediates and touches nobody's grad()") {
  const NodesStay nodes;
  const Tensor x = leaf(tensor({1, 2}, DType::f64));
  const Tensor w = leaf(tensor({3, 4}, DType::f64));
  const Tensor h = x * w;
  const Tensor y = sum(h * h);
  const std::vector<Tensor> gradients = grad(y, {h, x, w, h, y}, {.retain = true});
  CHECK(elements(gradients[0]) == std::vector<double>{6, 16});
  CHECK(elements(gradients[1]) == std::vector<double>{18, 64});
  CHECK(elements(gradients[2]) == std::vector<double>{6, 32});
  CHECK(elements(gradients[3]) == elements(gradients[0]));
  CHECK(gradients[4].item() == 1);
  CHECK(elements(grad(y, {h})[0]) == std::vector<double>{6, 16});
  CHECK_FALSE(x.grad().defined());
  CHECK_FALSE(w.grad().defined());

  const Tensor unused = leaf(ones({5}, DType::f64));
  const Tensor again = sum(x * w);
  CHECK(message_of([&] { grad(again, {x, unused}); }) == "grad: the output does not depend on input 1 [5]");
  CHECK(contains(message_of([&] { grad(again, {ones({1})}); }), "input 0 [1] does not ask for a gradient"));
}

TEST_CASE("only leaves can ask for gradients, and only floating ones") {
  Tensor y = leaf(ones({2})) * 2.0;
  CHECK_THROWS_AS(y.requires_grad_(), GraphError);
  CHECK_THROWS_AS(arange(3).requires_grad_(), DTypeError);
  CHECK(y.detach().is_leaf());
  CHECK_FALSE(y.detach().requires_grad());
}

TEST_CASE("a million operations are recorded, played and released in a small stack") {
  const NodesStay nodes;
  double gradient = 0;
  bool released = true;
  run_with_stack(256 << 10, [&] {
    const Tensor x = leaf(tensor(1.0, DType::f64));
    {
      Tensor y = x;
      for (int i = 0; i < 1000000; ++i) y = y + 1.0;
      y.backward();
    }
    gradient = x.grad().item();
    {
      Tensor never_played = x;
      for (int i = 0; i < 1000000; ++i) never_played = tanh(never_played);
    }
    {
      Tensor retained = x;
      for (int i = 0; i < 100000; ++i) retained = retained * 1.0;
      retained.backward({.retain = true});
      const Tensor twice = grad(retained, {x}, {.create_graph = true})[0];
      released = twice.item() == 1;
    }
  });
  CHECK(gradient == 1);
  CHECK(released);
}

TEST_CASE("an evaluation loop without NoGrad does not grow") {
  const Tensor w = leaf(ones({8, 8}));
  Tensor x = ones({4, 8});
  std::int64_t nodes = 0;
  std::size_t bytes = 0;
  for (int step = 0; step < 20; ++step) {
    const Tensor y = softmax(matmul(x, w));
    if (step == 2) nodes = live_nodes(), bytes = live_bytes();
    if (step > 2) {
      CHECK(live_nodes() == nodes);
      CHECK(live_bytes() == bytes);
    }
  }
}

TEST_CASE("playing back frees what it has passed") {
  const std::size_t block = std::size_t{1} << 20;
  const Index n = static_cast<Index>(block) / 8;
  const Tensor x = leaf(zeros({n}, DType::f64));
  const std::size_t start = live_bytes();
  std::vector<std::size_t> seen;
  const std::function<void()> look = [&] { seen.push_back(live_bytes()); };
  Tensor y = x;
  for (int i = 0; i < 16; ++i) y = probe(tanh(y), &look);
  const std::size_t recorded = live_bytes();
  CHECK(recorded >= start + 16 * block);
  y.backward({.gradient = ones({n}, DType::f64)});
  REQUIRE(seen.size() == 16);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    CAPTURE(i);
    CHECK(seen[i] <= recorded + 3 * block - i * block);
  }
}

TEST_CASE("a rule may play another tape, but not the one that is being played") {
  const NodesStay nodes;
  const Tensor x = leaf(tensor(0.5, DType::f64));
  const Tensor other = leaf(tensor(3.0, DType::f64));
  const Tensor side = other * other;
  double inner = 0;
  const std::function<void()> nested = [&] { inner = grad(side, {other})[0].item(); };
  probe(x * x, &nested).backward();
  CHECK(inner == 6);
  CHECK(x.grad().item() == 1);

  const Tensor shared = exp(x);
  const Tensor rival = shared * 2.0;
  bool interfere = true;
  const std::function<void()> same = [&] {
    if (interfere) rival.backward({.retain = true});
  };
  const Tensor y = probe(shared * 1.0, &same) + shared;
  CHECK(contains(message_of([&] { y.backward({.retain = true}); }), "\"exp\" is in the middle of another playback"));
  CHECK(x.grad().item() == 1);
  interfere = false;
  y.backward();
  CHECK(x.grad().item() == doctest::Approx(1 + 2 * std::exp(0.5)).epsilon(1e-15));
}

TEST_CASE("an exception in a rule leaves gradients as they were") {
  const NodesStay nodes;
  const Tensor x = leaf(tensor(0.5, DType::f64));
  const Tensor w = leaf(tensor(4.0, DType::f64));
  (w * 10.0).backward();
  bool fail = true;
  const std::function<void()> rule = [&] {
    if (fail) throw ValueError("test: no");
  };
  const Tensor y = probe(exp(x), &rule) * w + exp(x);  // w's gradient arrives before the probe is played
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_AS(y.backward({.retain = true}), ValueError);
    CHECK(is_recording());
    CHECK_FALSE(x.grad().defined());
    CHECK(w.grad().item() == 10);
  }
  CHECK_THROWS_AS(grad(y, {x}, {.retain = true}), ValueError);
  fail = false;
  y.backward();
  CHECK(x.grad().item() == doctest::Approx(5 * std::exp(0.5)).epsilon(1e-15));
  CHECK(w.grad().item() == doctest::Approx(10 + std::exp(0.5)).epsilon(1e-15));
}

TEST_CASE("no two leaves share a gradient's memory") {
  for (const bool create_graph : {false, true}) {
    CAPTURE(create_graph);
    const Tensor a = leaf(ones({3}, DType::f64));
    const Tensor b = leaf(ones({3}, DType::f64));
    const Tensor upstream = ones({3}, DType::f64);
    (a + b).backward({.gradient = upstream, .create_graph = create_graph});
    CHECK(a.grad().read<double>().data() != b.grad().read<double>().data());
    CHECK(a.grad().read<double>().data() != upstream.read<double>().data());
    clip_grad_norm({{"a", a}, {"b", b}}, 1);
    CHECK(a.grad().at({0}) == doctest::Approx(1 / std::sqrt(6.0)).epsilon(1e-5));
    CHECK(upstream.at({0}) == 1);
  }
  const Tensor c = leaf(ones({3}, DType::f64));
  const Tensor upstream = ones({3}, DType::f64);
  c.backward({.gradient = upstream});
  c.backward({.gradient = upstream});
  CHECK(upstream.at({0}) == 1);
  CHECK(c.grad().at({0}) == 2);
}

TEST_CASE("the tape lists operations in order with their inputs and bytes") {
  Tensor w = leaf(ones({2, 3}));
  w.set_name("w");
  const Tensor x = leaf(ones({2, 3}));
  const Tensor h = w * x;
  const Tensor y = sum(exp(h) + 1.0);
  const std::vector<TapeEntry> entries = tape(y);
  REQUIRE(entries.size() == 4);
  CHECK(entries[0].op == "multiply");
  CHECK(entries[0].inputs == std::vector<std::string>{"w", "leaf"});
  CHECK(entries[0].saved_bytes == 2 * 24);
  CHECK(entries[0].shape == Shape{2, 3});
  CHECK(entries[0].dtype == DType::f32);
  CHECK(entries[1].op == "exp");
  CHECK(entries[1].saved_bytes == 24);
  CHECK(entries[1].inputs == std::vector<std::string>{fmt::format("#{}", entries[0].number)});
  CHECK(entries[2].op == "add");
  CHECK(entries[2].saved_bytes == 0);
  CHECK(entries[3].op == "sum");
  for (std::size_t i = 1; i < 4; ++i) CHECK(entries[i - 1].number < entries[i].number);
  const std::string table = tape_table(y);
  for (const char* part :
       {"multiply", "exp", "add", "sum", "[2, 3]", "f32", "w leaf", "4 operations, 72 bytes saved"}) {
    CHECK_MESSAGE(contains(table, part), part, " is missing in\n", table);
  }
  CHECK(tape(x).empty());
  y.backward();
  CHECK(tape(y).size() == 1);
  CHECK(tape(y)[0].inputs == std::vector<std::string>{"(played)"});
}

TEST_CASE("gradients from several uses add up, wherever they meet") {
  const Tensor x = leaf(tensor({2, -1}, DType::f64));
  const Tensor h = x * x;
  sum(h * h + h + x + x).backward();  // x^4 + x^2 + 2x
  CHECK(elements(x.grad()) == std::vector<double>{4 * 8 + 4 + 2, -4 - 2 + 2});
}

TEST_CASE("gradients pass between f32 and f64") {
  const Tensor x = leaf(tensor({1, 2}));
  const Tensor w = leaf(tensor({3, 4}, DType::f64));
  sum(to(x, DType::f64) * w).backward();
  CHECK(x.grad().dtype() == DType::f32);
  CHECK(x.grad().at({1}) == 4);
  CHECK(w.grad().at({1}) == 2);
}
