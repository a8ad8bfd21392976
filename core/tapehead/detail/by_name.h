// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include <tapehead/optim.h>

namespace tapehead::detail {

/// Writes the values of `given` into the tensors of `own` that have their names. Throws StateError, beginning with
/// `op`, with a table of all names that are missing, unexpected or twice there and of other shapes and types; then
/// nothing has been written.
void write_by_name(const std::string& op, std::vector<NamedTensor>& own, const std::vector<NamedTensor>& given);

}  // namespace tapehead::detail
