// SPDX-License-Identifier: MIT
// The numeric half of gradcheck: derivatives by five-point differences whose steps adapt, and kinks told apart.
#pragma once

#include <functional>
#include <vector>

#include <tapehead/gradcheck.h>
#include <tapehead/random.h>

namespace tapehead::detail {

using Values = std::vector<double>;

/// The elements of an f64 tensor.
Values values_of(const Tensor& x);

class Line;
struct Stencil;

/// Compares a function of tensors that are written in place with the gradients that the tape gave for it.
class Differences {
 public:
  /// `evaluate` gives all outputs, flat. Throws StateError if a second call gives other bits.
  Differences(const char* caller, std::function<Values()> evaluate, const GradcheckOptions& options);

  /// What each output counts in the scalar that is differentiated.
  const Values& weights() const { return weights_; }
  /// Moves each element of the target (or all along directions) and puts it back.
  GradcheckRow check(const NamedTensor& target, const Tensor& gradient);

 private:
  double uneven();
  Values random_direction(std::size_t n);
  double tolerance(double numeric) const { return options_.atol + options_.rtol * std::abs(numeric); }
  void check_size(const Values& values) const;
  Values at(Line& line, double distance) const;
  Stencil measure(Line& line, double h) const;
  bool may_be_kink(const Stencil& stencil) const;
  bool is_kink(const Stencil& fine, const Stencil& coarse) const;
  bool choose(Stencil& chosen, Line& line) const;
  void compare(GradcheckRow& row, double& worst, Line& line, double analytic, const std::vector<Index>& where) const;

  const char* caller_;
  std::function<Values()> evaluate_;
  GradcheckOptions options_;
  Generator generator_;
  Values start_;
  Values weights_;
};

}  // namespace tapehead::detail
