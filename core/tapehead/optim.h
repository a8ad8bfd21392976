// SPDX-License-Identifier: MIT
// Optimizers. They know tensors with names, not modules, and they use gradients up: after step() the gradients are
// gone, so forgetting zero_grad() is harmless. Two patterns that need no interface:
//
//     // gradient accumulation: backward() adds to what is there
//     for (const Batch& part : parts) (loss_of(part) / 4).backward();
//     optimizer.step();
//
//     // a step without finite gradients is skipped; clip_grad_norm left them alone
//     if (std::isfinite(clip_grad_norm(optimizer.parameters(), 1.0))) optimizer.step();
//     else optimizer.zero_grad();
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include <tapehead/named_tensor.h>

namespace tapehead {

/// Parameters that an optimizer treats alike and unlike others.
struct ParameterGroup {
  std::vector<NamedTensor> parameters;
  double lr_scale = 1;                      ///< times the optimizer's lr
  std::optional<double> weight_decay = {};  ///< in place of the optimizer's
};

/// What optimizers take: parameters, or groups of them.
class ParameterGroups {
 public:
  ParameterGroups() = default;
  ParameterGroups(std::vector<NamedTensor> parameters) { groups_.push_back({std::move(parameters)}); }
  ParameterGroups(std::initializer_list<NamedTensor> parameters)
      : ParameterGroups(std::vector<NamedTensor>(parameters)) {}
  ParameterGroups(std::vector<ParameterGroup> groups) : groups_(std::move(groups)) {}
  ParameterGroups(std::initializer_list<ParameterGroup> groups) : groups_(groups) {}

  const std::vector<ParameterGroup>& groups() const { return groups_; }

 private:
  std::vector<ParameterGroup> groups_;
};

/// Two groups: parameters of rank 2 and above, which decay, and the others (biases, norms), which do not. Names that
/// contain one of `no_decay` do not either. GPT-2's and BERT's practice. Throws ValueError for a weight_decay without
/// sense and for a `no_decay` that no name contains.
std::vector<ParameterGroup> decay_groups(const std::vector<NamedTensor>& parameters, double weight_decay,
                                         const std::vector<std::string>& no_decay = {});

/// What every optimizer shares. Parameters are leaves in f32 or f64; one that is listed twice (shared by two layers)
/// is updated once, under its first name, and one with requires_grad() off is left alone. Constructors throw
/// ValueError for numbers without sense, for an empty list and for a parameter in two groups, DTypeError and GraphError
/// for other tensors.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter in place and drops the gradients. Before it changes anything it throws StateError naming
  /// all parameters that got no gradient (unless .allow_missing_grad) or whose shape or dtype changed.
  void step();
  void zero_grad();
  double lr() const { return lr_; }
  /// Throws ValueError unless lr is finite and not negative.
  void set_lr(double lr);
  const std::vector<NamedTensor>& parameters() const { return parameters_; }

  /// What the optimizer remembers, under the parameters' names: "linear.weight.exp_avg" and so on, and the number of
  /// steps as "linear.weight.step", i64. Copies; to save beside the weights.
  std::vector<NamedTensor> state() const;
  /// Goes on from such a state. Throws StateError with a table of all names and shapes that do not fit, and then
  /// nothing has changed.
  void load_state(const std::vector<NamedTensor>& state);

 protected:
  /// What an optimizer remembers of one parameter from step to step.
  struct State {
    std::vector<Tensor> buffers;  // shaped like the parameter
    std::int64_t steps = 0;       // that it had a gradient in, this one included
  };
  /// `buffers`: PyTorch's names of what is remembered; it starts at `initial`.
  Optimizer(const char* name, const ParameterGroups& parameters, double lr, double weight_decay,
            bool allow_missing_grad, std::vector<std::string> buffers, double initial = 0);
  /// The lr and the weight decay of the i-th parameter.
  double lr(std::size_t i) const { return lr_ * scales_[i].lr; }
  double weight_decay(std::size_t i) const { return scales_[i].weight_decay; }
  /// Throw ValueError unless an option makes sense.
  static void check_not_negative(const char* name, const char* option, double value);
  static void check_share(const char* name, const char* option, double value);  // in [0, 1)
  static void check_positive(const char* name, const char* option, double value);
  /// Updates one parameter from its gradient; must not throw.
  virtual void update(std::size_t i, Tensor& parameter, const Tensor& gradient, State& state) = 0;

 private:
  struct Scales {
    double lr;
    double weight_decay;
  };
  void check_step() const;

