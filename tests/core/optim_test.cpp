// SPDX-License-Identifier: MIT
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include <doctest/doctest.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/optim.h>
#include <tapehead/runtime.h>
#include <tapehead/tape.h>

using namespace tapehead;

namespace {

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(std::vector<NamedTensor>)>;

template <class Kind, class Options>
MakeOptimizer maker(Options options) {
  return
      [options](std::vector<NamedTensor> parameters) { return std::make_unique<Kind>(std::move(parameters), options); };
}

Tensor leaf(Tensor x) { return x.requires_grad_(); }

// Six steps on sum(w^3) / 3 - 0.25 t sum(w) + sum(b^2) + 0.5 t sum(b) for t = 0, ..., 5; w then b.
std::vector<double> train(const MakeOptimizer& make, DType dtype) {
  const Tensor w = leaf(tensor({{0.5, -1.25, 2.0}, {0.03125, -0.75, 1.5}}, dtype));
  const Tensor b = leaf(tensor({0.25, -0.5}, dtype));
  const std::unique_ptr<Optimizer> optimizer = make({{"w", w}, {"b", b}});
  for (int t = 0; t < 6; ++t) {
    (w * w * w / 3.0 - 0.25 * t * w).backward({.gradient = ones(w.shape(), dtype)});
    (b * b + 0.5 * t * b).backward({.gradient = ones(b.shape(), dtype)});
    optimizer->step();
    CHECK_FALSE(w.grad().defined());
  }
  std::vector<double> out;
  for (const Tensor& x : {to(w, DType::f64), to(b, DType::f64)}) {
    out.insert(out.end(), x.read<double>().begin(), x.read<double>().end());
  }
  return out;
}

void check_training(const MakeOptimizer& make, const std::vector<double>& expected) {
  const std::vector<double> f64 = train(make, DType::f64);
  const std::vector<double> f32 = train(make, DType::f32);
  REQUIRE(f64.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(f64[i] - expected[i]) <= 1e-13 * std::abs(expected[i]));
    CHECK(std::abs(f32[i] - expected[i]) <= 2e-6 * std::abs(expected[i]));
  }
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

// The figures were printed by PyTorch 2.15 (torch.optim, float64, repr) after the same six steps.
TEST_CASE("optimizers follow PyTorch's updates") {
  SUBCASE("SGD") {
    check_training(maker<SGD>(SGDOptions{.lr = 0.01}),
                   {0.5223718383900494, -1.311121048082312, 1.8177075882223375, 0.0686511925019044, -0.7467855933590664,
                    1.4105938177028274, 0.14843083441600002, -0.515950951232});
  }
  SUBCASE("SGD with momentum, dampening and decay") {
    check_training(maker<SGD>(SGDOptions{.lr = 0.01, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.05}),
                   {0.5262934619363463, -1.4436733412926432, 1.4662686951554338, 0.10202376832963402,
                    -0.7678397276865374, 1.2177572100097926, 0.03206877756822196, -0.4796697347274153});
  }
  SUBCASE("SGD with Nesterov's momentum") {
    check_training(maker<SGD>(SGDOptions{.lr = 0.01, .momentum = 0.9, .nesterov = true}),
                   {0.5536674244341044, -1.5302281700854012, 1.3778223700141867, 0.13955005380683963,
                    -0.7712106340366546, 1.1759535203358285, -0.05469768821161392, -0.5084269631519481});
  }
  SUBCASE("Adam") {
    check_training(maker<Adam>(AdamOptions{.lr = 0.05}),
                   {0.5441173796568733, -1.5454773098793535, 1.708460520428832, 0.19472071694421564,
                    -0.9730218227897665, 1.2202683436890434, -0.0436611835744652, -0.4189341803486938});
  }
  SUBCASE("Adam with other constants and decay") {
    check_training(maker<Adam>(AdamOptions{.lr = 0.05, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.1}),
                   {0.5404840507290751, -1.541885312367215, 1.7110956411493088, 0.21625807229956345,
                    -0.9131801359760665, 1.2241117185275667, -0.05090390714790216, -0.4343555730287718});
  }
  SUBCASE("AdamW by default") {
    check_training(
        [](auto parameters) {
          auto optimizer = std::make_unique<AdamW>(std::move(parameters));
          optimizer->set_lr(0.05);
          return optimizer;
        },
        {0.5428349482214031, -1.5412458103184936, 1.7029555723061514, 0.19454955335447463, -0.969646896113768,
         1.2163479806594533, -0.04404695610350348, -0.4178629260583147});
  }
  SUBCASE("AdamW with other constants") {
    check_training(maker<AdamW>(AdamOptions{.lr = 0.05, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.1}),
                   {0.5521479791614615, -1.5008878951958167, 1.6577343920827552, 0.22984756342519966,
                    -0.9184834104842501, 1.1884718764891824, -0.054214954147605854, -0.4328013577905723});
  }
}

// The same six steps, also printed by PyTorch 2.15.
TEST_CASE("Adagrad and RMSprop follow PyTorch's updates") {
  SUBCASE("Adagrad") {
    check_training(maker<Adagrad>(AdagradOptions{.lr = 0.1}),
                   {0.7249106187367194, -1.5983026945926835, 1.6946601855747128, 0.33907841216379825,
                    -0.9349188878655718, 1.2411154146803458, -0.2105955486048272, -0.5807377960277623});
  }
  SUBCASE("Adagrad with every option") {
    check_training(
        maker<Adagrad>(AdagradOptions{
            .lr = 0.1, .lr_decay = 0.05, .weight_decay = 0.02, .initial_accumulator_value = 0.3, .eps = 1e-6}),
        {0.6548898333816126, -1.5544655784068804, 1.7166926191951397, 0.29420178302378763, -0.831726099263311,
         1.2574546703877467, -0.11944842791163782, -0.5480313352039033});
  }
  SUBCASE("RMSprop") {
    check_training(maker<RMSprop>(RMSpropOptions{.lr = 0.01}),
                   {0.7262125059737299, -1.6002466498078594, 1.6931016431125727, 0.33990214516664546,
                    -0.9353955479607885, 1.240020288297845, -0.21185087501618838, -0.5823542564370927});
  }
  SUBCASE("RMSprop with momentum") {
    check_training(maker<RMSprop>(RMSpropOptions{.lr = 0.01, .momentum = 0.8}),
                   {0.8674981192034739, -2.3549388987410564, 1.171576671251404, 0.6518920020735416, -1.8201270864428738,
                    0.8005678316685864, -0.91569708156078, -0.5000980322131042});
  }
  SUBCASE("RMSprop with every option") {
    check_training(maker<RMSprop>(RMSpropOptions{
                       .lr = 0.01, .alpha = 0.9, .eps = 1e-6, .weight_decay = 0.02, .momentum = 0.8, .centered = true}),
                   {0.6035619634729198, -1.608183603834287, 1.6581931094949813, 0.26347064094586087, -0.930693465338283,
                    1.1919782504114569, -0.2040238303543622, -0.45447949962485695});
  }
}

// arXiv:2302.06675, algorithm 2: c = beta1 m + (1 - beta1) g; p -= lr (sign(c) + decay p); m = beta2 m + (1 - beta2) g
TEST_CASE("Lion follows its paper") {
  const double lr = 0.03, beta1 = 0.8, beta2 = 0.95, decay = 0.1;
  std::vector<double> p = {0.5, -1.25, 2.0, 0.03125, -0.75, 1.5, 0.25, -0.5};
  std::vector<double> m(p.size());
  for (int t = 0; t < 6; ++t) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double g = i < 6 ? p[i] * p[i] - 0.25 * t : 2 * p[i] + 0.5 * t;
      const double c = beta1 * m[i] + (1 - beta1) * g;
      p[i] -= lr * ((c > 0) - (c < 0) + decay * p[i]);
      m[i] = beta2 * m[i] + (1 - beta2) * g;
    }
  }
  check_training(maker<Lion>(LionOptions{.lr = lr, .beta1 = beta1, .beta2 = beta2, .weight_decay = decay}), p);
  const Tensor still = leaf(tensor({1.5, 2}));
  Lion lion({{"still", still}}, {.lr = 0.5});
  still.backward({.gradient = tensor({0, std::nan("")})});
  lion.step();
  CHECK(still.at({0}) == 1.5);
  CHECK(std::isnan(still.at({1})));
}

