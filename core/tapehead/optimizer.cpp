// SPDX-License-Identifier: MIT
// What every optimizer shares: its parameters, their groups, and the checks around a step.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include <tapehead/detail/body.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/optim.h>

namespace tapehead {
namespace {

void check_rate(const char* name, double lr) {
  if (!(lr >= 0) || !std::isfinite(lr)) {
    throw ValueError(fmt::format("{}: lr {} must be finite and not negative", name, lr));
  }
}

void check_parameter(const char* name, const NamedTensor& parameter) {
  if (!parameter.tensor.defined()) {
    throw StateError(fmt::format("{}: parameter \"{}\" is an empty tensor", name, parameter.name));
  }
  const Tensor& tensor = parameter.tensor;
  if (!is_floating(tensor.dtype())) {
    throw_dtype(name, fmt::format("parameter \"{}\"", parameter.name).c_str(), tensor.dtype(), "f32 or f64");
  }
  if (!tensor.is_leaf()) {
    throw GraphError(
        fmt::format("{}: parameter \"{}\" {} is a recorded result; only leaves can be trained, use detach()", name,
                    parameter.name, to_string(tensor.shape())));
  }
}

}  // namespace

std::vector<ParameterGroup> decay_groups(const std::vector<NamedTensor>& parameters, double weight_decay,
                                         const std::vector<std::string>& no_decay) {
  if (!(weight_decay >= 0) || !std::isfinite(weight_decay)) {
    throw ValueError(fmt::format("decay_groups: weight_decay {} must be finite and not negative", weight_decay));
  }
  const auto contains = [](const NamedTensor& parameter, const std::string& part) {
    return parameter.name.find(part) != std::string::npos;
  };
  for (const std::string& part : no_decay) {
    if (std::ranges::none_of(parameters, [&](const NamedTensor& parameter) { return contains(parameter, part); })) {
      throw ValueError(fmt::format("decay_groups: no parameter's name contains \"{}\"", part));
    }
  }
  std::vector<ParameterGroup> groups = {{.parameters = {}, .weight_decay = weight_decay},
                                        {.parameters = {}, .weight_decay = 0}};
  for (const NamedTensor& parameter : parameters) {
    const bool excepted =
        std::ranges::any_of(no_decay, [&](const std::string& part) { return contains(parameter, part); });
    groups[parameter.tensor.rank() >= 2 && !excepted ? 0 : 1].parameters.push_back(parameter);
  }
  return groups;
}

Optimizer::Optimizer(const char* name, const ParameterGroups& parameters, double lr, double weight_decay,
                     bool allow_missing_grad, std::vector<std::string> buffers, double initial)
    : name_(name), buffers_(std::move(buffers)), lr_(lr), allow_missing_grad_(allow_missing_grad) {
  check_rate(name, lr);
  check_not_negative(name, "weight_decay", weight_decay);
  std::map<const detail::TensorBody*, const ParameterGroup*> seen;
  for (const ParameterGroup& group : parameters.groups()) {
    const Scales scales{group.lr_scale, group.weight_decay.value_or(weight_decay)};
    check_not_negative(name, "lr_scale", scales.lr);
    check_not_negative(name, "weight_decay", scales.weight_decay);
    for (const NamedTensor& parameter : group.parameters) {
      check_parameter(name, parameter);
      const auto [first, fresh] = seen.insert({parameter.tensor.ref().get(), &group});
      if (first->second != &group) {
        throw ValueError(fmt::format("{}: parameter \"{}\" is in two groups; leave it in one", name, parameter.name));
      }
      if (!fresh) continue;
      parameters_.push_back(parameter);
      shapes_.push_back(parameter.tensor.shape());
      scales_.push_back(scales);
      State& state = states_.emplace_back();
      for (std::size_t b = 0; b < buffers_.size(); ++b) {
        state.buffers.push_back(full(parameter.tensor.shape(), initial, parameter.tensor.dtype()));
      }
    }
  }
  if (parameters_.empty()) throw ValueError(fmt::format("{}: the list of parameters is empty", name));
}

void Optimizer::check_not_negative(const char* name, const char* option, double value) {
  if (!(value >= 0) || !std::isfinite(value)) {
    throw ValueError(fmt::format("{}: {} {} must be finite and not negative", name, option, value));
  }
}

void Optimizer::check_share(const char* name, const char* option, double value) {
  if (!(value >= 0 && value < 1)) throw ValueError(fmt::format("{}: {} {} must be in [0, 1)", name, option, value));
}

void Optimizer::check_positive(const char* name, const char* option, double value) {
  if (!(value > 0) || !std::isfinite(value)) {
    throw ValueError(fmt::format("{}: {} {} must be finite and above 0", name, option, value));
  }
}

void Optimizer::set_lr(double lr) {
  check_rate(name_, lr);
  lr_ = lr;
}

void Optimizer::zero_grad() {
  for (NamedTensor& parameter : parameters_) parameter.tensor.zero_grad();
}

void Optimizer::check_step() const {
  std::string missing;
  std::string changed;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const detail::TensorBody& body = parameters_[i].tensor.body();
    if (!body.wants_grad) continue;
    if (!body.grad) {
      if (!allow_missing_grad_) missing += fmt::format("{}\"{}\"", missing.empty() ? "" : ", ", parameters_[i].name);
    } else if (body.shape != shapes_[i] || body.grad->shape != body.shape || body.grad->dtype != body.dtype) {
      changed += fmt::format("{}\"{}\" was {}, is {} {} with a gradient {} {}", changed.empty() ? "" : ", ",
                             parameters_[i].name, to_string(shapes_[i]), to_string(body.shape), name_of(body.dtype),
                             to_string(body.grad->shape), name_of(body.grad->dtype));
    }
  }
  if (!missing.empty()) {
    throw StateError(
        fmt::format("{}.step: no gradient for {}; call backward() on a loss that uses them, or set "
                    ".allow_missing_grad",
                    name_, missing));
  }
  if (!changed.empty()) {
    throw StateError(fmt::format("{}.step: {}; make a new optimizer for a changed parameter", name_, changed));
  }
}

void Optimizer::step() {
  check_step();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Tensor& parameter = parameters_[i].tensor;
    if (!parameter.body().wants_grad || !parameter.body().grad) continue;
    ++states_[i].steps;
    update(i, parameter, parameter.grad(), states_[i]);
  }
  zero_grad();
}

std::vector<NamedTensor> Optimizer::state() const {
  const NoGrad off;
  std::vector<NamedTensor> out;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::string& name = parameters_[i].name;
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      out.push_back({name + "." + buffers_[b], clone(states_[i].buffers[b])});
    }
    out.push_back({name + ".step", full({}, static_cast<double>(states_[i].steps), DType::i64)});
  }
  return out;
}

void Optimizer::load_state(const std::vector<NamedTensor>& state) {
  std::vector<NamedTensor> own = this->state();
  write_by_name(fmt::format("{}.load_state", name_), own, state);
  std::size_t at = 0;
  for (State& one : states_) {
    for (Tensor& buffer : one.buffers) buffer = own[at++].tensor;
    one.steps = static_cast<std::int64_t>(own[at++].tensor.item());
  }
}

}  // namespace tapehead
