// SPDX-License-Identifier: MIT
#include <tapehead/gradcheck.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tapehead/detail/differences.h>
#include <tapehead/detail/kernel.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/random.h>
#include <tapehead/tape.h>

namespace tapehead {
namespace {

using detail::Differences;
using detail::Values;
using detail::values_of;

Tensor tensor_of(const double* values, const Shape& shape) {
  return from_data(std::span<const double>(values, static_cast<std::size_t>(shape.numel())), shape);
}

// What is checked: copies of the inputs, and the parameters themselves, which are put back in the end.
class Subject {
 public:
  Subject(const char* caller, const TensorFunction& function, const std::vector<Tensor>& inputs,
          const std::vector<NamedTensor>& parameters)
      : caller_(caller), function_(function) {
    std::set<const detail::TensorBody*> seen;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::string name = fmt::format("input {}", i);
      arguments_.push_back(inputs[i].detach());
      if (!is_floating(inputs[i].dtype())) continue;
      check(name, inputs[i]);
      arguments_.back() = clone(arguments_.back());
      arguments_.back().requires_grad_();
      targets.push_back({name, arguments_.back()});
    }
    input_count_ = targets.size();
    for (const NamedTensor& parameter : parameters) {
      check(parameter.name, parameter.tensor);
      if (!parameter.tensor.is_leaf()) {
        throw GraphError(fmt::format("{}: parameter \"{}\" is a recorded result; only leaves can be checked", caller,
                                     parameter.name));
      }
      if (!seen.insert(parameter.tensor.ref().get()).second) continue;
      targets.push_back(parameter);
      const detail::TensorBody& body = parameter.tensor.body();
      kept_.push_back({parameter.tensor, values_of(parameter.tensor), body.grad, body.wants_grad});
      targets.back().tensor.requires_grad_();
    }
    if (targets.empty()) throw ValueError(fmt::format("{}: nothing to check, no input is floating", caller));
  }
  ~Subject() {
    for (Kept& kept : kept_) {
      detail::TensorBody& body = kept.tensor.body();
      // No version is counted: whoever saved this value finds it as it was.
      std::copy(kept.values.begin(), kept.values.end(), detail::fresh<double>(kept.tensor));
      body.grad = kept.grad;
      body.wants_grad = kept.wants_grad;
    }
  }
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  Tensor evaluate() const {
    Tensor out = function_(arguments_);
    if (out.dtype() != DType::f64) throw_dtype(caller_, "the function's result", out.dtype(), "f64");
    return out;
  }

  // Adds nothing to a scalar, but lets it depend on targets, so that one that it does not use has the gradient 0.
  Tensor with_unused(Tensor scalar, std::size_t first_target) const {
    for (std::size_t i = first_target; i < targets.size(); ++i) scalar = scalar + sum(targets[i].tensor * 0.0);
    return scalar;
  }

  std::vector<Tensor> leaves() const {
    std::vector<Tensor> out;
    for (const NamedTensor& target : targets) out.push_back(target.tensor);
    return out;
  }
  std::size_t input_count() const { return input_count_; }

  std::vector<NamedTensor> targets;

 private:
  struct Kept {
    Tensor tensor;
    Values values;
    detail::Ref<detail::TensorBody> grad;
    bool wants_grad;
  };

  void check(const std::string& name, const Tensor& x) const {
    if (x.dtype() != DType::f64) throw_dtype(caller_, name.c_str(), x.dtype(), "f64: f32 differences prove nothing");
  }

  const char* caller_;
  const TensorFunction& function_;
  std::vector<Tensor> arguments_;
  std::size_t input_count_ = 0;
  std::vector<Kept> kept_;
};

void check_options(const char* caller, const GradcheckOptions& options) {
  if (!(options.atol >= 0) || !(options.rtol >= 0)) {
    throw ValueError(fmt::format("{}: atol {} and rtol {} must not be negative", caller, options.atol, options.rtol));
  }
  if (!(options.step > 0) || !std::isfinite(options.step)) {
    throw ValueError(fmt::format("{}: step {} must be finite and above 0", caller, options.step));
  }
  if (options.directions < 0) {
    throw ValueError(fmt::format("{}: directions {} must not be negative", caller, options.directions));
  }
}

GradcheckResult compare_all(Differences& differences, const std::vector<NamedTensor>& targets,
                            const std::vector<Tensor>& gradients) {
  GradcheckResult result;
  for (std::size_t i = 0; i < targets.size(); ++i) result.rows.push_back(differences.check(targets[i], gradients[i]));
  return result;
}

}  // namespace