TEST_CASE("Adagrad, RMSprop and Lion refuse numbers without sense") {
  const std::vector<NamedTensor> w = {{"w", leaf(ones({2}))}};
  CHECK_THROWS_WITH_AS(Adagrad(w, {.lr_decay = -1}), "Adagrad: lr_decay -1 must be finite and not negative",
                       ValueError);
  CHECK_THROWS_WITH_AS(Adagrad(w, {.eps = 0}), "Adagrad: eps 0 must be finite and above 0", ValueError);
  CHECK_THROWS_AS(Adagrad(w, {.initial_accumulator_value = -1}), ValueError);
  CHECK_THROWS_WITH_AS(RMSprop(w, {.alpha = 1}), "RMSprop: alpha 1 must be in [0, 1)", ValueError);
  CHECK_THROWS_AS(RMSprop(w, {.momentum = -0.5}), ValueError);
  CHECK_THROWS_WITH_AS(Lion(w, {.beta2 = 1}), "Lion: beta2 1 must be in [0, 1)", ValueError);
  CHECK_THROWS_AS(Lion(w, {.lr = -1}), ValueError);
  CHECK_THROWS_AS(Lion({}, {}), ValueError);
}

TEST_CASE("Adam agrees with its formula at every length and thread count") {
  for (const Index n : {1, 7, 8, 31, 64, 1000, 70001}) {
    CAPTURE(n);
    Tensor start = empty({n}, DType::f64);
    Index i = 0;
    for (double& value : start.write<double>()) value = std::sin(static_cast<double>(i++));
    std::vector<Tensor> trained;
    for (const int threads : {1, 2, 3}) {
      set_num_threads(threads);
      const Tensor w = leaf(clone(start));
      Adam adam({{"w", w}}, {.lr = 0.1});
      (w * w).backward({.gradient = ones({n}, DType::f64)});
      adam.step();
      trained.push_back(w);
    }
    set_num_threads(2);
    for (std::size_t at = 0; at < static_cast<std::size_t>(n); ++at) {
      const double x = start.read<double>()[at];
      const double expected = x - 0.1 * (2 * x) / (std::abs(2 * x) + 1e-8);  // the first step's moments cancel
      REQUIRE(std::abs(trained[0].read<double>()[at] - expected) <= 1e-14);
      REQUIRE(trained[0].read<double>()[at] == trained[1].read<double>()[at]);
      REQUIRE(trained[0].read<double>()[at] == trained[2].read<double>()[at]);
    }
  }
}

