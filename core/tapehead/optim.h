// SPDX-License-Identifier: MIT
// Optimizers. They know tensors with names, not modules, and they use gradients up: after step() the gradients are
// gone, so forgetting zero_grad() is harmless.
#pragma once

#include <string>
#include <vector>

#include <tapehead/tensor.h>

namespace tapehead {

/// A parameter and what messages and files call it.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// What every optimizer shares. Parameters are leaves in f32 or f64; one that is listed twice (shared by two layers)
/// is updated once, under its first name, and one with requires_grad() off is left alone. Constructors throw
/// ValueError for numbers without sense and for an empty list, DTypeError and GraphError for other tensors.
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

 protected:
  Optimizer(const char* name, std::vector<NamedTensor> parameters, double lr, bool allow_missing_grad);
  /// Updates one parameter from its gradient; must not throw.
  virtual void update(std::size_t i, Tensor& parameter, const Tensor& gradient) = 0;

 private:
  void check_step() const;

  const char* name_;
  std::vector<NamedTensor> parameters_;
  std::vector<Shape> shapes_;  // at construction, when the moments were made
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
  explicit SGD(std::vector<NamedTensor> parameters, const SGDOptions& options = {});

 private:
  struct Velocity {
    Tensor value;
    bool started = false;
  };
  void update(std::size_t i, Tensor& parameter, const Tensor& gradient) override;
  SGDOptions options_;
  std::vector<Velocity> velocities_;  // none without momentum
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
  explicit Adam(std::vector<NamedTensor> parameters, const AdamOptions& options = {});

 protected:
  Adam(const char* name, std::vector<NamedTensor> parameters, const AdamOptions& options, bool decoupled_decay);

 private:
  struct Moments {
    Tensor first;
    Tensor second;
    std::int64_t steps = 0;
  };
  void update(std::size_t i, Tensor& parameter, const Tensor& gradient) override;
  AdamOptions options_;
  bool decoupled_decay_;
  std::vector<Moments> moments_;
  std::int64_t corrected_steps_ = 0;  // that the corrections below belong to
  double correction1_ = 1;            // 1 - beta1^steps
  double correction2_ = 1;
};

/// Loshchilov and Hutter 2019 (arXiv:1711.05101).
class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<NamedTensor> parameters, const AdamOptions& options = {.weight_decay = 1e-2});
};

/// Scales all gradients down together so that their common 2-norm is at most max_norm; returns the norm before.
/// Parameters without a gradient are skipped, one listed twice counts once. A norm that is not finite changes nothing:
/// look at the result. Throws ValueError unless max_norm > 0.
double clip_grad_norm(const std::vector<NamedTensor>& parameters, double max_norm);

}  // namespace tapehead
