// SPDX-License-Identifier: MIT
// Tensors with names: what models, optimizers and files exchange.
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

/// Writes the values of `from` into the tensors of `to` that have their names. Throws StateError, beginning with `op`,
/// with a table of all names that are missing, unexpected or twice in `from` and of other shapes and types; then
/// nothing has been written.
void write_by_name(const std::string& op, std::vector<NamedTensor>& to, const std::vector<NamedTensor>& from);

}  // namespace tapehead
