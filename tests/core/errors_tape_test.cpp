// SPDX-License-Identifier: MIT
// Bad calls that concern the tape: values changed too early, playbacks inside playbacks and from other threads.
#include <exception>
#include <thread>

#include <tapehead/detail/blas.h>

#include "core/bad_calls.h"

using namespace bad_calls;

namespace {

// Passes x through; while its rule is played back, `during` happens.
Tensor probe(const Tensor& x, std::function<void()> during) {
  Tensor y;
  {
    const NoGrad no_grad;
    y = x * 1.0;
  }
  return record("probe", y, {&x}, {}, [during = std::move(during)](Backward& back) {
    during();
    back.to(0, back.gradient());
  });
}

// The exception of another thread, thrown in this one.
void in_thread(const std::function<void()>& call) {
  std::exception_ptr thrown;
  std::thread other([&] {
    try {
      call();
    } catch (...) {
      thrown = std::current_exception();
    }
  });
  other.join();
  if (thrown) std::rethrow_exception(thrown);
}

// Plays a tape in whose middle `rival`, which shares a tanh with it, is to be played as well.
void play_both(const Model& m, const std::function<void(const Tensor& rival)>& play) {
  const Tensor shared = tanh(linear(m.x, m.w1));
  const Tensor rival = sum(exp(shared));
  const Tensor probed = sum(probe(shared, [&] { play(rival); }));
  const Tensor direct = sum(shared);  // recorded last, so played first: the tanh waits while the probe runs
  (probed + direct).backward({.retain = true});
}

}  // namespace

TEST_CASE("bad calls: values changed before their gradients were asked for") {
  check_all({
      {28,
       Kind::graph,
       {"exp", "[5, 6]", "write()", "version"},
       [](Model& m) {
         Tensor hidden = exp(linear(m.x, m.w1));
         const Tensor loss = sum(hidden);
         hidden.write<float>()[3] = 0;
         loss.backward();
       }},
      {29,
       Kind::graph,
       {"linear", "\"fc.weight\"", "[6, 4]", "write()", "version"},
       [](Model& m) {
         Tensor weight = clone(m.w1.detach()).requires_grad_();
         weight.set_name("fc.weight");
         const Tensor loss = sum(linear(m.x.detach().requires_grad_(), weight));
         weight.write<float>()[0] = 1;
         loss.backward();
       }},
      {29,
       Kind::graph,
       {"multiply", "\"gate\"", "[6]", "write()"},
       [](Model& m) {
         Tensor gate = ones({6}).requires_grad_();
         gate.set_name("gate");
         const Tensor loss = sum(linear(m.x, m.w1) * gate);
         gate.write<float>()[5] = 2;
         grad(loss, {m.w1});
       }},
      {30,
       Kind::graph,
       {"multiply", "[2, 3]", "write()"},
       [](Model&) {
         Tensor x = ones({2, 3}).requires_grad_();
         const Tensor loss = sum(x * x);
         Tensor flat = reshape(x.detach(), {6});  // the same memory
         flat.write<float>()[0] = 2;
         loss.backward();
       }},
      {30,
       Kind::graph,
       {"log", "[6]", "write()"},
       [](Model&) {
         Tensor x = ones({2, 3}).requires_grad_();
         const Tensor loss = sum(log(reshape(x, {6})));
         x.detach().write<float>()[0] = 2;
         loss.backward();
       }},
      {30,
       Kind::graph,
       {"multiply", "[1, 3]", "write()"},
       [](Model&) {
         Tensor x = ones({3}).requires_grad_();
         const Tensor loss = sum(unsqueeze(x, 0) * ones({4, 3}).requires_grad_());
         squeeze(unsqueeze(x.detach(), 0), 0).write<float>()[0] = 2;
         loss.backward();
       }},
  });
}

