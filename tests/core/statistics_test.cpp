// SPDX-License-Identifier: MIT
// Products, norms, spreads and running sums. Figures marked so come from PyTorch 2.15 in f64.
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>

using namespace tapehead;

namespace {

const double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

using Function = std::function<Tensor(const Tensor&)>;

void check_close(const Tensor& x, const std::vector<double>& expected) {
  REQUIRE(x.numel() == static_cast<Index>(expected.size()));
  const Tensor flat = reshape(x, {x.numel()});
  for (Index i = 0; i < x.numel(); ++i) {
    CAPTURE(i);
    const double wanted = expected[static_cast<std::size_t>(i)];
    CHECK(std::abs(flat.at({i}) - wanted) <= 2e-15 * std::max(1.0, std::abs(wanted)));
  }
}

// Values, and slopes of their sum.
void check_figures(const Function& f, const std::vector<double>& values, const std::vector<double>& slopes) {
  const Tensor x = tensor({{1.5, -2, 0.25}, {3, 0.5, -1}}, DType::f64).requires_grad_();
  const Tensor y = f(x);
  check_close(y, values);
  sum(y).backward();
  check_close(x.grad(), slopes);
}

}  // namespace

TEST_CASE("statistics: PyTorch's figures of products, sums of exponentials and running sums") {
  check_figures([](const Tensor& x) { return prod(x); }, {1.125}, {0.75, -0.5625, 4.5, 0.375, 2.25, -1.125});
  check_figures([](const Tensor& x) { return prod(x, 1); }, {-0.75, -1.5}, {-0.5, 0.375, -3, -0.5, -3, 1.5});
  check_figures([](const Tensor& x) { return prod(x, -2); }, {4.5, -1, -0.25}, {3, 0.5, -1, 1.5, -2, 0.25});
  check_figures([](const Tensor& x) { return logsumexp(x, 1); }, {1.7751302622476355, 3.0956743294143823},
                {0.7594731860969822, 0.022934102999540424, 0.21759271090347723, 0.9087599242585133, 0.07459555713221444,
                 0.016644518609272345});
  check_figures([](const Tensor& x) { return logsumexp(x); }, {3.332318339600734},
                {0.16004210540284336, 0.004832852820564772, 0.045852830897518765, 0.7172589545778156,
                 0.05887620029949908, 0.013137056001758263});
  check_figures([](const Tensor& x) { return cumsum(x, 1); }, {1.5, -0.5, -0.25, 3, 3.5, 2.5}, {3, 2, 1, 3, 2, 1});
  check_figures([](const Tensor& x) { return cumsum(x, 0); }, {1.5, -2, 0.25, 4.5, -1.5, -0.75}, {2, 2, 2, 1, 1, 1});
}

TEST_CASE("statistics: PyTorch's figures of norms, variances and standard deviations") {
  check_figures([](const Tensor& x) { return norm(x, Norm::l1, 1); }, {3.75, 4.5}, {1, -1, 1, 1, 1, -1});
  check_figures([](const Tensor& x) { return norm(x, Norm::l2, 0); },
                {3.3541019662496847, 2.0615528128088303, 1.0307764064044151},
                {0.4472135954999579, -0.9701425001453319, 0.24253562503633297, 0.8944271909999159, 0.24253562503633297,
                 -0.9701425001453319});
  check_figures([](const Tensor& x) { return norm(x); }, {4.0697051490249265},
                {0.3685770701003707, -0.49143609346716094, 0.06142951168339512, 0.7371541402007414, 0.12285902336679023,
                 -0.24571804673358047});
  check_figures([](const Tensor& x) { return variance(x); }, {3.14375}, {0.45, -0.95, -0.05, 1.05, 0.05, -0.55});
  check_figures([](const Tensor& x) { return variance(x, 1, {.correction = 0}); },
                {2.0972222222222223, 2.7222222222222228},
                {1.0555555555555554, -1.2777777777777777, 0.2222222222222222, 1.4444444444444442, -0.22222222222222224,
                 -1.2222222222222223});
  check_figures([](const Tensor& x) { return standard_deviation(x, 0); },
                {1.0606601717798212, 1.7677669529663689, 0.8838834764831844},
                {-0.7071067811865476, -0.7071067811865475, 0.7071067811865475, 0.7071067811865476, 0.7071067811865475,
                 -0.7071067811865475});
  check_figures([](const Tensor& x) { return standard_deviation(x); }, {1.7730623226497144},
                {0.12689909267473104, -0.2678980845355433, -0.014099899186081228, 0.2960978829077058,
                 0.014099899186081228, -0.1550988910468935});
}

TEST_CASE("statistics: the gradient of a product beside zeros, as PyTorch's") {
  const Tensor x = tensor({{0, 2, 3}, {0, 0, 5}, {1, 2, 4}}, DType::f64).requires_grad_();
  sum(prod(x, 1)).backward();
  check_close(x.grad(), {6, 0, 0, 0, 0, 0, 8, 4, 2});
}

TEST_CASE("statistics: products of every length, whole numbers too") {
  double factorial = 1;
  for (Index n = 1; n <= 20; ++n) {
    factorial *= static_cast<double>(n);
    const Tensor numbers = arange(1, static_cast<double>(n + 1));
    CHECK(prod(numbers).read<Index>()[0] == static_cast<Index>(factorial));
    CHECK(prod(to(numbers, DType::f64), 0, true).at({0}) == doctest::Approx(factorial).epsilon(1e-15));
  }
}

