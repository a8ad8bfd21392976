// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <tapehead/detail/broadcast.h>
#include <tapehead/detail/kernel.h>
#include <tapehead/detail/mask.h>
#include <tapehead/error.h>

namespace tapehead {

Mask Mask::keep(const Tensor& allowed) {
  if (allowed.dtype() != DType::boolean) throw_dtype("Mask::keep", "allowed", allowed.dtype(), "bool");
  return Mask(Part{Kind::keep, allowed.detach(), {}, {}});
}

Mask Mask::block(const Tensor& blocked) {
  if (blocked.dtype() != DType::boolean) throw_dtype("Mask::block", "blocked", blocked.dtype(), "bool");
  return Mask(Part{Kind::block, blocked.detach(), {}, {}});
}

Mask Mask::add(const Tensor& scores) {
  if (!is_floating(scores.dtype())) {
    throw_dtype("Mask::add", "scores", scores.dtype(), "f32 or f64; for booleans say Mask::keep or Mask::block");
  }
  if (scores.requires_grad()) {
    throw GraphError("Mask::add: the scores ask for a gradient, but a mask is a constant; pass scores.detach()");
  }
  visit_float(scores.dtype(), "Mask::add", [&](auto zero) {
    using T = decltype(zero);
    const std::span<const T> values = scores.read<T>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i]) || values[i] == std::numeric_limits<T>::infinity()) {
        throw ValueError(fmt::format("Mask::add: element {} of {} is {}; only finite numbers and -inf mask a score", i,
                                     to_string(scores.shape()), values[i]));
      }
    }
  });
  return Mask(Part{Kind::add, scores, {}, {}});
}

Mask Mask::causal() { return Mask(Part{Kind::causal, {}, {}, {}}); }

Mask Mask::causal(Index offset) { return Mask(Part{Kind::causal, {}, {}, offset}); }

Mask Mask::lengths(const Tensor& lengths) {
  if (lengths.dtype() != DType::i64) throw_dtype("Mask::lengths", "lengths", lengths.dtype(), "i64");
  return Mask(Part{Kind::lengths, lengths, {}, {}});
}

Mask Mask::window(Index left, Index right) {
  if (left < 0 || right < 0) {
    throw ValueError(fmt::format("Mask::window: left {} and right {} must not be negative", left, right));
  }
  return Mask(Part{Kind::window, {}, left, right});
}

Mask operator&(const Mask& a, const Mask& b) {
  Mask both = a;
  both.parts_.insert(both.parts_.end(), b.parts_.begin(), b.parts_.end());
  return both;
}

