// SPDX-License-Identifier: MIT
// Around the optimizers: groups of parameters, averages of weights, accumulated and skipped gradients.
#include <cmath>
#include <limits>
#include <memory>

#include <doctest/doctest.h>

#include <tapehead/error.h>
#include <tapehead/moving_average.h>
#include <tapehead/ops.h>
#include <tapehead/optim.h>
#include <tapehead/tape.h>

using namespace tapehead;

namespace {

Tensor leaf(Tensor x) { return x.requires_grad_(); }

std::vector<double> all(const std::vector<Tensor>& tensors) {
  std::vector<double> out;
  for (const Tensor& x : tensors) out.insert(out.end(), x.read<double>().begin(), x.read<double>().end());
  return out;
}

// Six steps on sum(w^3) / 3 - 0.25 t sum(w) + sum(b^2) + 0.5 t sum(b) for t = 0, ..., 5; w decays with 0.1, b does not
// and has half the rate.
template <class Kind, class Options>
void check_groups(const Options& options, const std::vector<double>& expected) {
  const Tensor w = leaf(tensor({{0.5, -1.25, 2.0}, {0.03125, -0.75, 1.5}}, DType::f64));
  const Tensor b = leaf(tensor({0.25, -0.5}, DType::f64));
  Kind optimizer({{.parameters = {{"w", w}}}, {.parameters = {{"b", b}}, .lr_scale = 0.5, .weight_decay = 0}}, options);
  for (int t = 0; t < 6; ++t) {
    (w * w * w / 3.0 - 0.25 * t * w).backward({.gradient = ones(w.shape(), DType::f64)});
    (b * b + 0.5 * t * b).backward({.gradient = ones(b.shape(), DType::f64)});
    optimizer.step();
  }
  const std::vector<double> got = all({w, b});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(got[i] - expected[i]) <= 1e-13 * std::abs(expected[i]));
  }
}

Tensor squares(const Tensor& w, const Tensor& x) { return mean(pow(matmul(x, w), 2)); }

}  // namespace

// Printed by PyTorch 2.15 (float64) for the same groups.
TEST_CASE("groups have decay and rate of their own") {
  check_groups<SGD>(SGDOptions{.lr = 0.01, .momentum = 0.9, .weight_decay = 0.1},
                    {0.5263230861092534, -1.4458242216120076, 1.4170378009053426, 0.10954095852875807,
                     -0.7600395445662532, 1.188383445230743, 0.12889749146274995, -0.49179548100049997});
  check_groups<Adam>(AdamOptions{.lr = 0.05, .weight_decay = 0.1},
                     {0.518423166615236, -1.5445025098006857, 1.7079313693103533, 0.19421720172813417,
                      -0.9375590410041894, 1.2181809717241312, 0.10376479319578485, -0.45086087738128655});
  check_groups<AdamW>(AdamOptions{.lr = 0.05, .weight_decay = 0.1},
                      {0.531423944423709, -1.503552446773757, 1.6540840625074678, 0.1930171306687605,
                       -0.9396250327240419, 1.18157624190738, 0.10376479319578485, -0.45086087738128655});
  check_groups<Adagrad>(AdagradOptions{.lr = 0.05, .weight_decay = 0.1},
                        {0.5928344292002594, -1.4039976265388845, 1.8380428370829422, 0.18555223969165077,
                         -0.761725663438315, 1.354396628519754, 0.132390409393201, -0.5110104186894979});
  check_groups<RMSprop>(RMSpropOptions{.lr = 0.05, .weight_decay = 0.1},
                        {1.1226026417386068, -3.6528531960415074, 1.052050709374145, 1.1115024274493759,
                         -3.297848357751037, 0.9362296337754514, -0.8131525743579845, -0.8004114612292643});
}

TEST_CASE("Lion's groups are two Lions") {
  const auto start = [] {
    return std::vector<Tensor>{leaf(tensor({1, -2}, DType::f64)), leaf(tensor({3}, DType::f64))};
  };
  const auto step = [](const std::vector<Tensor>& x) {
    for (const Tensor& t : x) (t * t).backward({.gradient = ones(t.shape(), DType::f64)});
  };
  const std::vector<Tensor> together = start(), apart = start();
  Lion lion(
      {{.parameters = {{"a", together[0]}}, .weight_decay = 0.2}, {.parameters = {{"b", together[1]}}, .lr_scale = 3}},
      {.lr = 0.01, .weight_decay = 0.1});
  Lion first({{"a", apart[0]}}, {.lr = 0.01, .weight_decay = 0.2});
  Lion second({{"b", apart[1]}}, {.lr = 0.03, .weight_decay = 0.1});
  for (int i = 0; i < 4; ++i) {
    step(together), step(apart);
    lion.step(), first.step(), second.step();
  }
  CHECK(all(together) == all(apart));
}

