// SPDX-License-Identifier: MIT
// Vector helpers shared by kernels. Included once per instruction set, inside the translation units that
// hwy/foreach_target.h compiles several times; hence the guard that flips instead of `#pragma once`.
#if defined(TAPEHEAD_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TAPEHEAD_SIMD_INL_H
#undef TAPEHEAD_SIMD_INL_H
#else
#define TAPEHEAD_SIMD_INL_H
#endif

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
        d, i, [d, i, some](const T* p) HWY_ATTR { return hn::MaskedLoad(some, d, p + i); },
        [d, i, some](auto v, T* p) HWY_ATTR { hn::BlendedStore(v, some, d, p + i); });
  }
}

/// The lanes of a vector of sums added up.
template <class D, class V>
HWY_INLINE hn::TFromD<D> AddLanes(D d, V v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

}  // namespace tapehead::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
