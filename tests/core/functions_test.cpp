// SPDX-License-Identifier: MIT
// Functions of one number beside arithmetic. Figures marked so come from PyTorch 2.15 in f64.
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

// Values and slopes at -3, -0.5, 0, 0.25 and 2.
void check_figures(const Function& f, const std::vector<double>& values, const std::vector<double>& slopes) {
  const Tensor x = tensor({-3, -0.5, 0, 0.25, 2}, DType::f64).requires_grad_();
  const Tensor y = f(x);
  sum(y).backward();
  for (Index i = 0; i < 5; ++i) {
    CAPTURE(i);
    const double value = values[static_cast<std::size_t>(i)], slope = slopes[static_cast<std::size_t>(i)];
    CHECK(std::abs(y.at({i}) - value) <= 1e-15 * std::abs(value));
    CHECK(std::abs(x.grad().at({i}) - slope) <= 2e-15 * std::abs(slope));
  }
}

double value(const Function& f, double at, DType dtype) { return f(tensor(at, dtype)).item(); }

}  // namespace

TEST_CASE("functions: PyTorch's figures") {
  check_figures(
      [](const Tensor& x) { return erf(x); },
      {-0.9999779095030014, -0.5204998778130465, 0, 0.27632639016823696, 0.9953222650189527},
      {0.00013925305194674786, 0.8787825789354448, 1.1283791670955126, 1.0600141293761143, 0.020666985354092053});
  check_figures([](const Tensor& x) { return log1p(x * 0.3); },
                {-2.302585092994045, -0.1625189294977749, 0, 0.07232066157962612, 0.4700036292457355},
                {2.9999999999999973, 0.35294117647058826, 0.3, 0.27906976744186046, 0.1875});
  check_figures([](const Tensor& x) { return expm1(x); },
                {-0.950212931632136, -0.3934693402873666, 0, 0.2840254166877415, 6.38905609893065},
                {0.049787068367863944, 0.6065306597126334, 1, 1.2840254166877414, 7.38905609893065});
}

TEST_CASE("functions: PyTorch's figures of the activations") {
  check_figures([](const Tensor& x) { return silu(x); },
                {-0.14227761953270035, -0.1887703343990727, 0, 0.14054412522144952, 1.7615941559557646},
                {-0.08810410601516962, 0.2600388126973482, 0.5, 0.6237100215701977, 1.0907842487848955});
  check_figures([](const Tensor& x) { return softplus(x); },
                {0.04858735157374206, 0.4740769841801067, 0.6931471805599453, 0.8259394198788436, 2.1269280110429727},
                {0.04742587317756679, 0.37754066879814546, 0.5, 0.5621765008857981, 0.8807970779778824});
  check_figures([](const Tensor& x) { return softplus(x, 2, 3); },
                {0.0012378425688652247, 0.15663084375911143, 0.34657359027997264, 0.48703849209005334, 2},
                {0.0024726231566347748, 0.2689414213699951, 0.5, 0.6224593312018546, 1});
  check_figures([](const Tensor& x) { return leaky_relu(x, 0.2); }, {-0.6, -0.1, 0, 0.25, 2}, {0.2, 0.2, 0.2, 1, 1});
  check_figures([](const Tensor& x) { return leaky_relu(x); }, {-0.03, -0.005, 0, 0.25, 2}, {0.01, 0.01, 0.01, 1, 1});
  check_figures([](const Tensor& x) { return elu(x); }, {-0.950212931632136, -0.3934693402873666, 0, 0.25, 2},
                {0.049787068367863944, 0.6065306597126334, 1, 1, 1});
  check_figures([](const Tensor& x) { return elu(x, 0.5); }, {-0.475106465816068, -0.1967346701436833, 0, 0.25, 2},
                {0.024893534183931972, 0.3032653298563167, 0.5, 1, 1});
}

TEST_CASE("functions: small arguments lose no digits") {
  CHECK(value([](const Tensor& x) { return log1p(x); }, 1e-20, DType::f64) == 1e-20);
  CHECK(value([](const Tensor& x) { return expm1(x); }, 1e-20, DType::f64) == 1e-20);
  CHECK(value([](const Tensor& x) { return elu(x); }, -1e-20, DType::f64) == -1e-20);
  CHECK(value([](const Tensor& x) { return reciprocal(x); }, 4, DType::f64) == 0.25);
}

TEST_CASE("functions: limits and NaN, values and slopes") {
  const auto slope = [](const Function& f, double at, DType dtype) {
    const Tensor x = tensor(at, dtype).requires_grad_();
    f(x).backward();
    return x.grad().item();
  };
  const Function silu_of = [](const Tensor& x) { return silu(x); };
  const Function softplus_of = [](const Tensor& x) { return softplus(x); };
  const Function elu_of = [](const Tensor& x) { return elu(x); };
  const Function leaky_of = [](const Tensor& x) { return leaky_relu(x); };
  for (const DType dtype : {DType::f32, DType::f64}) {
    CAPTURE(name_of(dtype));
    for (const double far : {1e4, kInfinity}) {
      for (const Function& f : {silu_of, softplus_of, elu_of, leaky_of}) {
        CHECK(value(f, far, dtype) == far);
        CHECK(slope(f, far, dtype) == 1);
      }
      CHECK(value(silu_of, -far, dtype) == 0);
      CHECK(slope(silu_of, -far, dtype) == 0);
      CHECK(value(softplus_of, -far, dtype) == 0);
      CHECK(slope(softplus_of, -far, dtype) == 0);
      CHECK(value(elu_of, -far, dtype) == -1);
      CHECK(slope(elu_of, -far, dtype) == 0);
    }
    for (const Function& f : {silu_of, softplus_of, elu_of, leaky_of}) CHECK(std::isnan(value(f, kNaN, dtype)));
    CHECK(value([](const Tensor& x) { return softplus(x, 1, 1e6); }, 1e4, dtype) == 1e4);
    CHECK(value([](const Tensor& x) { return erf(x); }, -kInfinity, dtype) == -1);
    CHECK(value([](const Tensor& x) { return expm1(x); }, -kInfinity, dtype) == -1);
    CHECK(value([](const Tensor& x) { return log1p(x); }, -1, dtype) == -kInfinity);
    CHECK(value([](const Tensor& x) { return reciprocal(x); }, 0, dtype) == kInfinity);
  }
}

TEST_CASE("functions: second slopes of elu stay finite where exp overflows") {
  const Tensor x = tensor(1e4, DType::f64).requires_grad_();
  const Tensor first = grad(elu(x), {x}, {.create_graph = true})[0];
  CHECK(grad(first, {x})[0].item() == 0);
}

TEST_CASE("functions: what they refuse") {
  CHECK_THROWS_WITH_AS(softplus(ones({2}), 0), "softplus: beta is 0; it must be above 0", ValueError);
  CHECK_THROWS_AS(softplus(ones({2}), kNaN), ValueError);
  CHECK_THROWS_WITH_AS(reciprocal(arange(3)), "reciprocal: x must be f32 or f64; convert it with to(), is i64",
                       DTypeError);
}

TEST_CASE("functions: silu's vectors agree with the formula at every length") {
  for (const Index n : {1, 3, 7, 16, 33, 5000}) {
    const Tensor x = arange(0, static_cast<double>(n), 1, DType::f64) * 0.01 - 3.0;
    const Tensor y = silu(x);
    for (const Index i : {Index{0}, n / 2, n - 1}) {
      const double at = x.at({i});
      CHECK(y.at({i}) == doctest::Approx(at / (1 + std::exp(-at))).epsilon(1e-15));
    }
  }
}
