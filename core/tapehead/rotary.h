// SPDX-License-Identifier: MIT
// Rotary position embedding: Su et al. 2021, RoFormer (arXiv:2104.09864).
#pragma once

#include <tapehead/tensor.h>

namespace tapehead {

/// cos and sin of every position's angles, both [..., T, dims / 2]. Made once and used by every layer; own tables
/// (scaled or learned elsewhere) fit as well.
struct RotaryTable {
  Tensor cos;
  Tensor sin;
};

/// The paper's angles: position * base^(-2 i / dims) for pair i of an even number of dims. positions i64 [..., T]; its
/// axes before T broadcast to those of the tensors to rotate. Angles are computed in f64 and rounded once. Throws
/// DTypeError for other positions, ValueError for odd dims, dims below 2 and base not above 0.
RotaryTable rotary_table(const Tensor& positions, Index dims, double base = 10000, DType dtype = DType::f32);

/// Which dimensions turn together: neighbours (2 i, 2 i + 1) as in the paper and GPT-J, or i and i + dims / 2 as in
/// GPT-NeoX and Llama.
enum class RotaryPairs { interleaved, halves };

struct RotaryOptions {
  Index heads = 1;
  RotaryPairs pairs = RotaryPairs::interleaved;
};

/// Turns the first dims of every head by its position's angles and leaves the others as they are; the gradient is
/// turned back. x [..., T, heads * size], dims at most size. Throws ShapeError where the table does not fit, DTypeError
/// for one of another type, GraphError for one that wants a gradient, ValueError for heads below 1.
Tensor rotary(const Tensor& x, const RotaryTable& table, const RotaryOptions& options = {});

}  // namespace tapehead