TEST_CASE("statistics: answers over nothing") {
  const Tensor nothing = zeros({2, 0, 3}, DType::f64);
  check_close(sum(nothing, 1), {0, 0, 0, 0, 0, 0});
  check_close(prod(nothing, 1), {1, 1, 1, 1, 1, 1});
  CHECK(prod(nothing).item() == 1);
  CHECK(prod(zeros({0}, DType::i64)).read<Index>()[0] == 1);
  CHECK(logsumexp(nothing).item() == -kInfinity);
  CHECK(logsumexp(nothing, 1, true).shape() == Shape{2, 1, 3});
  CHECK(logsumexp(nothing, 0).shape() == Shape{0, 3});
  CHECK(cumsum(nothing, 1).shape() == Shape{2, 0, 3});
  CHECK(argmin(nothing, 0).shape() == Shape{0, 3});
  CHECK_THROWS_WITH_AS(norm(nothing, Norm::l2, 1), "norm: x [2, 0, 3] has no elements along axis 1", ValueError);
  CHECK_THROWS_WITH_AS(max(nothing, {0, -2}), "max: x [2, 0, 3] has no elements along axes [0, 1]", ValueError);
  CHECK_THROWS_WITH_AS(mean(nothing, 1), "mean: x [2, 0, 3] has no elements along axis 1", ValueError);
  CHECK_THROWS_WITH_AS(argmin(nothing, -2), "argmin: x [2, 0, 3] has no elements along axis 1", ValueError);
  CHECK_THROWS_WITH_AS(variance(nothing, 1, {.correction = -1}), "variance: x [2, 0, 3] has no elements along axis 1",
                       ValueError);
  CHECK_THROWS_WITH_AS(standard_deviation(ones({2, 1}), 1),
                       "standard_deviation: x [2, 1] has 1 element to reduce along axis 1, correction 1 leaves nothing "
                       "to divide by; take a correction below 1",
                       ValueError);
  CHECK_THROWS_AS(variance(ones({3}), {}, {.correction = kNaN}), ValueError);
}

TEST_CASE("statistics: infinities and NaN in logsumexp") {
  const Tensor x =
      tensor({{-kInfinity, -kInfinity}, {-kInfinity, 3}, {kInfinity, 1}, {kNaN, 1}, {1e4, 1e4}}, DType::f64)
          .requires_grad_();
  const Tensor y = logsumexp(x, 1);
  CHECK(y.at({0}) == -kInfinity);
  CHECK(y.at({1}) == 3);
  CHECK(y.at({2}) == kInfinity);
  CHECK(std::isnan(y.at({3})));
  CHECK(y.at({4}) == doctest::Approx(1e4 + std::log(2.0)).epsilon(1e-15));
  sum(slice(y, 0, {.stop = 2})).backward();
  check_close(slice(x.grad(), 0, {.stop = 2}), {0, 0, 0, 1});
}

TEST_CASE("statistics: slopes at zero are zero") {
  const Tensor x = zeros({2, 3}, DType::f64).requires_grad_();
  sum(norm(x, Norm::l1, 1) + norm(x, Norm::l2, 1) + standard_deviation(x, 1)).backward();
  check_close(x.grad(), {0, 0, 0, 0, 0, 0});
}

TEST_CASE("statistics: norms of f32 neither overflow nor vanish") {
  CHECK(norm(tensor({3e30, 4e30})).item() == doctest::Approx(5e30));
  CHECK(norm(tensor({3e-30, 4e-30})).item() == doctest::Approx(5e-30));
}

TEST_CASE("statistics: a variance far from zero keeps its digits") {
  const Tensor x = tensor({1e8, 1e8 + 1, 1e8 + 2}, DType::f64);
  CHECK(variance(x).item() == 1);
  CHECK(standard_deviation(x).item() == 1);
}

TEST_CASE("statistics: argmin finds the first smallest, a NaN before all") {
  const Tensor x = tensor({{1.5, -2, 0.25}, {3, 0.5, -1}}, DType::f64);
  CHECK(argmin(x).read<Index>()[0] == 1);
  CHECK(argmin(x).read<Index>()[1] == 2);
  CHECK(argmin(x, 0, true).shape() == Shape{1, 3});
  CHECK(argmin(tensor({2, 1, 1}), 0).item() == 1);
  CHECK(argmin(tensor({2, kNaN, 1, kNaN}), 0).item() == 1);
  CHECK(argmin(arange(5)).item() == 0);
}

TEST_CASE("statistics: a running sum of f32 is added up in f64 and whole numbers wrap") {
  const Tensor tenths = cumsum(full({100000}, 0.1));
  CHECK(tenths.at({99999}) == doctest::Approx(10000).epsilon(1e-7));
  const Index top = std::numeric_limits<Index>::max();
  const Tensor whole = cumsum(full({2}, 1, DType::i64) * from_data(std::span<const Index>(&top, 1), {1}));
  CHECK(whole.read<Index>()[1] == -2);
  CHECK_THROWS_AS(cumsum(zeros({2}, DType::boolean)), DTypeError);
  CHECK_THROWS_AS(cumsum(zeros({}), 0), ShapeError);
}
