// SPDX-License-Identifier: MIT
// A gradient check in a few lines, independent of the library's own one.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include <tapehead/tape.h>
#include <tapehead/tensor.h>

namespace test {

using tapehead::Index;
using tapehead::Tensor;

/// f64 values without a pattern, in (-2, 2).
inline Tensor uneven(const tapehead::Shape& shape, double start = 1) {
  Tensor x = tapehead::empty(shape, tapehead::DType::f64);
  for (double& value : x.write<double>()) value = 2 * std::sin(start += 1.7);
  return x;
}

inline double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.read<double>().size(); ++i) sum += a.read<double>()[i] * b.read<double>()[i];
  return sum;
}

/// The largest difference between the tape's gradient of dot(weights, f(x)) and central differences.
inline double gradient_error(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  Tensor leaf = tapehead::clone(x).detach().requires_grad_();
  const Tensor y = f(leaf);
  const Tensor weights = uneven(y.shape(), 5);
  const Tensor analytic = tapehead::grad(y, {leaf}, {.gradient = weights})[0];
  REQUIRE(analytic.shape() == x.shape());
  const double step = 1e-4;
  double worst = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.numel()); ++i) {
    Tensor above = tapehead::clone(x);
    Tensor below = tapehead::clone(x);
    above.write<double>()[i] += step;
    below.write<double>()[i] -= step;
    const double numeric = (dot(weights, f(above)) - dot(weights, f(below))) / (2 * step);
    worst = std::max(worst, std::abs(numeric - analytic.read<double>()[i]));
  }
  return worst;
}

/// Checks the gradient of f at x, and the gradient of that gradient with respect to what came in.
inline void check_gradients(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  CHECK(gradient_error(f, x) < 1e-9);
  const Tensor y = f(x);
  const auto backward = [&](const Tensor& gradient) {
    const Tensor leaf = tapehead::clone(x).detach().requires_grad_();
    return tapehead::grad(f(leaf), {leaf}, {.gradient = gradient, .create_graph = true})[0];
  };
  CHECK(gradient_error(backward, uneven(y.shape(), 9)) < 1e-9);
}

}  // namespace test
