// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tapehead/ops/dropout.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <tapehead/dtype.h>

HWY_BEFORE_NAMESPACE();
namespace tapehead::HWY_NAMESPACE {
namespace {

// y = x * scale where the random bits reach the threshold, exactly 0 elsewhere, also for infinite or NaN x.
template <class T>
void keep(const T* x, const std::uint32_t* bits, std::uint32_t threshold, T scale, T* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const T scaled = x[i] * scale;
    y[i] = bits[i] >= threshold ? scaled : T{0};
  }
}

void keep_f32(const float* x, const std::uint32_t* bits, std::uint32_t threshold, float scale, float* y,
              std::size_t n) {
  keep(x, bits, threshold, scale, y, n);
}
void keep_f64(const double* x, const std::uint32_t* bits, std::uint32_t threshold, double scale, double* y,
              std::size_t n) {
  keep(x, bits, threshold, scale, y, n);
}

}  // namespace
}  // namespace tapehead::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <tapehead/detail/kernel.h>
#include <tapehead/detail/parallel.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

HWY_EXPORT(keep_f32);
HWY_EXPORT(keep_f64);

void keep(const float* x, const std::uint32_t* bits, std::uint32_t threshold, float scale, float* y, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(keep_f32)(x, bits, threshold, scale, y, n);
}
void keep(const double* x, const std::uint32_t* bits, std::uint32_t threshold, double scale, double* y, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(keep_f64)(x, bits, threshold, scale, y, n);
}

// Which elements are dropped: a function of where the generator stood, so that nothing is kept for the gradient.
struct Drop {
  double p;
  std::uint64_t seed;
  std::uint64_t first;  // block of the first four elements
};

// The operation is linear in x: gradients of every order pass through the same elements.
Tensor dropout_with(const char* op, const Tensor& x, const Drop& drop) {
  Tensor y = detail::empty_like(x);
  const auto threshold = static_cast<std::uint32_t>(std::min(drop.p * 0x1p32, 0x1p32 - 1));
  visit_float(x.dtype(), op, [&](auto zero) {
    using T = decltype(zero);
    constexpr Index kBatch = 256;  // blocks at a time, so that their bits stay in the first cache
    const T* from = detail::data<T>(x);
    T* to = detail::fresh<T>(y);
    detail::parallel_ranges((x.numel() + 3) / 4, 8, [&](Index begin, Index end) {
      std::array<std::uint32_t, 4 * kBatch> bits;
      for (Index block = begin; block < end; block += kBatch) {
        const Index count = std::min(kBatch, end - block);
        detail::philox_blocks(drop.seed, drop.first + static_cast<std::uint64_t>(block), count, bits.data());
        const Index n = std::min(4 * count, x.numel() - 4 * block);
        keep(from + 4 * block, bits.data(), threshold, static_cast<T>(1 / (1 - drop.p)), to + 4 * block,
             static_cast<std::size_t>(n));
      }
    });
  });
  return record(op, std::move(y), {&x}, {},
                [drop](Backward& back) { back.to(0, dropout_with("dropout_backward", back.gradient(), drop)); });
}

}  // namespace

Tensor dropout(const Tensor& x, double p, Generator& generator) {
  detail::check_floating("dropout", "x", x);
  if (!(p >= 0 && p < 1)) throw ValueError(fmt::format("dropout: p is {}; it must be at least 0 and below 1", p));
  if (p == 0) return x;
  const std::uint64_t first = generator.reserve(static_cast<std::uint64_t>(x.numel() + 3) / 4);
  return dropout_with("dropout", x, {p, generator.seed(), first});
}

}  // namespace tapehead
#endif  // HWY_ONCE
