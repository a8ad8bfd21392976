// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include <tapehead/detail/attention.h>
#include <tapehead/detail/attention_block.h>
#include <tapehead/detail/parallel.h>

namespace tapehead::detail {
namespace {

template <class T>
void forward(const AttentionPlan& p, const Tensor& query, const Tensor& key, const Tensor& value, Tensor& output,
             Tensor& stats) {
  const bool care = needs_care<T>(p, {&value});
  parallel_ranges(p.matrices() * p.query_blocks(), p.cost(), [&](Index first, Index last) {
    const FlushSubnormals flush;
    for (Index task = first; task < last; ++task) {
      const Index n = task / p.query_blocks();
      const Operands<T> from = operands_of<T>(p, query, key, &value, n);
      Block<T> block(p, n, task % p.query_blocks() * p.query_block());
      T* rows = fresh<T>(stats) + 2 * (n * p.queries + block.begin);
      std::fill(rows, rows + 2 * block.rows, T{0});  // a sum of 0 marks a row that sees nothing
      score_rows<T>(p, from, block, [&](Index i, T* row, const RowView& view) {
        attention_rows<T>().exponentials(row + view.begin, rows + 2 * i, view.end - view.begin);
        clear_blocked(block, i, view, rows + 2 * i);
      });
      Tensor factors;
      const Tensor weights = dropped_weights(p, block, factors);
      T* out =
          fresh<T>(output) + (n / p.heads * p.queries + block.begin) * p.output_stride() + n % p.heads * p.value_size;
      if (!care) {
        gemm_tile<T>(block.rows, p.value_size, block.span(), T{1}, {data<T>(weights), block.span()},
                     {from.value + block.keys.begin * p.value_stride, p.value_stride}, T{0}, out, p.output_stride());
      }
      for (Index i = 0; i < block.rows; ++i) {
        T* row = out + i * p.output_stride();
        if (care) {
          std::fill(row, row + p.value_size, T{0});
          add_allowed(p, block, i, data<T>(weights) + i * block.span(), from.value, p.value_stride, p.value_size, row);
        }
        const T sum = rows[2 * i + 1];
        if (sum != T{0}) attention_rows<T>().scale(row, T{1} / sum, row, p.value_size);
      }
    }
  });
}

template <class T>
void forward_weights(const AttentionPlan& p, const Tensor& query, const Tensor& key, Tensor& weights) {
  parallel_ranges(p.matrices() * p.query_blocks(), p.cost(), [&](Index first, Index last) {
    const FlushSubnormals flush;
    for (Index task = first; task < last; ++task) {
      const Index n = task / p.query_blocks();
      Block<T> block(p, n, task % p.query_blocks() * p.query_block());
      score_rows<T>(p, operands_of<T>(p, query, key, nullptr, n), block, [&](Index i, T* row, const RowView& view) {
        T stats[2];
        attention_rows<T>().exponentials(row + view.begin, stats, view.end - view.begin);
        attention_rows<T>().scale(row + view.begin, T{1} / stats[1], row + view.begin, view.end - view.begin);
        clear_blocked(block, i, view, stats);
      });
      for (Index i = 0; i < block.rows; ++i) {
        T* to = fresh<T>(weights) + (n * p.queries + block.begin + i) * p.keys;
        std::fill(to, to + p.keys, T{0});
        std::copy(block.row(i), block.row(i) + block.span(), to + block.keys.begin);
      }
    }
  });
}

// `result` is the output and `gradient` its gradient; or, without a value, both are those of the weights.
template <class T>
class BackwardPass {
 public:
  BackwardPass(const AttentionPlan& p, const Tensor& query, const Tensor& key, const Tensor* value,
               const Tensor& gradient, const Tensor& result, const Tensor* stats)
      : p_(p), query_(query), key_(key), value_(value), gradient_(gradient), result_(result), stats_(stats) {
    care_ = value == nullptr ? needs_care<T>(p, {&query, &key, &gradient, &result})
                             : needs_care<T>(p, {&query, &key, value, &gradient, &result});
    // Leading axes that broadcasting shared are summed by the tape.
    if (p.joined) {
      query_gradient = key_gradient = value_gradient = zeros(p.full(p.keys, p.key_stride), dtype_of<T>());
      return;
    }
    query_gradient = empty(p.full(p.queries, p.query_stride), dtype_of<T>());
    key_gradient = zeros(p.full(p.keys, p.key_stride), dtype_of<T>());
    if (value != nullptr) value_gradient = zeros(p.full(p.keys, p.value_stride), dtype_of<T>());
  }

  // Blocks that share a key add to its gradient, so they run in order; keys run side by side.
  void run() {
    const Index group = p_.group();
    parallel_ranges(p_.matrices() / group, 2 * group * p_.cost() * p_.query_blocks(), [&](Index first, Index last) {
      const FlushSubnormals flush;
      for (Index n = first * group; n < last * group; ++n) {
        for (Index b = 0; b < p_.query_blocks(); ++b) run_block(n, b * p_.query_block());
      }
    });
  }