TEST_CASE("decay_groups separates matrices from the rest") {
  const std::vector<NamedTensor> parameters = {{"embedding.weight", leaf(ones({5, 4}))},
                                               {"norm.weight", leaf(ones({4}))},
                                               {"linear.weight", leaf(ones({4, 4}))},
                                               {"linear.bias", leaf(ones({4}))},
                                               {"scale", leaf(ones({}))}};
  const auto names = [](const ParameterGroup& group) {
    std::string out;
    for (const NamedTensor& parameter : group.parameters) out += parameter.name + ' ';
    return out;
  };
  const std::vector<ParameterGroup> groups = decay_groups(parameters, 0.1);
  REQUIRE(groups.size() == 2);
  CHECK(names(groups[0]) == "embedding.weight linear.weight ");
  CHECK(names(groups[1]) == "norm.weight linear.bias scale ");
  CHECK(groups[0].weight_decay == 0.1);
  CHECK(groups[1].weight_decay == 0.0);
  const std::vector<ParameterGroup> excepted = decay_groups(parameters, 0.1, {"embedding"});
  CHECK(names(excepted[0]) == "linear.weight ");
  CHECK(names(excepted[1]) == "embedding.weight norm.weight linear.bias scale ");
  AdamW optimizer(groups, {.lr = 0.1});
  CHECK(optimizer.parameters().size() == 5);
  const AdamW only_vectors(decay_groups({parameters[1]}, 0.1));
  CHECK(only_vectors.parameters().size() == 1);
  CHECK_THROWS_WITH_AS(decay_groups(parameters, 0.1, {"bias", "typo"}),
                       "decay_groups: no parameter's name contains \"typo\"", ValueError);
  CHECK_THROWS_AS(decay_groups(parameters, -0.1), ValueError);
  CHECK_THROWS_AS(decay_groups(parameters, std::nan("")), ValueError);
}

TEST_CASE("groups without sense are refused") {
  const Tensor w = leaf(ones({2}));
  const NamedTensor named{"w", w};
  CHECK_THROWS_WITH_AS(Adam({{.parameters = {named}, .lr_scale = -1}}),
                       "Adam: lr_scale -1 must be finite and not negative", ValueError);
  CHECK_THROWS_WITH_AS(SGD({{.parameters = {named}, .weight_decay = std::nan("")}}),
                       "SGD: weight_decay nan must be finite and not negative", ValueError);
  CHECK_THROWS_WITH_AS(SGD({{.parameters = {named}}, {.parameters = {{"twin", w}}}}),
                       "SGD: parameter \"twin\" is in two groups; leave it in one", ValueError);
  CHECK_THROWS_WITH_AS(SGD({ParameterGroup{}, ParameterGroup{}}), "SGD: the list of parameters is empty", ValueError);
}

