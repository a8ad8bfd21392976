// SPDX-License-Identifier: MIT
// Memory for time: activations that are computed again instead of being kept.
#pragma once

#include <functional>
#include <vector>

#include <tapehead/tensor.h>

namespace tapehead {

/// function(inputs), of which only the inputs are kept for the backward pass; it calls the function a second time, with
/// the default generator where it was the first time, so that dropout drops the same elements, and then puts the
/// generator back. Chen et al. 2016 (arXiv:1604.06174).
///
///     for (const Block& block : blocks) {
///       x = checkpoint([&](const std::vector<Tensor>& in) { return block(in[0]); }, {x});
///     }
///
/// The function must do the same each time and live until backward(); parameters that it uses get their gradients as
/// ever, to the bit unless they are used outside too (then the same sum in another order). Its result is recorded as
/// one operation without a second derivative: playing with create_graph throws GraphError. Throws ValueError for an
/// empty function, and GraphError in the backward pass if the second call gives another shape or depends on less.
Tensor checkpoint(std::function<Tensor(const std::vector<Tensor>&)> function, const std::vector<Tensor>& inputs);

}  // namespace tapehead
