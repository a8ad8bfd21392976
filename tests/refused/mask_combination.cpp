// SPDX-License-Identifier: MIT
// Nor does it combine with a mask.
// refused: (no match for|invalid operands) .*Tensor
#include <tapehead/tapehead.h>

using namespace tapehead;

Mask both(const Tensor& allowed) { return Mask::causal() & allowed; }
