// SPDX-License-Identifier: MIT
#include <tapehead/module.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/safetensors.h>

namespace tapehead {
namespace {

// What messages call a parameter that no parameters() has named yet.
std::string_view title(const Tensor& parameter) { return parameter.name().empty() ? "parameter" : parameter.name(); }

void write_values(Tensor& to, const Tensor& from) {
  visit_any(to.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::ranges::copy(from.read<T>(), to.write<T>().begin());
  });
}

Parameter in_type(const Parameter& parameter, DType dtype) {
  const NoGrad off;
  Parameter out(to(parameter, dtype));
  out.requires_grad_(parameter.requires_grad());
  out.set_name(parameter.name());
  return out;
}

class SetTraining final : public Members {
 public:
  explicit SetTraining(bool training) : training_(training) {}
  void on_module(Module& module) override { module.training = training_; }

 private:
  bool training_;
};

class Convert final : public Members {
 public:
  explicit Convert(DType dtype) : dtype_(dtype) {}

 private:
  void on_parameter(const std::string& /*name*/, Parameter& parameter) override {
    if (parameter.dtype() != dtype_) parameter = in_type(parameter, dtype_);
  }
  DType dtype_;
};

class List final : public Members {
 public:
  std::vector<NamedTensor> parameters;

 private:
  void on_parameter(const std::string& name, Parameter& parameter) override {
    if (!names_.insert(name).second) {
      throw StateError(fmt::format("parameters: two members are called {}; give each its own name", name));
    }
    const auto [first, fresh] = leaves_.insert({parameter.ref().get(), name});
    if (!fresh) {
      throw StateError(
          fmt::format("parameters: {} and {} are one parameter; list it once and use it twice", first->second, name));
    }
    if (parameter.name() != name) parameter.set_name(name);
    parameters.push_back({name, parameter});
  }
  std::set<std::string> names_;
  std::map<const void*, std::string> leaves_;
};

void set_training(Module& module, bool training) {
  SetTraining setter(training);
  module.training = training;
  module.members(setter);
}

}  // namespace

Parameter::Parameter(const Tensor& values) {
  const NoGrad off;
  Tensor::operator=(clone(values));
  requires_grad_();
}

Parameter::Parameter(const Parameter& other) : Tensor() {
  if (!other.defined()) return;
  *this = Parameter(static_cast<const Tensor&>(other));
  requires_grad_(other.requires_grad());
  if (!other.name().empty()) set_name(other.name());
}

Parameter& Parameter::operator=(const Parameter& other) & {
  if (!defined()) return *this = Parameter(other);
  return *this = static_cast<const Tensor&>(other);
}

Parameter& Parameter::operator=(const Tensor& values) & {
  if (!defined()) return *this = Parameter(values);
  if (ref().get() == values.ref().get()) return *this;
  if (shape() != values.shape()) {
    throw ShapeError(fmt::format("assignment: {} {} cannot take values {}; shapes must be equal", title(*this),
                                 to_string(shape()), to_string(values.shape())));
  }
  if (dtype() != values.dtype()) {
    throw DTypeError(fmt::format("assignment: {} is {}, the values are {}; convert one of them with to()", title(*this),
                                 name_of(dtype()), name_of(values.dtype())));
  }
  write_values(*this, values);
  return *this;
}

std::size_t Members::enter(std::string_view name) {
  const std::size_t outer = path_.size();
  if (outer > 0) path_ += '.';
  path_ += name;
  return outer;
}

void Members::leave(std::size_t outer) { path_.resize(outer); }

void Members::operator()(std::string_view name, Parameter& parameter) {
  if (!parameter.defined()) return;
  const std::size_t outer = enter(name);
  on_parameter(path_, parameter);
  leave(outer);
}

void Members::operator()(std::string_view name, Module& child) {
  const std::size_t outer = enter(name);
  on_module(child);
  child.members(*this);
  leave(outer);
}

void Module::train() { set_training(*this, true); }
void Module::eval() { set_training(*this, false); }

std::vector<NamedTensor> Module::parameters() const {
  List list;
  // Listing changes no member; members() is not const because other visits do.
  const_cast<Module*>(this)->members(list);
  return std::move(list.parameters);
}

Index Module::parameter_count() const {
  Index count = 0;
  for (const NamedTensor& parameter : parameters()) count += parameter.tensor.numel();
  return count;
}

void Module::to(DType dtype) {
  if (!is_floating(dtype)) throw_dtype("to", "the element type of parameters", dtype, "f32 or f64");
  Convert convert(dtype);
  members(convert);
}

void Module::load_state(const std::vector<NamedTensor>& state) {
  std::vector<NamedTensor> own = parameters();
  write_by_name("load_state", own, state);
}

void Module::save_weights(const std::string& path, const std::map<std::string, std::string>& metadata) const {
  save_safetensors(path, parameters(), metadata);
}

std::map<std::string, std::string> Module::load_weights(const std::string& path) {
  Safetensors file = load_safetensors(path);
  try {
    load_state(file.tensors);
  } catch (const StateError& error) {
    throw StateError(fmt::format("load_weights: {}: {}", path, error.what()));
  }
  return std::move(file.metadata);
}

}  // namespace tapehead
