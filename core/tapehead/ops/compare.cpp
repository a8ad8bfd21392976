// SPDX-License-Identifier: MIT
// Comparisons, choices between two tensors, conversions and copies.
#include <cstring>

#include <tapehead/detail/broadcast.h>
#include <tapehead/detail/kernel.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

using detail::BroadcastLoop;
using detail::data;
using detail::empty_like;
using detail::fresh;

template <class F>
Tensor compare(const char* op, const Tensor& a, const Tensor& b, F f) {
  detail::check_same_dtype(op, a, b);
  Tensor y = empty(broadcast(op, a.shape(), b.shape()), DType::boolean);
  const BroadcastLoop<2> loop(y.shape(), {&a.shape(), &b.shape()});
  visit_any(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* left = data<T>(a);
    const T* right = data<T>(b);
    bool* out = fresh<bool>(y);
    loop.run(1, [&](const auto& at, Index to, Index n) {
      const auto [left_step, right_step] = loop.steps();
      for (Index i = 0; i < n; ++i) out[to + i] = f(left[at[0] + i * left_step], right[at[1] + i * right_step]);
    });
  });
  return y;
}

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  if (condition.dtype() != DType::boolean) throw_dtype("where", "condition", condition.dtype(), "bool");
  detail::check_same_dtype("where", a, b);
  const Shape shape = broadcast("where", condition.shape(), broadcast("where", a.shape(), b.shape()));
  Tensor y = empty(shape, a.dtype());
  const BroadcastLoop<3> loop(shape, {&condition.shape(), &a.shape(), &b.shape()});
  visit_any(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto steps = loop.steps();
    loop.run(1, [&](const auto& at, Index to, Index n) {
      const bool* choose = data<bool>(condition) + at[0];
      const T* left = data<T>(a) + at[1];
      const T* right = data<T>(b) + at[2];
      T* out = fresh<T>(y) + to;
      for (Index i = 0; i < n; ++i) out[i] = choose[i * steps[0]] ? left[i * steps[1]] : right[i * steps[2]];
    });
  });
  return record("where", std::move(y), {&a, &b}, {&condition}, [](Backward& back) {
    const Tensor& g = back.gradient();
    const Tensor none = zeros({}, g.dtype());
    if (back.wants(0)) back.to(0, where(back.saved(0), g, none));
    if (back.wants(1)) back.to(1, where(back.saved(0), none, g));
  });
}

Tensor equal(const Tensor& a, const Tensor& b) {
  return compare("equal", a, b, [](auto l, auto r) { return l == r; });
}
Tensor not_equal(const Tensor& a, const Tensor& b) {
  return compare("not_equal", a, b, [](auto l, auto r) { return l != r; });
}
Tensor less(const Tensor& a, const Tensor& b) {
  return compare("less", a, b, [](auto l, auto r) { return l < r; });
}
Tensor less_equal(const Tensor& a, const Tensor& b) {
  return compare("less_equal", a, b, [](auto l, auto r) { return l <= r; });
}
Tensor greater(const Tensor& a, const Tensor& b) {
  return compare("greater", a, b, [](auto l, auto r) { return l > r; });
}
Tensor greater_equal(const Tensor& a, const Tensor& b) {
  return compare("greater_equal", a, b, [](auto l, auto r) { return l >= r; });
}

Tensor to(const Tensor& x, DType dtype) {
  Tensor y = empty(x.shape(), dtype);
  visit_any(x.dtype(), [&](auto from_zero) {
    visit_any(dtype, [&](auto to_zero) {
      using From = decltype(from_zero);
      using To = decltype(to_zero);
      const From* from = data<From>(x);
      To* out = fresh<To>(y);
      detail::parallel_ranges(x.numel(), 1, [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
          if constexpr (std::is_same_v<To, bool>) {
            out[i] = from[i] != From{};
          } else {
            out[i] = static_cast<To>(from[i]);
          }
        }
      });
    });
  });
  if (!is_floating(dtype) || !is_floating(x.dtype())) return y;  // no gradient passes through whole numbers
  return record("to", std::move(y), {&x}, {},
                [from = x.dtype()](Backward& back) { back.to(0, to(back.gradient(), from)); });
}

Tensor clone(const Tensor& x) {
  Tensor y = empty_like(x);
  std::memcpy(y.body().storage->data(), x.body().storage->data(), x.body().storage->bytes());
  return record("clone", std::move(y), {&x}, {}, [](Backward& back) { back.to(0, back.gradient()); });
}

}  // namespace tapehead
