// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tapehead/error.h>
#include <tapehead/schedule.h>

using namespace tapehead;

namespace {

void check_values(const Schedule& schedule, const std::vector<double>& expected, double tolerance) {
  for (std::size_t step = 0; step < expected.size(); ++step) {
    CAPTURE(step);
    CHECK(std::abs(schedule(static_cast<Index>(step)) - expected[step]) <= tolerance);
  }
}

}  // namespace

// 1e-3 * (step + 1) / 101 for 100 steps, then 1e-4 + 0.5 * (1 + cos(pi * (step - 100) / 1900)) * 9e-4, printed by
// Python.
TEST_CASE("warm_up and cosine_schedule give nanoGPT's rates to the bit") {
  const Schedule rate = warm_up(100, cosine_schedule(1e-3, 1e-4, 1900));
  CHECK(rate(0) == 9.900990099009901e-06);
  CHECK(rate(1) == 1.9801980198019803e-05);
  CHECK(rate(50) == 0.000504950495049505);
  CHECK(rate(99) == 0.0009900990099009901);
  CHECK(rate(100) == 0.001);
  CHECK(rate(101) == 0.0009999993848585915);
  CHECK(rate(777) == 0.0007463004706110102);
  CHECK(rate(1500) == 0.0002452232927684166);
  CHECK(rate(1999) == 0.00010000061514140841);
  CHECK(rate(2000) == 0.0001);
  CHECK(rate(5000) == 0.0001);
}

// Printed by PyTorch 2.15, torch.optim.lr_scheduler with lr 0.1.
TEST_CASE("schedules agree with PyTorch's") {
  SUBCASE("LinearLR(start_factor=1, end_factor=0.2, total_iters=5)") {
    check_values(linear_schedule(0.1, 0.02, 5), {0.1, 0.084, 0.068, 0.052, 0.036, 0.02, 0.02, 0.02}, 1e-17);
  }
  SUBCASE("StepLR(step_size=3, gamma=0.5)") {
    check_values(step_schedule(0.1, 3, 0.5), {0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025, 0.0125}, 0);
  }
  SUBCASE("CosineAnnealingLR(T_max=5, eta_min=0.01)") {
    check_values(cosine_schedule(0.1, 0.01, 5),
                 {0.1, 0.09140576474687263, 0.06890576474687263, 0.04109423525312736, 0.018594235253127367, 0.01, 0.01},
                 2e-17);
  }
}

// The paper's formula for width 512 and 4,000 steps of warm-up, printed by Python for the steps 1, 2, 3999 and so on.
TEST_CASE("noam_schedule rises and falls as in the paper") {
  const Schedule rate = noam_schedule(512, 4000);
  const std::vector<std::pair<Index, double>> expected = {
      {1, 1.746928107421711e-07},    {2, 3.493856214843422e-07},   {3999, 0.0006985965501579421},
      {4000, 0.0006987712429686843}, {4001, 0.000698683912937353}, {10000, 0.00044194173824159226}};
  for (const auto& [n, value] : expected) CHECK(rate(n - 1) == doctest::Approx(value).epsilon(1e-14));
  CHECK(noam_schedule(512, 4000, 2)(9) == 2 * rate(9));
}

TEST_CASE("warm_up goes before any callable") {
  const Schedule rate = warm_up(3, [](Index step) { return 8.0 + static_cast<double>(step); });
  check_values(rate, {2, 4, 6, 8, 9, 10}, 0);
  CHECK(warm_up(1, warm_up(1, constant_schedule(4)))(0) == 1);
  CHECK(constant_schedule(0.5)(1'000'000) == 0.5);
}

TEST_CASE("schedules refuse numbers without sense") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH_AS(constant_schedule(-1), "constant_schedule: lr -1 must be finite and not negative", ValueError);
  CHECK_THROWS_AS(constant_schedule(nan), ValueError);
  CHECK_THROWS_WITH_AS(linear_schedule(1, nan, 5), "linear_schedule: to nan must be finite and not negative",
                       ValueError);
  CHECK_THROWS_WITH_AS(cosine_schedule(1, 0, 0), "cosine_schedule: steps must be at least 1, is 0", ValueError);
  CHECK_THROWS_AS(cosine_schedule(std::numeric_limits<double>::infinity(), 0, 1), ValueError);
  CHECK_THROWS_AS(step_schedule(1, 0), ValueError);
  CHECK_THROWS_AS(step_schedule(1, 1, -0.5), ValueError);
  CHECK_THROWS_AS(noam_schedule(0, 1), ValueError);
  CHECK_THROWS_AS(noam_schedule(1, 0), ValueError);
  CHECK_THROWS_AS(warm_up(0, constant_schedule(1)), ValueError);
  CHECK_THROWS_AS(warm_up(1, Schedule()), ValueError);
  for (const Schedule& schedule : {constant_schedule(1), linear_schedule(1, 0, 2), cosine_schedule(1, 0, 2),
                                   step_schedule(1, 2), noam_schedule(1, 1), warm_up(1, constant_schedule(1))}) {
    CHECK_THROWS_WITH_AS(schedule(-1), doctest::Contains("steps count from 0, got -1"), ValueError);
  }
}
