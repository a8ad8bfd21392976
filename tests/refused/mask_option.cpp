// SPDX-License-Identifier: MIT
// A bare tensor is no mask: nothing would say whether true keeps or blocks.
// refused: no (match for|viable overloaded) .*=
#include <tapehead/tapehead.h>

using namespace tapehead;

void set(AttentionOptions& options, const Tensor& allowed) { options.mask = allowed; }