  Tensor query_gradient, key_gradient, value_gradient;

 private:
  void run_block(Index n, Index begin) {
    const Operands<T> from = operands_of<T>(p_, query_, key_, value_, n);
    Block<T> block(p_, n, begin);
    score_rows<T>(p_, from, block, [&](Index i, T* row, const RowView& view) {
      T own[2];
      const T* stats = stats_ != nullptr ? data<T>(*stats_) + 2 * (n * p_.queries + begin + i) : own;
      if (stats_ == nullptr) {
        attention_rows<T>().exponentials(row + view.begin, own, view.end - view.begin);
        attention_rows<T>().scale(row + view.begin, T{1} / own[1], row + view.begin, view.end - view.begin);
      } else {
        attention_rows<T>().weights(row + view.begin, stats, view.end - view.begin);
      }
      clear_blocked(block, i, view, stats);
    });
    const Index head = n % p_.heads, shared = head / p_.group(), batch = n / p_.heads;
    const Index output_at = (batch * p_.queries + begin) * p_.output_stride() + head * p_.value_size;
    const Index first_key = batch * p_.keys + block.keys.begin;
    const T* g = value_ == nullptr ? nullptr : data<T>(gradient_) + output_at;
    Tensor factors;
    if (g != nullptr) {
      const Tensor weights = dropped_weights(p_, block, factors);
      add_value_gradient(block, data<T>(weights), g,
                         fresh<T>(value_gradient) + p_.value_at + first_key * p_.value_stride + shared * p_.value_size);
    }
    const Tensor scores = score_gradients(block, from, g, output_at, factors);
    add_query_and_key_gradients(
        block, from, data<T>(scores),
        fresh<T>(query_gradient) + p_.query_at + (batch * p_.queries + begin) * p_.query_stride + head * p_.size,
        fresh<T>(key_gradient) + p_.key_at + first_key * p_.key_stride + shared * p_.size);
  }

  // value_gradient += weights^T g
  void add_value_gradient(Block<T>& block, const T* weights, const T* g, T* to_value) {
    if (!care_) {
      gemm_tile<T>(block.span(), p_.value_size, block.rows, T{1}, {weights, block.span(), true},
                   {g, p_.output_stride()}, T{1}, to_value, p_.value_stride);
      return;
    }
    for (Index i = 0; i < block.rows; ++i) {
      spread_allowed(block, i, weights + i * block.span(), g + i * p_.output_stride(), p_.value_size, to_value,
                     p_.value_stride);
    }
  }

  // d(scores) = weights (d(weights) - their weighted mean), through the cap
  Tensor score_gradients(Block<T>& block, const Operands<T>& from, const T* g, Index output_at, const Tensor& factors) {
    Tensor out = empty({block.rows, block.span()}, dtype_of<T>());
    T* rows = fresh<T>(out);
    if (g != nullptr) {
      gemm_tile<T>(block.rows, block.span(), p_.value_size, T{1}, {g, p_.output_stride()},
                   {from.value + block.keys.begin * p_.value_stride, p_.value_stride, true}, T{0}, rows, block.span());
    }
    if (factors.defined()) attention_rows<T>().multiply(rows, data<T>(factors), rows, block.rows * block.span());
    for (Index i = 0; i < block.rows; ++i) {
      T* row = rows + i * block.span();
      const T* of_weights = row;
      T mean{};
      if (g != nullptr) {
        const Index at = i * p_.output_stride();
        mean = attention_rows<T>().dot(g + at, data<T>(result_) + output_at + at, p_.value_size);
      } else {
        of_weights = data<T>(gradient_) + (block.n * p_.queries + block.begin + i) * p_.keys + block.keys.begin;
        mean = weighted_mean(block, i, of_weights);
      }
      // The weight of an only key is 1 whatever its score. The mean is then its own slope: to the bit, not to rounding.
      const Index only = block.only_key[static_cast<std::size_t>(i)];
      if (only >= 0) mean = of_weights[only];
      attention_rows<T>().score_gradient(block.row(i), of_weights, mean, row, block.span());
      if (block.slope.defined()) {
        attention_rows<T>().multiply(row, data<T>(block.slope) + i * block.span(), row, block.span());
      }
      if (!care_) continue;
      for (Index j = 0; j < block.span(); ++j) {
        if (!pair_allowed(p_, block, i, j)) row[j] = T{0};
      }
    }
    return out;
  }

  T weighted_mean(Block<T>& block, Index i, const T* gradient) {
    if (!care_) return attention_rows<T>().dot(block.row(i), gradient, block.span());
    T mean{};
    for (Index j = 0; j < block.span(); ++j) {
      if (pair_allowed(p_, block, i, j)) mean += block.row(i)[j] * gradient[j];
    }
    return mean;
  }

