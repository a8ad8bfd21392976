// SPDX-License-Identifier: MIT
// Checks of whole modules: gradients against finite differences, and parameters that nobody listed.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>
#include <vector>

#include <tapehead/attention.h>
#include <tapehead/gradcheck.h>
#include <tapehead/module.h>
#include <tapehead/tape.h>

namespace tapehead {

namespace detail {
template <class M>
concept IsModule = std::derived_from<std::remove_cvref_t<M>, Module>;

inline Tensor all_results(Tensor output) { return output; }
/// Output and weights in one vector, so that both are checked.
Tensor all_results(const AttentionResult& result);

GradcheckResult gradcheck_module(const Module& module, const TensorFunction& call, const std::vector<Tensor>& inputs,
                                 const GradcheckOptions& options);
[[noreturn]] void throw_input_count(std::size_t count);

template <class M, std::size_t... I>
Tensor call_module(M& module, const std::vector<Tensor>& inputs, std::index_sequence<I...>) {
  if constexpr (std::is_invocable_v<M&, decltype(inputs[I])...>) {
    return all_results(module(inputs[I]...));
  } else {
    throw_input_count(inputs.size());
  }
}
}  // namespace detail

/// Checks d(module(inputs...))/d(parameter) for every parameter, by name, and the same for every floating input.
/// Module and inputs must be f64: DTypeError says to use to(DType::f64). The module takes up to four tensors and
/// returns a Tensor or an AttentionResult; ValueError for a number of inputs that it does not take. Random numbers of
/// the default generator are the same in every call, so that dropout is checked like the rest.
template <detail::IsModule M>
GradcheckResult gradcheck(M&& module, const std::vector<Tensor>& inputs, const GradcheckOptions& options = {}) {
  const auto call = [&module](const std::vector<Tensor>& x) -> Tensor {
    switch (x.size()) {
      case 1: return detail::call_module(module, x, std::make_index_sequence<1>());
      case 2: return detail::call_module(module, x, std::make_index_sequence<2>());
      case 3: return detail::call_module(module, x, std::make_index_sequence<3>());
      case 4: return detail::call_module(module, x, std::make_index_sequence<4>());
      default: detail::throw_input_count(x.size());
    }
  };
  return detail::gradcheck_module(module, call, inputs, options);
}

/// The leaves that want a gradient of `output` and that the model does not list: forgotten lines in members(), copies
/// of parameters where handles were meant. Inputs that want a gradient are among them too.
std::vector<Tensor> orphans(const Tensor& output, const Module& model);

}  // namespace tapehead
