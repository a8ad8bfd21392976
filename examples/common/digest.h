// SPDX-License-Identifier: MIT
// One number that tells whether two runs ended with the same bits.
#pragma once

#include <string>
#include <vector>

#include <tapehead/named_tensor.h>

namespace examples {

/// FNV-1a (Fowler, Noll and Vo), 64 bits, over the names and the bytes of all parameters in order; 16 hex digits.
std::string digest(const std::vector<tapehead::NamedTensor>& parameters);

}  // namespace examples
