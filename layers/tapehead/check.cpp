// SPDX-License-Identifier: MIT
#include <tapehead/check.h>

#include <algorithm>

#include <fmt/format.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/random.h>

namespace tapehead {

Tensor detail::all_results(const AttentionResult& result) {
  if (!result.weights.defined()) return result.output;
  return concat({reshape(result.output, {-1}), reshape(result.weights, {-1})});
}

GradcheckResult detail::gradcheck_module(const Module& module, const TensorFunction& call,
                                         const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  const std::vector<NamedTensor> parameters = module.parameters();
  for (const NamedTensor& parameter : parameters) {
    if (parameter.tensor.dtype() != DType::f64) {
      throw DTypeError(
          fmt::format("gradcheck: parameter {} is {}; check in f64, convert the module with "
                      "to(DType::f64)",
                      parameter.name, name_of(parameter.tensor.dtype())));
    }
  }
  Generator& generator = default_generator();
  const auto replay = [&, seed = generator.seed(), position = generator.position()](const std::vector<Tensor>& x) {
    generator.set_state(seed, position);
    return call(x);
  };
  return gradcheck(replay, inputs, options, parameters);
}

void detail::throw_input_count(std::size_t count) {
  throw ValueError(fmt::format("gradcheck: the module cannot be called with {} tensors", count));
}

std::vector<Tensor> orphans(const Tensor& output, const Module& model) {
  const std::vector<NamedTensor> listed = model.parameters();
  std::vector<Tensor> found = leaves(output);
  std::erase_if(found, [&](const Tensor& leaf) {
    return std::ranges::any_of(listed,
                               [&](const NamedTensor& own) { return own.tensor.ref().get() == leaf.ref().get(); });
  });
  return found;
}

}  // namespace tapehead