namespace detail {

MaskPlan::MaskPlan(const Mask& mask, const Shape& batch, const Shape& leading, Index queries, Index keys, DType dtype)
    : keys_(keys), left_(std::max(queries, keys)), right_(std::max(queries, keys)), allows_all_(mask.allows_all()) {
  for (const Mask::Part& part : mask.parts()) {
    switch (part.kind) {
      case Mask::Kind::causal:
        if (!part.right && queries != keys) {
          throw ShapeError(
              fmt::format("Mask::causal: {} queries and {} keys; with unequal lengths say "
                          "Mask::causal(offset): 0 aligns the first ones, {} the last ones",
                          queries, keys, keys - queries));
        }
        right_ = std::min(right_, part.right.value_or(0));
        break;
      case Mask::Kind::window:
        left_ = std::min(left_, *part.left);
        right_ = std::min(right_, *part.right);
        break;
      case Mask::Kind::lengths: add_lengths(part.values, batch, leading); break;
      default: add_values(part, leading, queries, dtype);
    }
  }
}

void MaskPlan::add_lengths(const Tensor& lengths, const Shape& batch, const Shape& leading) {
  if (broadcast("Mask::lengths", lengths.shape(), batch) != batch) {
    throw ShapeError(fmt::format("Mask::lengths: lengths {} do not broadcast to the leading axes {}",
                                 to_string(lengths.shape()), to_string(batch)));
  }
  const Index repeat = batch.numel() == 0 ? 0 : leading.numel() / batch.numel();
  if (lengths_.empty()) lengths_.assign(static_cast<std::size_t>(leading.numel()), keys_);
  const BroadcastLoop<1> loop(batch, {&lengths.shape()});
  if (leading.numel() == 0) return;
  loop.run_in_order([&](const auto& at, Index first, Index n) {
    for (Index i = 0; i < n; ++i) {
      const Index length = data<Index>(lengths)[at[0] + i * loop.steps()[0]];
      if (length < 0 || length > keys_) {
        throw ValueError(fmt::format("Mask::lengths: length {} at position {} is outside 0 to {}, the number of keys",
                                     length, first + i, keys_));
      }
      for (Index h = 0; h < repeat; ++h) {
        Index& known = lengths_[static_cast<std::size_t>((first + i) * repeat + h)];
        known = std::min(known, length);
      }
    }
  });
}

void MaskPlan::add_values(const Mask::Part& part, const Shape& leading, Index queries, DType dtype) {
  if (part.kind == Mask::Kind::add && part.values.dtype() != dtype) {
    throw DTypeError(fmt::format("Mask::add: the scores are {}, the query {}; convert one with to()",
                                 name_of(part.values.dtype()), name_of(dtype)));
  }
  const Shape scores = leading.inserted(leading.rank(), queries).inserted(leading.rank() + 1, keys_);
  const Shape& own = part.values.shape();
  if (broadcast("scaled_dot_product_attention: mask and scores", own, scores) != scores) {
    throw ShapeError(fmt::format("scaled_dot_product_attention: mask {} does not broadcast to the scores {}",
                                 to_string(own), to_string(scores)));
  }
  Values values{part.kind, part.values, {}, 0, 0, part.values.body().storage->version};
  const Index own_keys = own.rank() >= 1 ? own[-1] : 1;
  const Index own_queries = own.rank() >= 2 ? own[-2] : 1;
  values.key_step = own_keys == 1 ? 0 : 1;
  values.query_step = own_queries == 1 ? 0 : own_keys;
  const Shape own_leading(std::span<const Index>(own.begin(), static_cast<std::size_t>(std::max(0, own.rank() - 2))));
  const BroadcastLoop<1> loop(leading, {&own_leading});
  if (leading.numel() > 0) {
    loop.run_in_order([&](const auto& at, Index, Index n) {
      for (Index i = 0; i < n; ++i) {
        values.offsets.push_back((at[0] + i * loop.steps()[0]) * own_queries * own_keys);
      }
    });
  }
  tensors_.push_back(std::move(values));
}

void MaskPlan::check_unchanged() const {
  for (const Values& part : tensors_) {
    const Storage& storage = *part.tensor.body().storage;
    if (storage.version != part.version) {
      throw GraphError(
          fmt::format("scaled_dot_product_attention: mask {} was changed by {} after it was recorded "
                      "(version {}, now {}); change it after backward(), or pass a clone()",
                      to_string(part.tensor.shape()), storage.written_by, part.version, storage.version));
    }
  }
}

template <class T>
Index MaskPlan::apply(Index n, Index query, KeyRange keys, Index first, T* scores, bool* blocked) const {
  constexpr T kNever = -std::numeric_limits<T>::infinity();
  std::fill(blocked + (keys.begin - first), blocked + (keys.end - first), false);
  for (const Values& part : tensors_) {
    const Index offset = part.offsets[static_cast<std::size_t>(n)] + query * part.query_step;
    for (Index j = keys.begin; j < keys.end; ++j) {
      const Index at = offset + j * part.key_step;
      bool never = false;
      if (part.kind == Mask::Kind::add) {
        const T value = data<T>(part.tensor)[at];
        never = value == kNever;
        scores[j - first] += value;
      } else {
        never = data<bool>(part.tensor)[at] == (part.kind == Mask::Kind::block);
      }
      blocked[j - first] = blocked[j - first] || never;
    }
  }
  Index left = 0;
  for (Index j = keys.begin - first; j < keys.end - first; ++j) {
    if (blocked[j]) {
      scores[j] = kNever;
    } else {
      ++left;
    }
  }
  return left;
}

template Index MaskPlan::apply(Index, Index, KeyRange, Index, float*, bool*) const;
template Index MaskPlan::apply(Index, Index, KeyRange, Index, double*, bool*) const;

}  // namespace detail
}  // namespace tapehead
