// SPDX-License-Identifier: MIT
// Nor is it one as a layer's argument.
// refused: no match for call|no matching function
#include <tapehead/tapehead.h>

using namespace tapehead;

AttentionResult attend(const SelfAttention& attention, const Tensor& x, const Tensor& allowed) {
  return attention(x, allowed);
}
