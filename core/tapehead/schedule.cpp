// SPDX-License-Identifier: MIT
#include <tapehead/schedule.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include <tapehead/error.h>
#include <tapehead/shape.h>

namespace tapehead {
namespace {

void check_number(const char* name, const char* role, double value) {
  if (!(value >= 0) || !std::isfinite(value)) {
    throw ValueError(fmt::format("{}: {} {} must be finite and not negative", name, role, value));
  }
}

double checked_step(const char* name, Index step) {
  if (step < 0) throw ValueError(fmt::format("{}: steps count from 0, got {}", name, step));
  return static_cast<double>(step);
}

}  // namespace

Schedule constant_schedule(double lr) {
  check_number("constant_schedule", "lr", lr);
  return [lr](Index step) {
    checked_step("constant_schedule", step);
    return lr;
  };
}

Schedule linear_schedule(double from, double to, Index steps) {
  check_number("linear_schedule", "from", from);
  check_number("linear_schedule", "to", to);
  detail::at_least_one("linear_schedule", "steps", steps);
  return [=](Index step) {
    const double at = checked_step("linear_schedule", step);
    return step >= steps ? to : from + (to - from) * at / static_cast<double>(steps);
  };
}

Schedule cosine_schedule(double from, double to, Index steps) {
  check_number("cosine_schedule", "from", from);
  check_number("cosine_schedule", "to", to);
  detail::at_least_one("cosine_schedule", "steps", steps);
  return [=](Index step) {
    const double at = checked_step("cosine_schedule", step);
    if (step >= steps) return to;
    return to + 0.5 * (1 + std::cos(std::numbers::pi * at / static_cast<double>(steps))) * (from - to);
  };
}

Schedule step_schedule(double lr, Index every, double factor) {
  check_number("step_schedule", "lr", lr);
  check_number("step_schedule", "factor", factor);
  detail::at_least_one("step_schedule", "every", every);
  return [=](Index step) {
    checked_step("step_schedule", step);
    return lr * std::pow(factor, static_cast<double>(step / every));
  };
}

Schedule noam_schedule(Index width, Index warm_up, double factor) {
  check_number("noam_schedule", "factor", factor);
  detail::at_least_one("noam_schedule", "width", width);
  detail::at_least_one("noam_schedule", "warm_up", warm_up);
  const double peak = factor / std::sqrt(static_cast<double>(width));
  const double slope = std::pow(static_cast<double>(warm_up), -1.5);
  return [=](Index step) {
    const double n = checked_step("noam_schedule", step) + 1;
    return peak * std::min(1 / std::sqrt(n), n * slope);
  };
}

Schedule warm_up(Index steps, Schedule then) {
  detail::at_least_one("warm_up", "steps", steps);
  if (!then) throw ValueError("warm_up: the schedule that follows is empty");
  return [steps, then = std::move(then)](Index step) {
    const double at = checked_step("warm_up", step);
    return step < steps ? then(0) * (at + 1) / static_cast<double>(steps + 1) : then(step - steps);
  };
}

}  // namespace tapehead