// PyTorch 2.15, AveragedModel with get_ema_multi_avg_fn(0.9), float64.
TEST_CASE("MovingAverage follows PyTorch's average, and models go there and back") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double tolerance = dtype == DType::f32 ? 2e-7 : 1e-15;
    const Tensor w = leaf(tensor({1, -2}, dtype));
    MovingAverage average({{"w", w}}, 0.9);
    for (const auto& [first, second] : {std::pair{1.05, -1.975}, {1.145, -1.9275}, {1.2805, -1.85975}}) {
      SGD step({{"w", w}}, {.lr = 1});
      w.backward({.gradient = tensor({-0.5, -0.25}, dtype)});
      step.step();
      average.update();
      CHECK(average.averages()[0].name == "w");
      CHECK(std::abs(average.averages()[0].tensor.at({0}) - first) <= tolerance);
      CHECK(std::abs(average.averages()[0].tensor.at({1}) - second) <= tolerance);
    }
    {
      const AveragedWeights averaged(average);
      CHECK(std::abs(w.at({0}) - 1.2805) <= tolerance);
      CHECK_THROWS_WITH_AS(average.update(), doctest::Contains("hold their averages"), StateError);
      CHECK_THROWS_AS(const AveragedWeights again(average), StateError);
    }
    CHECK(w.at({0}) == 2.5);
    CHECK(w.at({1}) == -1.25);
    CHECK(std::abs(average.averages()[0].tensor.at({1}) + 1.85975) <= tolerance);
    CHECK(w.requires_grad());
    CHECK_FALSE(average.averages()[0].tensor.requires_grad());

    MovingAverage other({{"w", leaf(tensor({5, 6}, dtype))}}, 0.9);
    other.load_averages(average.averages());
    CHECK(std::abs(other.averages()[0].tensor.at({0}) - 1.2805) <= tolerance);
    CHECK_THROWS_WITH_AS(other.load_averages({{"v", zeros({2}, dtype)}}), doctest::Contains("missing      w [2]"),
                         StateError);
    CHECK(std::abs(other.averages()[0].tensor.at({0}) - 1.2805) <= tolerance);
    const AveragedWeights averaged(other);
    CHECK_THROWS_WITH_AS(other.load_averages({}), doctest::Contains("hold their averages"), StateError);
  }
}

TEST_CASE("MovingAverage refuses what makes no sense") {
  const Tensor w = leaf(zeros({2, 3}));
  for (const double decay : {-0.1, 1.0, std::nan("")}) CHECK_THROWS_AS(MovingAverage({{"w", w}}, decay), ValueError);
  CHECK_THROWS_AS(MovingAverage({}, 0.9), ValueError);
  CHECK_THROWS_AS(MovingAverage({{"w", arange(3)}}, 0.9), DTypeError);
  CHECK_THROWS_AS(MovingAverage({{"w", Tensor()}}, 0.9), StateError);
  MovingAverage average({{"w", w}}, 0.9);
  w.body().shape = Shape{3, 2};
  CHECK_THROWS_WITH_AS(average.update(), doctest::Contains("\"w\" was [2, 3] f32, is [3, 2] f32"), StateError);
}

TEST_CASE("a tape recorded before the averages came in does not play with them") {
  const Tensor w = leaf(ones({2}));
  MovingAverage average({{"w", w}}, 0.5);
  const Tensor loss = sum(w * w);
  const AveragedWeights averaged(average);
  CHECK_THROWS_WITH_AS(loss.backward(), doctest::Contains("AveragedWeights"), GraphError);
}

TEST_CASE("gradients of parts add up to the gradient of the whole batch") {
  Tensor x = empty({8, 3}, DType::f64);
  double phase = 0;
  for (double& value : x.write<double>()) value = std::sin(phase += 1.3);
  const Tensor whole = leaf(reshape(tensor({0.5, -1, 2}, DType::f64), {3, 1})), parts = leaf(clone(whole.detach()));
  squares(whole, x).backward();
  for (Index i = 0; i < 4; ++i) (squares(parts, slice(x, 0, {.start = 2 * i, .stop = 2 * i + 2})) / 4).backward();
  for (Index i = 0; i < 3; ++i)
    CHECK(parts.grad().at({i, 0}) == doctest::Approx(whole.grad().at({i, 0})).epsilon(1e-14));
  SGD optimizer({{"w", parts}}, {.lr = 0.1});
  optimizer.step();
  CHECK(parts.at({0, 0}) == doctest::Approx(0.5 - 0.1 * whole.grad().at({0, 0})).epsilon(1e-14));
}

TEST_CASE("a skipped step leaves weights and moments as they were") {
  const auto train = [](bool with_bad_batch) {
    const Tensor w = leaf(tensor({1, -2}, DType::f64));
    AdamW optimizer({{"w", w}}, {.lr = 0.1});
    int skipped = 0;
    for (int step = 0; step < 6; ++step) {
      const bool bad = step == 3;
      if (bad && !with_bad_batch) continue;
      sum(w * w * (bad ? std::numeric_limits<double>::infinity() : 1.0)).backward();
      if (std::isfinite(clip_grad_norm(optimizer.parameters(), 1.0))) {
        optimizer.step();
      } else {
        optimizer.zero_grad();
        ++skipped;
      }
    }
    CHECK(skipped == (with_bad_batch ? 1 : 0));
    return all({w});
  };
  CHECK(train(true) == train(false));
}