  // query_gradient = scale * d(scores) key; key_gradient += d(scores)^T (scale * query)
  void add_query_and_key_gradients(Block<T>& block, const Operands<T>& from, const T* scores, T* to_query, T* to_key) {
    if (!care_) {
      gemm_tile<T>(block.rows, p_.size, block.span(), static_cast<T>(p_.scale), {scores, block.span()},
                   {from.key + block.keys.begin * p_.key_stride, p_.key_stride}, T{0}, to_query, p_.query_stride);
      gemm_tile<T>(block.span(), p_.size, block.rows, T{1}, {scores, block.span(), true},
                   {data<T>(block.query), p_.size}, T{1}, to_key, p_.key_stride);
      return;
    }
    for (Index i = 0; i < block.rows; ++i) {
      T* row = to_query + i * p_.query_stride;
      std::fill(row, row + p_.size, T{0});
      add_allowed(p_, block, i, scores + i * block.span(), from.key, p_.key_stride, p_.size, row);
      attention_rows<T>().scale(row, static_cast<T>(p_.scale), row, p_.size);
      spread_allowed(block, i, scores + i * block.span(), data<T>(block.query) + i * p_.size, p_.size, to_key,
                     p_.key_stride);
    }
  }

  // to [keys, width] += row i of weights^T times `from` [width]; blocked pairs stay untouched.
  void spread_allowed(Block<T>& block, Index i, const T* weights, const T* from, Index width, T* to, Index stride) {
    for (Index j = 0; j < block.span(); ++j) {
      if (!pair_allowed(p_, block, i, j)) continue;
      for (Index c = 0; c < width; ++c) to[j * stride + c] += weights[j] * from[c];
    }
  }

  const AttentionPlan& p_;
  const Tensor& query_;
  const Tensor& key_;
  const Tensor* value_;
  const Tensor& gradient_;
  const Tensor& result_;
  const Tensor* stats_;
  bool care_;
};

}  // namespace

void attention_forward(const AttentionPlan& p, const Tensor& query, const Tensor& key, const Tensor& value,
                       Tensor& output, Tensor& stats) {
  visit_float(query.dtype(), kAttention,
              [&](auto zero) { forward<decltype(zero)>(p, query, key, value, output, stats); });
}

void attention_weights(const AttentionPlan& p, const Tensor& query, const Tensor& key, Tensor& weights) {
  visit_float(query.dtype(), kAttention, [&](auto zero) { forward_weights<decltype(zero)>(p, query, key, weights); });
}

Tensor attention_drop_factors(const AttentionPlan& p, DType dtype) {
  Tensor factors = empty(p.scores_shape(), dtype);
  visit_float(dtype, kAttention, [&](auto zero) {
    using T = decltype(zero);
    for (Index row = 0; row < p.matrices() * p.queries; ++row) {
      drop_factors(p, row / p.queries, row % p.queries, {0, p.keys}, fresh<T>(factors) + row * p.keys);
    }
  });
  return factors;
}

Tensor attention_allowed(const AttentionPlan& p, std::initializer_list<const Tensor*> operands) {
  return visit_float((*operands.begin())->dtype(), kAttention, [&](auto zero) {
    using T = decltype(zero);
    if (!needs_care<T>(p, operands)) return Tensor();
    Tensor allowed = zeros(p.scores_shape(), DType::boolean);
    std::vector<T> scores(static_cast<std::size_t>(p.keys));  // nobody asks for them
    const auto blocked = std::make_unique<bool[]>(static_cast<std::size_t>(p.keys));
    for (Index row = 0; row < p.matrices() * p.queries; ++row) {
      const KeyRange keys = p.mask->range(row / p.queries, row % p.queries);
      if (keys.empty()) continue;
      p.mask->template apply<T>(row / p.queries, row % p.queries, keys, 0, scores.data(), blocked.get());
      bool* to = fresh<bool>(allowed) + row * p.keys;
      for (Index j = keys.begin; j < keys.end; ++j) to[j] = !blocked[static_cast<std::size_t>(j)];
    }
    return allowed;
  });
}

AttentionGradients attention_backward(const AttentionPlan& p, const Tensor& query, const Tensor& key,
                                      const Tensor* value, const Tensor& gradient, const Tensor& result,
                                      const Tensor* stats) {
  return visit_float(query.dtype(), kAttention, [&](auto zero) {
    BackwardPass<decltype(zero)> pass(p, query, key, value, gradient, result, stats);
    pass.run();
    return AttentionGradients{std::move(pass.query_gradient), std::move(pass.key_gradient),
                              std::move(pass.value_gradient)};
  });
}

}  // namespace tapehead::detail
