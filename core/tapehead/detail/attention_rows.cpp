// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tapehead/detail/attention_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <tapehead/detail/attention_rows.h>
#include <tapehead/detail/kernel_pair.h>
#include <tapehead/detail/simd-inl.h>

HWY_BEFORE_NAMESPACE();
namespace tapehead::HWY_NAMESPACE {
namespace {

template <class T>
void exponentials(T* scores, T* stats, Index n) {
  stats[0] = RowMax(scores, n);
  stats[1] = ExpRow(scores, scores, stats[0], n);
}

template <class T>
void scale(const T* x, T factor, T* y, Index n) {
  const Lanes<T> d;
  const auto by = hn::Set(d, factor);
  for_vectors<T>(n, [=](auto, Index, auto load, auto store) HWY_ATTR { store(hn::Mul(load(x), by), y); });
}

template <class T>
void weights(T* scores, const T* stats, Index n) {
  const Lanes<T> d;
  const auto top = hn::Set(d, stats[0]);
  const auto by = hn::Set(d, T{1} / stats[1]);
  for_vectors<T>(n, [=](auto dd, Index, auto load, auto store)
                        HWY_ATTR { store(hn::Mul(SafeExp(dd, hn::Sub(load(scores), top)), by), scores); });
}

template <class T>
T dot(const T* x, const T* y, Index n) {
  return Dot(x, y, n);
}

template <class T>
void score_gradient(const T* w, const T* g, T mean, T* y, Index n) {
  const Lanes<T> d;
  const auto m = hn::Set(d, mean);
  for_vectors<T>(n,
                 [=](auto, Index, auto load, auto store) HWY_ATTR { store(hn::Mul(load(w), hn::Sub(load(g), m)), y); });
}

template <class T>
void softcap(T* scores, T cap, T* slope, Index n) {
  const Lanes<T> d;
  const auto by = hn::Set(d, cap);
  const auto per = hn::Set(d, T{1} / cap);
  const auto one = hn::Set(d, T{1});
  for_vectors<T>(n, [=](auto dd, Index, auto load, auto store) HWY_ATTR {
    const auto t = SafeTanh(dd, hn::Mul(load(scores), per));
    store(hn::Mul(t, by), scores);
    store(hn::NegMulAdd(t, t, one), slope);
  });
}

template <class T>
void multiply(const T* x, const T* y, T* out, Index n) {
  for_vectors<T>(n, [=](auto, Index, auto load, auto store) HWY_ATTR { store(hn::Mul(load(x), load(y)), out); });
}

template <class T>
bool all_finite(const T* x, Index n) {
  const Lanes<T> d;
  auto zeros = hn::Zero(d);  // 0 times infinity or NaN is NaN, and NaN stays
  for_vectors<T>(
      n, [&](auto dd, Index, auto load, auto) HWY_ATTR { zeros = hn::Add(zeros, hn::Mul(load(x), hn::Zero(dd))); });
  return AddLanes(d, zeros) == T{0};
}

template <class T>
constexpr detail::AttentionRows<T> table() {
  return {exponentials<T>, weights<T>, scale<T>, dot<T>, score_gradient<T>, softcap<T>, multiply<T>, all_finite<T>};
}
const detail::KernelPair<detail::AttentionRows>* attention_kernels() {
  static constexpr detail::KernelPair<detail::AttentionRows> both{table<float>(), table<double>()};
  return &both;
}

}  // namespace
}  // namespace tapehead::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapehead::detail {

HWY_EXPORT(attention_kernels);

template <class T>
const AttentionRows<T>& attention_rows() {
  static const auto* const chosen = HWY_DYNAMIC_DISPATCH(attention_kernels)();
  return chosen->of(T{});
}
template const AttentionRows<float>& attention_rows();
template const AttentionRows<double>& attention_rows();

}  // namespace tapehead::detail
#endif  // HWY_ONCE
