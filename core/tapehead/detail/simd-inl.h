// SPDX-License-Identifier: MIT
// Vector helpers shared by kernels. Included once per instruction set, inside the translation units that
// hwy/foreach_target.h compiles several times; hence the guard that flips instead of `#pragma once`.
#if defined(TAPEHEAD_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TAPEHEAD_SIMD_INL_H
#undef TAPEHEAD_SIMD_INL_H
#else
#define TAPEHEAD_SIMD_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <tapehead/dtype.h>

HWY_BEFORE_NAMESPACE();
namespace tapehead::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Lanes = hn::ScalableTag<T>;

/// e^x on all of the number line: +inf and 0 beyond the type's range, NaN stays NaN. At most 2 ulp off.
template <class D, class V>
HWY_INLINE V SafeExp(D d, V x) {
  using T = hn::TFromD<D>;
  const V highest = hn::Set(d, static_cast<T>(sizeof(T) == 4 ? 104 : 720));
  const V y = hn::Exp(d, hn::Min(x, highest));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

/// 1 / (1 + e^-x).
template <class D, class V>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, hn::TFromD<D>{1});
  return hn::Div(one, hn::Add(one, SafeExp(d, hn::Neg(x))));
}

/// tanh x; keeps the sign of zero and NaN.
template <class D, class V>
HWY_INLINE V SafeTanh(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(d, x));
}

/// x times a gate in [0, 1]. Where the gate is closed entirely, x may be -inf: 0 * -inf would make a NaN of a clean
/// zero.
template <class V>
HWY_INLINE V Gated(V x, V gate) {
  const hn::DFromV<V> d;
  return hn::IfThenElse(hn::Eq(gate, hn::Zero(d)), hn::Zero(d), hn::Mul(x, gate));
}

/// The elements at p of which `count` exist, as many as fit, and zeros: nothing beyond them is read.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadFirst(D d, const T* p, Index count) {
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2
  // Without masks in the processor Highway reads a whole vector, and an aligned one.
  HWY_ALIGN T whole[16 / sizeof(T)] = {};
  std::copy_n(p, std::min(count, static_cast<Index>(hn::Lanes(d))), whole);
  return hn::Load(d, whole);
#else
  return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count)), d, p);
#endif
}

/// Calls body(d, load, store) for whole vectors of [0, n) and once more for the rest, where load and store touch only
/// the elements that exist and load puts zeros into the other lanes.
template <class T, class Body>
HWY_INLINE void for_vectors(Index n, Body body) {
  const Lanes<T> d;
  const Index step = static_cast<Index>(hn::Lanes(d));
  Index i = 0;
  for (; i + step <= n; i += step) {
    body(
        d, i, [d, i](const T* p) HWY_ATTR { return hn::LoadU(d, p + i); },
        [d, i](auto v, T* p) HWY_ATTR { hn::StoreU(v, d, p + i); });
  }
  if (i < n) {
    const auto some = hn::FirstN(d, static_cast<std::size_t>(n - i));
    body(
        d, i, [d, i, n](const T* p) HWY_ATTR { return LoadFirst(d, p + i, n - i); },
        [d, i, some](auto v, T* p) HWY_ATTR { hn::BlendedStore(v, some, d, p + i); });
  }
}

/// The lanes of a vector of sums added up.
template <class D, class V>
HWY_INLINE hn::TFromD<D> AddLanes(D d, V v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

/// The largest of x [n]; n at least 1. Which of a NaN and a number wins is left open: sums over the row tell.
template <class T>
HWY_INLINE T RowMax(const T* x, Index n) {
  const Lanes<T> d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  if (n < lanes) {
    T best = x[0];
    for (Index i = 1; i < n; ++i) best = x[i] > best ? x[i] : best;
    return best;
  }
  auto a = hn::LoadU(d, x), b = a;
  Index i = lanes;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    a = hn::Max(a, hn::LoadU(d, x + i));
    b = hn::Max(b, hn::LoadU(d, x + i + lanes));
  }
  if (i + lanes <= n) a = hn::Max(a, hn::LoadU(d, x + i));
  b = hn::Max(b, hn::LoadU(d, x + n - lanes));  // overlaps what was seen: harmless for a maximum
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(a, b)));
}

/// sum of x [n] * y [n].
template <class T>
HWY_INLINE T Dot(const T* x, const T* y, Index n) {
  const Lanes<T> d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a;
  Index i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    a = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), a);
    b = hn::MulAdd(hn::LoadU(d, x + i + lanes), hn::LoadU(d, y + i + lanes), b);
  }
  for (; i < n; i += lanes) {
    a = hn::MulAdd(LoadFirst(d, x + i, n - i), LoadFirst(d, y + i, n - i), a);
  }
  return AddLanes(d, hn::Add(a, b));
}

/// y [n] = e^(x - shift); returns the sum of y. In place is fine.
template <class T>
HWY_INLINE T ExpRow(const T* x, T* y, T shift, Index n) {
  const Lanes<T> d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  const auto top = hn::Set(d, shift);
  auto a = hn::Zero(d), b = a;
  Index i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto p = SafeExp(d, hn::Sub(hn::LoadU(d, x + i), top));
    const auto q = SafeExp(d, hn::Sub(hn::LoadU(d, x + i + lanes), top));
    a = hn::Add(a, p);
    b = hn::Add(b, q);
    hn::StoreU(p, d, y + i);
    hn::StoreU(q, d, y + i + lanes);
  }
  for (; i < n; i += lanes) {
    const auto some = hn::FirstN(d, static_cast<std::size_t>(n - i));
    const auto p = hn::IfThenElseZero(some, SafeExp(d, hn::Sub(LoadFirst(d, x + i, n - i), top)));
    a = hn::Add(a, p);
    hn::BlendedStore(p, some, d, y + i);
  }
  return AddLanes(d, hn::Add(a, b));
}

}  // namespace tapehead::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