GradcheckResult gradcheck(const TensorFunction& function, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options, const std::vector<NamedTensor>& parameters) {
  const char* caller = "gradcheck";
  check_options(caller, options);
  const Subject subject(caller, function, inputs, parameters);
  const auto values = [&] {
    const NoGrad off;
    return values_of(subject.evaluate());
  };
  Differences differences(caller, values, options);
  const Tensor output = subject.evaluate();
  const Tensor weighted = sum(output * tensor_of(differences.weights().data(), output.shape()));
  const std::vector<Tensor> gradients = grad(subject.with_unused(weighted, subject.input_count()), subject.leaves());
  return compare_all(differences, subject.targets, gradients);
}

GradcheckResult gradgradcheck(const TensorFunction& function, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options, const std::vector<NamedTensor>& parameters) {
  const char* caller = "gradgradcheck";
  check_options(caller, options);
  const Subject subject(caller, function, inputs, parameters);
  // What comes from above takes part: a rule may lose the way to it and still be right about the inputs.
  Generator generator(options.seed);
  Tensor upstream = clone(subject.evaluate().detach());
  for (double& value : upstream.write<double>()) value = generator.uniform() + 0.5;
  upstream.requires_grad_();
  const auto gradients_of = [&](bool create_graph) {
    const Tensor weighted = sum(subject.evaluate() * upstream);
    return grad(subject.with_unused(weighted, subject.input_count()), subject.leaves(), {.create_graph = create_graph});
  };
  const auto values = [&] {
    Values all;
    for (const Tensor& gradient : gradients_of(false)) {
      const Values part = values_of(gradient);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  };
  Differences differences(caller, values, options);
  std::vector<NamedTensor> targets = subject.targets;
  targets.push_back({"output gradient", upstream});
  Tensor weighted = sum(upstream * 0.0);
  const double* weights = differences.weights().data();
  for (const Tensor& gradient : gradients_of(true)) {
    weighted = weighted + sum(gradient * tensor_of(weights, gradient.shape()));
    weights += gradient.numel();
  }
  std::vector<Tensor> leaves = subject.leaves();
  leaves.push_back(upstream);
  const std::vector<Tensor> second = grad(subject.with_unused(weighted, 0), leaves);
  return compare_all(differences, targets, second);
}

bool GradcheckResult::passed() const {
  return std::ranges::all_of(rows, [](const GradcheckRow& row) { return row.passed; });
}

std::string GradcheckResult::table() const {
  std::vector<std::vector<std::string>> lines = {
      {"name", "shape", "checked", "kinks", "worst at", "analytic", "numeric", "error", ""}};
  for (const GradcheckRow& row : rows) {
    std::vector<std::string>& line = lines.emplace_back(std::vector<std::string>{
        row.name, to_string(row.shape), fmt::format("{}", row.checked), fmt::format("{}", row.kinks), "-", "-", "-",
        "-", row.passed ? "passed" : fmt::format("FAILED at {}", row.failed)});
    if (row.checked == 0) continue;
    line[4] = fmt::format("[{}]", fmt::join(row.worst_index, ", "));
    line[5] = fmt::format("{:.10g}", row.analytic);
    line[6] = fmt::format("{:.10g}", row.numeric);
    line[7] = fmt::format("{:.1e}", row.error);
  }
  std::vector<std::size_t> widths(lines[0].size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : lines) {
    std::string out;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const bool is_number = i == 2 || i == 3 || (i >= 5 && i <= 7);
      out += is_number ? fmt::format("{:>{}}  ", line[i], widths[i]) : fmt::format("{:<{}}  ", line[i], widths[i]);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    text += out + '\n';
  }
  return text;
}

std::ostream& operator<<(std::ostream& stream, const GradcheckResult& result) { return stream << result.table(); }

}  // namespace tapehead
