// SPDX-License-Identifier: MIT
#include <tapehead/softmax.h>

#include <tapehead/ops.h>

namespace tapehead {

Tensor Softmax::operator()(const Tensor& x) const { return softmax(x, axis); }

}  // namespace tapehead