TEST_CASE("bad calls: a tape that is already being played") {
  const std::vector<std::string> backward_text = {"backward", "\"tanh\"", "in the middle of another playback"};
  const std::vector<std::string> grad_text = {"grad", "\"tanh\"", "in the middle of another playback"};
  const auto backward = [](const Tensor& rival) { rival.backward(); };
  const auto retained = [](const Tensor& rival) { rival.backward({.retain = true}); };
  check_all({
      {31, Kind::graph, backward_text,
       [=](Model& m) { play_both(m, [&](auto& y) { in_thread([&] { backward(y); }); }); }},
      {31, Kind::graph, backward_text,
       [=](Model& m) { play_both(m, [&](auto& y) { in_thread([&] { retained(y); }); }); }},
      {31, Kind::graph, grad_text,
       [](Model& m) { play_both(m, [&](auto& y) { in_thread([&] { grad(y, {m.w1}); }); }); }},
      {33, Kind::graph, backward_text, [=](Model& m) { play_both(m, backward); }},
      {33, Kind::graph, grad_text, [](Model& m) { play_both(m, [&](auto& y) { grad(y, {m.w1}); }); }},
      {33,
       Kind::graph,
       {"tanh", "[5, 6]", "write()", "version"},
       [](Model& m) {
         Tensor hidden = tanh(linear(m.x, m.w1));
         sum(probe(hidden, [&] { hidden.write<float>()[0] = 2; })).backward();
       }},
  });
}

TEST_CASE("bad calls: questions for gradients that nobody kept") {
  check_all({
      {24, Kind::graph, {"grad", "[6, 4]", "scalar"}, [](Model& m) { grad(m.w1 * 2.0, {m.w1}); }},
      {24, Kind::graph, {"backward", "[24]", "scalar"}, [](Model& m) { reshape(m.w1 * 2.0, {-1}).backward(); }},
      {26,
       Kind::graph,
       {"grad", "\"sum\"", ".retain"},
       [](Model& m) {
         const Tensor loss = sum(m.w1 * m.w1);
         grad(loss, {m.w1});
         grad(loss, {m.w1});
       }},
      {32,
       Kind::graph,
       {"backward", "needs no gradient"},
       [](Model& m) {
         sum(grad(sum(exp(m.w1)), {m.w1})[0]).backward();  // without .create_graph there is no tape behind it
       }},
      {32,
       Kind::graph,
       {"grad", "needs no gradient"},
       [](Model& m) {
         const Tensor slope = grad(sum(m.w1 * 2.0), {m.w1}, {.create_graph = true})[0];
         grad(sum(slope), {m.w1});  // a constant slope
       }},
      {32,
       Kind::graph,
       {"grad", "does not depend on input 0"},
       [](Model& m) {
         const Tensor slope = grad(sum(m.w1 * m.w1), {m.w1}, {.create_graph = true})[0];
         grad(sum(slope), {m.b1});
       }},
      {34, Kind::state, {"tensor", "empty"}, [](Model& m) { m.w1.grad().item(); }},
      {34, Kind::state, {"tensor", "empty"}, [](Model& m) { m.b1 + m.b1.grad(); }},
      {35,
       Kind::state,
       {"SGD.step", "\"w\""},
       [](Model& m) {
         SGD({{"w", m.w1}}).step();
       }},
      {35,
       Kind::state,
       {"Lion.step", "\"one\"", "\"three\""},
       [](Model& m) {
         const Tensor two = ones({2}).requires_grad_();
         Lion lion({{"one", m.w1}, {"two", two}, {"three", m.w2}});
         sum(two).backward();
         lion.step();
       }},
      {36,
       Kind::state,
       {"Adam.step", "\"w\"", "[4]", "[2, 2]"},
       [](Model&) {
         const Tensor w = ones({4}).requires_grad_();
         Adam adam({{"w", w}});
         w.body().shape = Shape{2, 2};
         w.backward({.gradient = ones({2, 2})});
         adam.step();
       }},
      {36,
       Kind::state,
       {"RMSprop.step", "\"w\"", "[4]", "[1, 4]"},
       [](Model&) {
         const Tensor w = ones({4}).requires_grad_();
         RMSprop rms({{"w", w}});
         w.backward({.gradient = ones({4})});
         w.body().shape = Shape{1, 4};
         rms.step();
       }},
  });
}

TEST_CASE("bad calls: an axis longer than BLAS can count") {
  constexpr Index kLong = Index{1} << 31;
  const auto multiply = [](Index m, Index n, Index k) {
    return [=](Model&) {
      float nothing[1] = {};  // refused before a single element is read
      detail::blas_tile<float>(m, n, k, 1, {nothing, k}, {nothing, n}, 0, nothing, n);
    };
  };
  const std::vector<std::string> text = {"matmul", "2147483648", "2147483647"};
  check_all({
      {40, Kind::value, text, multiply(kLong, 1, 1)},
      {40, Kind::value, text, multiply(1, kLong, 1)},
      {40, Kind::value, text, multiply(1, 1, kLong)},
  });
}
