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

/// What every optimizer shares. step() throws StateError naming all parameters that got no gradient (unless
/// .allow_missing_grad) or changed shape, before it changes any of them.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  void step();
  void zero_grad();
  double lr() const { return lr_; }
  /// Throws ValueError unless lr is finite and not negative.
  void set_lr(double lr);
  const std::vector<NamedTensor>& parameters() const { return parameters_; }

 protected:
  Optimizer(const char* name, std::vector<NamedTensor> parameters, double lr, bool allow_missing_grad);
  /// Updates one parameter from its gradient.
  virtual void update(std::size_t i, Tensor& parameter, const Tensor& gradient) = 0;
  /// Called once before the updates of a step.
  virtual void begin_step() {}

  const char* name_;
  std::vector<NamedTensor> parameters_;
  double lr_;
  bool allow_missing_grad_;
};

struct SGDOptions {
  double lr = 1e-2;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool allow_missing_grad = false;
};
/// Stochastic gradient descent with momentum, PyTorch's update: velocity = momentum * velocity + (1 - dampening) * g.
class SGD : public Optimizer {
 public:
  explicit SGD(std::vector<NamedTensor> parameters, const SGDOptions& options = {});

 private:
  void update(std::size_t i, Tensor& parameter, const Tensor& gradient) override;
  SGDOptions options_;
  std::vector<Tensor> velocity_;
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;  ///< Adam: added to the gradient; AdamW: taken off the weights, 1e-2 there by default
  bool allow_missing_grad = false;
};
/// Kingma and Ba 2015 (arXiv:1412.6980).
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<NamedTensor> parameters, const AdamOptions& options = {});

 protected:
  Adam(const char* name, std::vector<NamedTensor> parameters, const AdamOptions& options, bool decoupled_decay);

 private:
  void begin_step() override;
  void update(std::size_t i, Tensor& parameter, const Tensor& gradient) override;
  AdamOptions options_;
  bool decoupled_decay_;
  std::vector<Tensor> first_;   // moments, made at the first step
  std::vector<Tensor> second_;
  std::int64_t steps_ = 0;
};

/// Loshchilov and Hutter 2019 (arXiv:1711.05101).
class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<NamedTensor> parameters, const AdamOptions& options = {.weight_decay = 1e-2});
};

/// Scales all gradients down together so that their common 2-norm is at most max_norm; returns the norm before.
/// Parameters without a gradient are skipped. Throws ValueError unless max_norm > 0.
double clip_grad_norm(const std::vector<NamedTensor>& parameters, double max_norm);

}  // namespace tapehead
