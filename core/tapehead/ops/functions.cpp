// SPDX-License-Identifier: MIT
// Functions of one number that libm computes.
#include <cmath>
#include <numbers>

#include <tapehead/detail/each.h>
#include <tapehead/ops.h>

namespace tapehead {

Tensor erf(const Tensor& x) {
  Tensor y = detail::each("erf", x, [](auto v) { return std::erf(v); });
  return record("erf", std::move(y), {&x}, {&x}, [](Backward& back) {
    const Tensor x_saved = back.saved(0);
    back.to(0, back.gradient() * exp(-(x_saved * x_saved)) * (2 * std::numbers::inv_sqrtpi));
  });
}

Tensor reciprocal(const Tensor& x) {
  detail::check_floating("reciprocal", "x", x);
  return 1.0 / x;
}

Tensor log1p(const Tensor& x) {
  Tensor y = detail::each("log1p", x, [](auto v) { return std::log1p(v); });
  return record("log1p", std::move(y), {&x}, {&x},
                [](Backward& back) { back.to(0, back.gradient() / (back.saved(0) + 1.0)); });
}

Tensor expm1(const Tensor& x) {
  Tensor y = detail::each("expm1", x, [](auto v) { return std::expm1(v); });
  return record("expm1", std::move(y), {&x}, {&x},
                [](Backward& back) { back.to(0, back.gradient() * exp(back.saved(0))); });
}

}  // namespace tapehead
