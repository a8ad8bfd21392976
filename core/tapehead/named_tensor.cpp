// SPDX-License-Identifier: MIT
#include <tapehead/named_tensor.h>

#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include <tapehead/error.h>

namespace tapehead {
namespace {

// One line for what is wrong with `given` as new values of `own`; empty if nothing is.
std::string mismatch(const NamedTensor& own, const Tensor& given) {
  if (own.tensor.shape() != given.shape()) {
    return fmt::format("\n  other shape  {}: here it is {}, in the state {}", own.name, to_string(own.tensor.shape()),
                       to_string(given.shape()));
  }
  if (own.tensor.dtype() != given.dtype()) {
    return fmt::format("\n  other type   {}: here it is {}, in the state {}", own.name, name_of(own.tensor.dtype()),
                       name_of(given.dtype()));
  }
  return {};
}

}  // namespace

void write_by_name(const std::string& op, std::vector<NamedTensor>& to, const std::vector<NamedTensor>& from) {
  std::map<std::string_view, const Tensor*> values;
  std::string problems;
  for (const NamedTensor& entry : from) {
    if (!values.insert({entry.name, &entry.tensor}).second) problems += fmt::format("\n  twice        {}", entry.name);
  }
  std::vector<const Tensor*> sources;
  for (const NamedTensor& entry : to) {
    const auto found = values.find(entry.name);
    if (found == values.end()) {
      problems += fmt::format("\n  missing      {} {}", entry.name, to_string(entry.tensor.shape()));
    } else {
      problems += mismatch(entry, *found->second);
      sources.push_back(found->second);
      values.erase(found);
    }
  }
  for (const auto& [name, tensor] : values) {
    problems += fmt::format("\n  unexpected   {} {}", name, to_string(tensor->shape()));
  }
  if (!problems.empty()) {
    throw StateError(op +
                     ": the state belongs to something else; nothing was loaded; names, shapes and types must agree" +
                     problems);
  }
  for (std::size_t i = 0; i < to.size(); ++i) {
    visit_any(to[i].tensor.dtype(), [&](auto zero) {
      using T = decltype(zero);
      std::ranges::copy(sources[i]->read<T>(), to[i].tensor.write<T>().begin());
    });
  }
}

}  // namespace tapehead
