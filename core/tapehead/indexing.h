// SPDX-License-Identifier: MIT
// More ways to pick and place elements than ops.h's embedding() and gather(). Tensors are of any element type, indices
// i64 in [0, size): anything else throws IndexError with value, place and limit. Where one place is named twice, sums
// run in row-major order of the index, and the last of several values stays: the same bits for any number of threads.
#pragma once

#include <vector>

#include <tapehead/tensor.h>

namespace tapehead {

/// Parts of x along an axis, by number: x [..., size, ...], ids [n] -> [..., n, ...].
Tensor index_select(const Tensor& x, int axis, const Tensor& ids);
/// x at tuples of indices: one tensor for each of the leading axes, all broadcast together to [...]; the other axes
/// follow: result[..., j, k] = x[ids[0][...], ids[1][...], j, k]. Throws ValueError for no ids, ShapeError for more
/// than x has axes.
Tensor index(const Tensor& x, const std::vector<Tensor>& ids);
/// A copy of x with x[..., index[..., i, ...], ...] = values[..., i, ...] along axis. index as for gather(), values of
/// its shape. A value that a later one replaced gets the gradient 0.
Tensor scatter(const Tensor& x, int axis, const Tensor& index, const Tensor& values);
/// The same with values added to x, f32 or f64.
Tensor scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& values);
/// x with `value` where mask (bool, broadcasts to x) is true. Throws ValueError for a value that an i64 cannot hold.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);
/// The elements of x where mask (bool, broadcasts to x) is true, in row-major order -> [count].
Tensor masked_select(const Tensor& x, const Tensor& mask);

}  // namespace tapehead