TEST_CASE("clip_grad_norm scales all gradients by one factor") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    CAPTURE(name_of(dtype));
    const Tensor w = leaf(tensor({3, 4}, dtype));
    const Tensor b = leaf(tensor({12}, dtype));
    const std::vector<NamedTensor> parameters = {{"w", w}, {"b", b}, {"w again", w}, {"no gradient", leaf(ones({2}))}};
    (0.5 * w * w).backward({.gradient = ones({2}, dtype)});
    (0.5 * b * b).backward({.gradient = ones({1}, dtype)});
    CHECK(clip_grad_norm(parameters, 13.5) == doctest::Approx(13).epsilon(1e-12));
    CHECK(w.grad().at({1}) == 4);
    CHECK(clip_grad_norm(parameters, 2) == doctest::Approx(13).epsilon(1e-12));
    // PyTorch 2.15, clip_grad_norm_ in float64: 0.46153842603550577, 0.615384568047341, 1.846153704142023
    const double tolerance = dtype == DType::f32 ? 1e-7 : 1e-15;
    CHECK(std::abs(w.grad().at({0}) - 0.46153842603550577) <= tolerance);
    CHECK(std::abs(w.grad().at({1}) - 0.615384568047341) <= tolerance);
    CHECK(std::abs(b.grad().at({0}) - 1.846153704142023) <= 2 * tolerance);
  }
}

TEST_CASE("clip_grad_norm leaves gradients alone when their norm is not finite") {
  const Tensor w = leaf(tensor({3, 4}));
  w.backward({.gradient = tensor({1, std::numeric_limits<double>::infinity()})});
  CHECK(std::isinf(clip_grad_norm({{"w", w}}, 1)));
  CHECK(w.grad().at({0}) == 1);
  CHECK_THROWS_AS(clip_grad_norm({{"w", w}}, 0), ValueError);
  CHECK_THROWS_AS(clip_grad_norm({{"w", w}}, std::nan("")), ValueError);
}

TEST_CASE("large float gradients do not overflow the norm") {
  const Tensor w = leaf(zeros({1000}));
  w.backward({.gradient = full({1000}, 1e30)});
  CHECK(clip_grad_norm({{"w", w}}, 1) == doctest::Approx(std::sqrt(1000.0) * 1e30).epsilon(1e-6));
  CHECK(w.grad().at({999}) == doctest::Approx(1 / std::sqrt(1000.0)).epsilon(1e-6));
}

TEST_CASE("step names every parameter without a gradient and changes nothing") {
  const Tensor a = leaf(tensor({1, 2}));
  const Tensor b = leaf(tensor({3}));
  const Tensor c = leaf(tensor({4}));
  const Tensor frozen = tensor({5});
  SGD sgd({{"a", a}, {"b", b}, {"c", c}, {"frozen", frozen}}, {.lr = 1});
  (a * 2.0).backward({.gradient = ones({2})});
  const std::string text = message_of([&] { sgd.step(); });
  CHECK(contains(text, "SGD.step: no gradient for \"b\", \"c\";"));
  CHECK_THROWS_AS(sgd.step(), StateError);
  CHECK(a.at({0}) == 1);
  CHECK(a.grad().at({0}) == 2);

  SGD lenient({{"a", a}, {"b", b}, {"c", c}}, {.lr = 1, .allow_missing_grad = true});
  lenient.step();
  CHECK(a.at({0}) == -1);
  CHECK(b.at({0}) == 3);
}

