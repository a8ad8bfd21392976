// SPDX-License-Identifier: MIT
// Averages of weights over the steps of training, which are often better than the last weights.
#pragma once

#include <vector>

#include <tapehead/optim.h>

namespace tapehead {

/// An exponential moving average of parameters: average = decay * average + (1 - decay) * parameter (Polyak and
/// Juditsky 1992, "Acceleration of stochastic approximation by averaging", in its exponential form; PyTorch's
/// AveragedModel with get_ema_multi_avg_fn). It starts as a copy of the parameters.
///
///     MovingAverage average(model.parameters(), 0.999);
///     ...
///     optimizer.step();
///     average.update();
///     ...
///     {
///       const AveragedWeights averaged(average);  // the model computes with the averages
///       evaluate(model);
///     }                                           // and again with its own weights
class MovingAverage {
 public:
  /// Throws ValueError unless decay is in [0, 1) and there are parameters, DTypeError unless they are f32 or f64.
  MovingAverage(const std::vector<NamedTensor>& parameters, double decay);

  /// Takes the parameters' values in. Throws StateError while AveragedWeights lives and if a shape or type changed.
  void update();
  /// The averages under the parameters' names, to save or to load into another model. While AveragedWeights lives,
  /// they hold the parameters' own values.
  const std::vector<NamedTensor>& averages() const { return averages_; }
  /// Takes averages() that were saved, by name. Throws StateError with a table of names, shapes and types that differ,
  /// and while AveragedWeights lives; then nothing has changed.
  void load_averages(const std::vector<NamedTensor>& averages);

 private:
  friend class AveragedWeights;
  void check(const char* op) const;
  void swap() noexcept;

  double decay_;
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> averages_;
  bool swapped_ = false;
};

/// While it lives, the parameters hold their averages. Throws StateError if they already do.
class [[nodiscard]] AveragedWeights {
 public:
  explicit AveragedWeights(MovingAverage& average);
  ~AveragedWeights();
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  MovingAverage& average_;
};

}  // namespace tapehead