  const char* name_;
  std::vector<NamedTensor> parameters_;
  std::vector<Shape> shapes_;   // at construction, when the moments were made
  std::vector<Scales> scales_;  // what their groups say
  std::vector<std::string> buffers_;
  std::vector<State> states_;
  double lr_;
  bool allow_missing_grad_;
};

struct SGDOptions {
  double lr = 1e-2;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;  ///< times the weights, added to the gradient
  bool nesterov = false;    ///< needs momentum, and no dampening
  bool allow_missing_grad = false;
};
/// Stochastic gradient descent with momentum, PyTorch's update: velocity = momentum * velocity + (1 - dampening) * g,
/// and the first velocity is g itself. Nesterov's form as in Sutskever et al. 2013 (ICML, "On the importance of
/// initialization and momentum in deep learning").
class SGD : public Optimizer {
 public:
  explicit SGD(const ParameterGroups& parameters, const SGDOptions& options = {});

 private:
  void update(std::size_t i, Tensor& parameter, const Tensor& gradient, State& state) override;
  SGDOptions options_;
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;  ///< Adam: added to the gradient; AdamW: taken off the weights, 1e-2 there by default
  bool allow_missing_grad = false;
};
/// Kingma and Ba 2015 (arXiv:1412.6980), algorithm 1. A step that a parameter misses does not count in its bias
/// corrections.
class Adam : public Optimizer {
 public:
  explicit Adam(const ParameterGroups& parameters, const AdamOptions& options = {});

 protected:
  Adam(const char* name, const ParameterGroups& parameters, const AdamOptions& options, bool decoupled_decay);

 private:
  void update(std::size_t i, Tensor& parameter, const Tensor& gradient, State& state) override;
  AdamOptions options_;
  bool decoupled_decay_;
  std::int64_t corrected_steps_ = 0;  // that the corrections below belong to
  double correction1_ = 1;            // 1 - beta1^steps
  double correction2_ = 1;
};

/// Loshchilov and Hutter 2019 (arXiv:1711.05101).
class AdamW : public Adam {
 public:
  explicit AdamW(const ParameterGroups& parameters, const AdamOptions& options = {.weight_decay = 1e-2});
};

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;      ///< lr / (1 + steps before * lr_decay)
  double weight_decay = 0;  ///< times the weights, added to the gradient
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool allow_missing_grad = false;
};
/// Duchi, Hazan and Singer 2011 (JMLR 12, "Adaptive Subgradient Methods"): each weight's rate falls with the root of
/// the sum of its squared gradients. PyTorch's update.
class Adagrad : public Optimizer {
 public:
  explicit Adagrad(const ParameterGroups& parameters, const AdagradOptions& options = {});

 private:
  void update(std::size_t i, Tensor& parameter, const Tensor& gradient, State& state) override;
  AdagradOptions options_;
};

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;  ///< share of the old mean square that stays
  double eps = 1e-8;
  double weight_decay = 0;  ///< times the weights, added to the gradient
  double momentum = 0;
  bool centered = false;  ///< divide by the deviation instead of the root mean square (Graves 2013, arXiv:1308.0850)
  bool allow_missing_grad = false;
};
/// Hinton 2012 (lecture 6e of "Neural Networks for Machine Learning"): gradients over the root of their running mean
/// square. PyTorch's update.
class RMSprop : public Optimizer {
 public:
  explicit RMSprop(const ParameterGroups& parameters, const RMSpropOptions& options = {});

 private:
  void update(std::size_t i, Tensor& parameter, const Tensor& gradient, State& state) override;
  RMSpropOptions options_;
};

struct LionOptions {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;  ///< taken off the weights, times lr
  bool allow_missing_grad = false;
};
/// Chen et al. 2023 (arXiv:2302.06675), algorithm 2: steps of one size along the sign of the momentum.
class Lion : public Optimizer {
 public:
  explicit Lion(const ParameterGroups& parameters, const LionOptions& options = {});

 private:
  void update(std::size_t i, Tensor& parameter, const Tensor& gradient, State& state) override;
  LionOptions options_;
};

/// Scales all gradients down together so that their common 2-norm is at most max_norm; returns the norm before.
/// Parameters without a gradient are skipped, one listed twice counts once. A norm that is not finite changes nothing:
/// look at the result. Throws ValueError unless max_norm > 0.
double clip_grad_norm(const std::vector<NamedTensor>& parameters, double max_norm);

}  // namespace tapehead