TEST_CASE("a step that a parameter misses does not count in its bias correction") {
  const Tensor a = leaf(tensor({1}, DType::f64));
  const Tensor b = leaf(tensor({1}, DType::f64));
  Adam adam({{"a", a}, {"b", b}}, {.lr = 0.1, .allow_missing_grad = true});
  for (int step = 0; step < 3; ++step) {
    a.backward({.gradient = ones({1}, DType::f64)});
    if (step == 2) b.backward({.gradient = ones({1}, DType::f64)});
    adam.step();
  }
  CHECK(b.at({0}) == doctest::Approx(0.9).epsilon(1e-8));
  CHECK(a.at({0}) == doctest::Approx(0.7).epsilon(1e-8));
}

TEST_CASE("a parameter that two layers share is updated once") {
  const Tensor w = leaf(tensor({1}, DType::f64));
  SGD sgd({{"first", w}, {"second", w}}, {.lr = 0.5});
  CHECK(sgd.parameters().size() == 1);
  CHECK(sgd.parameters()[0].name == "first");
  w.backward({.gradient = ones({1}, DType::f64)});
  sgd.step();
  CHECK(w.item() == 0.5);
}

TEST_CASE("a step between recording and playing is noticed") {
  const Tensor w = leaf(tensor({2}, DType::f64));
  Adam adam({{"w", w}});
  const Tensor before = w * w;
  (w * 3.0).backward();
  adam.step();
  const std::string text = message_of([&] { before.backward(); });
  CHECK(contains(text, "multiply"));
  CHECK(contains(text, "changed by Adam.step"));
}

TEST_CASE("a parameter whose shape changed is named with both shapes") {
  const Tensor w = leaf(zeros({2, 3}));
  Adam adam({{"layer.weight", w}});
  w.backward({.gradient = ones({2, 3})});
  w.body().shape = Shape{3, 2};
  const std::string text = message_of([&] { adam.step(); });
  CHECK(contains(text, "Adam.step: \"layer.weight\" was [2, 3], is [3, 2]"));
  CHECK(w.at({0, 0}) == 0);
}

TEST_CASE("optimizers refuse numbers without sense") {
  const std::vector<NamedTensor> w = {{"w", leaf(ones({1}))}};
  const double nan = std::nan("");
  for (const double lr : {nan, -1.0, std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_AS(SGD(w, {.lr = lr}), ValueError);
    CHECK_THROWS_AS(Adam(w, {.lr = lr}), ValueError);
    CHECK_THROWS_AS(AdamW(w, {.lr = lr}), ValueError);
  }
  CHECK(contains(message_of([&] { Adam(w, {.lr = -1}); }), "Adam: lr -1 must be"));
  CHECK(contains(message_of([&] { AdamW(w, {.beta2 = 1}); }), "AdamW: beta2 1 must be in [0, 1)"));
  CHECK_THROWS_AS(Adam(w, {.beta1 = -0.1}), ValueError);
  CHECK_THROWS_AS(Adam(w, {.beta1 = nan}), ValueError);
  CHECK_THROWS_AS(Adam(w, {.eps = 0}), ValueError);
  CHECK_THROWS_AS(Adam(w, {.eps = nan}), ValueError);
  CHECK_THROWS_AS(Adam(w, {.weight_decay = -1}), ValueError);
  CHECK_THROWS_AS(SGD(w, {.momentum = -0.5}), ValueError);
  CHECK_THROWS_AS(SGD(w, {.dampening = nan}), ValueError);
  CHECK_THROWS_AS(SGD(w, {.nesterov = true}), ValueError);
  CHECK_THROWS_AS(SGD(w, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}), ValueError);
  CHECK_THROWS_AS(SGD({}), ValueError);
  CHECK_THROWS_AS(SGD({{"w", Tensor()}}), StateError);
  CHECK_THROWS_AS(SGD({{"w", arange(3)}}), DTypeError);
  const Tensor x = leaf(ones({1}));
  CHECK_THROWS_AS(SGD({{"w", x * 2.0}}), GraphError);
  SGD sgd(w);
  CHECK_THROWS_AS(sgd.set_lr(nan), ValueError);
  CHECK(sgd.lr() == 0.01);
}
