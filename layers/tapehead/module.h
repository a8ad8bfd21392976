// SPDX-License-Identifier: MIT
// Models as plain structs: parameters and layers are members, and one function names them. Copying a model copies its
// weights, moving keeps them, and nothing is registered or cached, so nothing goes stale.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <tapehead/optim.h>
#include <tapehead/tensor.h>

namespace tapehead {

/// A leaf that wants a gradient. Copying makes another leaf with the same values; moving hands over the leaf itself;
/// assigning writes values into the leaf that is there, so that optimizers and other handles see them. A handle to the
/// same leaf is a Tensor: `Tensor w = layer.weight;`.
class Parameter : public Tensor {
 public:
  /// Holds nothing: a bias that a layer does without. Modules leave it out of their lists.
  Parameter() = default;
  /// A leaf with a copy of these values. Throws DTypeError unless they are f32 or f64.
  explicit Parameter(const Tensor& values);
  Parameter(const Parameter& other);
  Parameter(Parameter&&) noexcept = default;
  Parameter& operator=(Parameter&&) & noexcept = default;
  /// Writes the values in place; an empty parameter becomes a leaf with a copy of them. Throws ShapeError or DTypeError
  /// if they differ from what is there.
  Parameter& operator=(const Parameter& other) &;
  Parameter& operator=(const Tensor& values) &;
};

class Module;

/// What Module::members() calls with each member, in order: m("weight", weight). Names of layers inside layers are
/// joined with dots, and a vector's elements are called 0, 1 and so on: "blocks.0.attention.W_q".
class Members {
 public:
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  void operator()(std::string_view name, Parameter& parameter);
  void operator()(std::string_view name, Module& child);
  template <class M>
  void operator()(std::string_view name, std::vector<M>& list) {
    const std::size_t outer = enter(name);
    for (std::size_t i = 0; i < list.size(); ++i) (*this)(std::to_string(i), list[i]);
    leave(outer);
  }

 protected:
  Members() = default;
  ~Members() = default;

 private:
  virtual void on_parameter(const std::string& /*name*/, Parameter& /*parameter*/) {}
  virtual void on_module(Module& /*module*/) {}

  std::size_t enter(std::string_view name);
  void leave(std::size_t outer);
  std::string path_;
};

/// Base of layers and models. A layer adds its members, a call operator, and one line for each member:
///
///     struct Model : Module {
///       Linear hidden{2, 16}, out{16, 1};
///       Tensor operator()(const Tensor& x) const { return out(relu(hidden(x))); }
///       void members(Members& m) override { m("hidden", hidden), m("out", out); }
///     };
///
/// A member without its line is never trained or saved; orphans() (check.h) finds it. `best = model` assigns member by
/// member and stops at the first that does not fit; load_state() checks all of them first. `model = Model()` takes over
/// the leaves of the new model, so make the optimizer afterwards.
class Module {
 public:
  Module() = default;
  Module(const Module&) = default;
  Module(Module&&) = default;
  Module& operator=(const Module&) = default;
  Module& operator=(Module&&) = default;
  virtual ~Module() = default;

  /// Hands every parameter and layer inside to `members`, in the order in which lists and files show them.
  virtual void members(Members& /*members*/) {}

  /// Whether layers behave as in training; only dropout asks. train() and eval() set it here and in all layers inside.
  bool training = true;
  void train();
  void eval();

  /// Handles to all parameters with their full names, which messages and the printed tape use from then on. Throws
  /// StateError when two have one name or one is listed twice.
  std::vector<NamedTensor> parameters() const;
  /// Elements in all parameters.
  Index parameter_count() const;
  /// Gives all parameters this element type: new leaves, so do it before making an optimizer. Throws DTypeError
  /// unless it is f32 or f64.
  void to(DType dtype);
  /// Writes values by name. Throws StateError with a table of all missing and unexpected names and of other shapes and
  /// types, and then the model is as it was.
  void load_state(const std::vector<NamedTensor>& state);

  /// All parameters by name in a safetensors file (safetensors.h), which Python's libraries read too, with free text
  /// beside them. The old file stays until the new one is whole. Throws IoError.
  void save_weights(const std::string& path, const std::map<std::string, std::string>& metadata = {}) const;
  /// load_state() with what such a file holds, however it came about; returns its metadata. Throws IoError, FormatError
  /// for a damaged file, and StateError with load_state's table; then the model is as it was.
  std::map<std::string, std::string> load_weights(const std::string& path);
};

}  // namespace tapehead
