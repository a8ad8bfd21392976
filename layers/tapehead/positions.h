// SPDX-License-Identifier: MIT
// How a model that treats all positions alike learns of their order. Rotary embedding is in rotary.h.
#pragma once

#include <tapehead/module.h>
#include <tapehead/random.h>

namespace tapehead {

/// Vaswani et al. 2017 (arXiv:1706.03762), section 3.5: sin(p / 10000^(2 i / width)) at column 2 i, cos at 2 i + 1,
/// [count, width]. Throws ValueError unless width is even and both are at least 1.
Tensor sinusoidal_positions(Index count, Index width, DType dtype = DType::f32);

/// Press, Smith and Lewis 2022, ALiBi (arXiv:2108.12409): what Mask::add() adds to the scores of query i and key j,
/// -slope * |i + offset - j|, each head with a slope of its own, [heads, queries, keys]. offset: the position of the
/// first query. Throws ValueError for sizes below 1.
Tensor alibi(Index heads, Index queries, Index keys, Index offset = 0, DType dtype = DType::f32);

/// A learned row for each position, added to the input.
struct PositionEmbedding : Module {
  Parameter weight;  ///< [context, width]

  /// Starts normal with mean 0 and variance 1, as Embedding does. Throws ValueError for sizes below 1.
  PositionEmbedding(Index context, Index width, Generator& generator = default_generator());

  /// x [..., T, width] + rows `offset` to offset + T. Throws ValueError when these are not in the table.
  Tensor operator()(const Tensor& x, Index offset = 0) const;
  void members(Members& m) override;
};

}  // namespace tapehead
