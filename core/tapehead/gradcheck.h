// SPDX-License-Identifier: MIT
// Compares gradients from the tape with finite differences, in f64.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include <tapehead/named_tensor.h>
#include <tapehead/tensor.h>

namespace tapehead {

struct GradcheckOptions {
  double atol = 1e-8;
  double rtol = 1e-6;      ///< an element passes when |analytic - numeric| <= atol + rtol * |numeric|
  double step = 1e-3;      ///< of the five-point differences; refined where two step sizes disagree
  int directions = 0;      ///< 0: the whole Jacobian, element by element; n: that many random directions per input
  std::uint64_t seed = 0;  ///< of the directions and the weights that make a scalar of the output
};

/// What became of one input or parameter.
struct GradcheckRow {
  std::string name;
  Shape shape;
  std::int64_t checked = 0;  ///< elements or directions compared
  std::int64_t kinks = 0;    ///< elements left out because the function bends there: slopes left and right differ
  std::int64_t failed = 0;
  std::vector<Index> worst_index;  ///< of the largest error in units of its tolerance
  double analytic = 0;             ///< at worst_index
  double numeric = 0;
  double error = 0;  ///< |analytic - numeric|
  bool passed = true;
};

struct GradcheckResult {
  std::vector<GradcheckRow> rows;
  bool passed() const;
  explicit operator bool() const { return passed(); }
  /// One line for each input: name, shape, elements checked, kinks, worst element, both values, error, verdict.
  std::string table() const;
};
std::ostream& operator<<(std::ostream& stream, const GradcheckResult& result);

using TensorFunction = std::function<Tensor(const std::vector<Tensor>&)>;

/// Checks d(function)/d(input) for every floating input, and for each of `parameters` that the function uses besides.
/// Inputs and parameters must be f64 (DTypeError): f32 differences prove nothing. The output may have any shape; it is
/// weighted unevenly and summed. Throws GraphError if the function's result does not depend on an input.
/// Parameters keep their values and gradients.
GradcheckResult gradcheck(const TensorFunction& function, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options = {}, const std::vector<NamedTensor>& parameters = {});

/// The same for second derivatives: checks the gradients' own gradients.
GradcheckResult gradgradcheck(const TensorFunction& function, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options = {}, const std::vector<NamedTensor>& parameters = {});

}  // namespace tapehead
