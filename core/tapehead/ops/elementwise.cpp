// SPDX-License-Identifier: MIT
// Arithmetic and functions of one number.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tapehead/ops/elementwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <tapehead/detail/kernel_pair.h>
#include <tapehead/detail/simd-inl.h>

#ifndef TAPEHEAD_ELEMENTWISE_KERNELS
#define TAPEHEAD_ELEMENTWISE_KERNELS
namespace tapehead {
// A step of 0 repeats the operand's first element, 1 walks along it.
template <class T>
using Binary = void (*)(const T* a, Index a_step, const T* b, Index b_step, T* y, Index n);
template <class T>
using Unary = void (*)(const T* x, T* y, Index n);

template <class T>
struct ElementwiseKernels {
  Binary<T> add, subtract, multiply, divide, maximum, minimum, relu_backward;
  Unary<T> negate, exp, sqrt, abs, tanh, sigmoid, relu;
};
}  // namespace tapehead
#endif

HWY_BEFORE_NAMESPACE();
namespace tapehead::HWY_NAMESPACE {
namespace {

template <class T, class Op>
void binary(const T* a, Index a_step, const T* b, Index b_step, T* y, Index n) {
  const Lanes<T> d;
  const Op op;
  if (a_step == 1 && b_step == 1) {
    for_vectors<T>(n, [=](auto, Index, auto load, auto store) HWY_ATTR { store(op(load(a), load(b)), y); });
  } else if (a_step == 1) {
    const auto fixed = hn::Set(d, *b);
    for_vectors<T>(n, [=](auto, Index, auto load, auto store) HWY_ATTR { store(op(load(a), fixed), y); });
  } else if (b_step == 1) {
    const auto fixed = hn::Set(d, *a);
    for_vectors<T>(n, [=](auto, Index, auto load, auto store) HWY_ATTR { store(op(fixed, load(b)), y); });
  } else {
    const auto both = op(hn::Set(d, *a), hn::Set(d, *b));
    for_vectors<T>(n, [=](auto, Index, auto, auto store) HWY_ATTR { store(both, y); });
  }
}

template <class T, class Op>
void unary(const T* x, T* y, Index n) {
  const Op op;
  for_vectors<T>(n, [=](auto d, Index, auto load, auto store) HWY_ATTR { store(op(d, load(x)), y); });
}

struct Add {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};
struct Subtract {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Sub(a, b);
  }
};
struct Multiply {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Mul(a, b);
  }
};
struct Divide {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Div(a, b);
  }
};
struct Maximum {  // a comparison with NaN is false, which leaves b; so only a NaN in a needs care
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
  }
};
struct Minimum {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
  }
};
struct ReluBackward {  // gradient, result
  template <class V>
  HWY_INLINE V operator()(V g, V y) const {
    return hn::IfThenElse(hn::Le(y, hn::Zero(hn::DFromV<V>())), hn::Zero(hn::DFromV<V>()), g);
  }
};
struct Negate {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x) const {
    return hn::Neg(x);
  }
};
struct ExpOf {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return SafeExp(d, x);
  }
};
struct Sqrt {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x) const {
    return hn::Sqrt(x);
  }
};
struct Abs {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x) const {
    return hn::Abs(x);
  }
};
struct TanhOf {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return SafeTanh(d, x);
  }
};
struct SigmoidOf {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return Sigmoid(d, x);
  }
};
struct Relu {  // NaN stays: it is not below 0
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);
  }
};

template <class T>
constexpr ElementwiseKernels<T> table() {
  return {binary<T, Add>,     binary<T, Subtract>,     binary<T, Multiply>, binary<T, Divide>, binary<T, Maximum>,
          binary<T, Minimum>, binary<T, ReluBackward>, unary<T, Negate>,    unary<T, ExpOf>,   unary<T, Sqrt>,
          unary<T, Abs>,      unary<T, TanhOf>,        unary<T, SigmoidOf>, unary<T, Relu>};
}

const detail::KernelPair<ElementwiseKernels>* elementwise_kernels() {
  static constexpr detail::KernelPair<ElementwiseKernels> both{table<float>(), table<double>()};
  return &both;
}

}  // namespace
}  // namespace tapehead::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <tapehead/detail/broadcast.h>
#include <tapehead/detail/each.h>
#include <tapehead/detail/kernel.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

using detail::BroadcastLoop;
using detail::data;
using detail::empty_like;
using detail::fresh;

HWY_EXPORT(elementwise_kernels);

template <class T>
const ElementwiseKernels<T>& kernels(T) {
  static const auto* const chosen = HWY_DYNAMIC_DISPATCH(elementwise_kernels)();
  return chosen->of(T{});
}

constexpr Index kSmall = 4096;  // elements below which no loop plan and no thread pays

template <class T, class Kernel>
void run_binary(Kernel kernel, const Tensor& a, const Tensor& b, Tensor& y) {
  const T* left = data<T>(a);
  const T* right = data<T>(b);
  T* out = fresh<T>(y);
  if (a.shape() == b.shape() && y.numel() <= kSmall) {
    kernel(left, 1, right, 1, out, y.numel());
    return;
  }
  const BroadcastLoop<2> loop(y.shape(), {&a.shape(), &b.shape()});
  const auto steps = loop.steps();
  loop.run(1, [&](const auto& at, Index to, Index n) {
    kernel(left + at[0], steps[0], right + at[1], steps[1], out + to, n);
  });
}

// The vector kernel that `pick` chooses from the table.
template <class Pick>
Tensor binary_floating(const char* op, const Tensor& a, const Tensor& b, Pick pick) {
  detail::check_same_dtype(op, a, b);
  Tensor y = empty(a.shape() == b.shape() ? a.shape() : broadcast(op, a.shape(), b.shape()), a.dtype());
  visit_float(a.dtype(), op, [&](auto zero) {
    using T = decltype(zero);
    run_binary<T>(pick(kernels(T{})), a, b, y);
  });
  return y;
}

template <class T, class Out, class F>
void plain_loop(const T* a, Index a_step, const T* b, Index b_step, Out* y, Index n, F f) {
  for (Index i = 0; i < n; ++i) y[i] = f(a[i * a_step], b[i * b_step]);
}

template <class F>
Tensor binary_i64(const char* op, const Tensor& a, const Tensor& b, F f) {
  detail::check_same_dtype(op, a, b);
  Tensor y = empty(broadcast(op, a.shape(), b.shape()), DType::i64);
  run_binary<Index>(
      [f](const Index* l, Index ls, const Index* r, Index rs, Index* o, Index n) { plain_loop(l, ls, r, rs, o, n, f); },
      a, b, y);
  return y;
}

// Whole numbers wrap around, as in NumPy; signed overflow would be undefined.
Index wrap(std::uint64_t value) { return static_cast<Index>(value); }
std::uint64_t bits(Index value) { return static_cast<std::uint64_t>(value); }

template <class Pick>
Tensor with_scalar(const char* op, const Tensor& x, double value, bool scalar_first, Pick pick) {
  Tensor y = empty_like(x);
  visit_float(x.dtype(), op, [&](auto zero) {
    using T = decltype(zero);
    const T scalar = static_cast<T>(value);
    const auto kernel = pick(kernels(T{}));
    const T* from = data<T>(x);
    T* out = fresh<T>(y);
    detail::parallel_ranges(x.numel(), 1, [&](Index begin, Index end) {
      if (scalar_first) {
        kernel(&scalar, 0, from + begin, 1, out + begin, end - begin);
      } else {
        kernel(from + begin, 1, &scalar, 0, out + begin, end - begin);
      }
    });
  });
  return y;
}

template <class Pick>
Tensor unary_floating(const char* op, const Tensor& x, Index cost, Pick pick) {
  Tensor y = empty_like(x);
  visit_float(x.dtype(), op, [&](auto zero) {
    using T = decltype(zero);
    const auto kernel = pick(kernels(T{}));
    const T* from = data<T>(x);
    T* out = fresh<T>(y);
    detail::parallel_ranges(x.numel(), cost,
                            [&](Index begin, Index end) { kernel(from + begin, out + begin, end - begin); });
  });
  return y;
}

// 1 where the first operand wins, 0 where the second does, a half for each where they are equal.
Tensor share_of_first(const Tensor& winner_if_greater, const Tensor& other) {
  const DType dtype = winner_if_greater.dtype();
  return 0.5 * (to(greater(winner_if_greater, other), dtype) + to(greater_equal(winner_if_greater, other), dtype));
}

Tensor relu_backward(const Tensor& g, const Tensor& y) {
  Tensor out = binary_floating("relu_backward", g, y, [](const auto& k) { return k.relu_backward; });
  return record("relu_backward", out, {&g, &y}, {&y},
                [](Backward& back) { back.to(0, relu_backward(back.gradient(), back.saved(0))); });
}

Tensor sign(const Tensor& x) {
  const Tensor zero = zeros({}, x.dtype());
  return to(greater(x, zero), x.dtype()) - to(less(x, zero), x.dtype());
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  if (a.dtype() == DType::i64) {
    return binary_i64("add", a, b, [](Index l, Index r) { return wrap(bits(l) + bits(r)); });
  }
  Tensor y = binary_floating("add", a, b, [](const auto& k) { return k.add; });
  return record("add", std::move(y), {&a, &b}, {}, [](Backward& back) {
    back.to(0, back.gradient());
    back.to(1, back.gradient());
  });
}

Tensor subtract(const Tensor& a, const Tensor& b) {
  if (a.dtype() == DType::i64) {
    return binary_i64("subtract", a, b, [](Index l, Index r) { return wrap(bits(l) - bits(r)); });
  }
  Tensor y = binary_floating("subtract", a, b, [](const auto& k) { return k.subtract; });
  return record("subtract", std::move(y), {&a, &b}, {}, [](Backward& back) {
    back.to(0, back.gradient());
    if (back.wants(1)) back.to(1, -back.gradient());
  });
}

Tensor multiply(const Tensor& a, const Tensor& b) {
  if (a.dtype() == DType::i64) {
    return binary_i64("multiply", a, b, [](Index l, Index r) { return wrap(bits(l) * bits(r)); });
  }
  Tensor y = binary_floating("multiply", a, b, [](const auto& k) { return k.multiply; });
  return record("multiply", std::move(y), {&a, &b},
                {b.requires_grad() ? &a : nullptr, a.requires_grad() ? &b : nullptr}, [](Backward& back) {
                  if (back.wants(0)) back.to(0, back.gradient() * back.saved(1));
                  if (back.wants(1)) back.to(1, back.gradient() * back.saved(0));
                });
}

Tensor divide(const Tensor& a, const Tensor& b) {
  Tensor y = binary_floating("divide", a, b, [](const auto& k) { return k.divide; });
  return record("divide", y, {&a, &b}, {&b, b.requires_grad() ? &y : nullptr}, [](Backward& back) {
    const Tensor quotient = back.gradient() / back.saved(0);
    back.to(0, quotient);
    if (back.wants(1)) back.to(1, -(quotient * back.saved(1)));
  });
}

Tensor add(const Tensor& a, double b) {
  Tensor y = with_scalar("add", a, b, false, [](const auto& k) { return k.add; });
  return record("add", std::move(y), {&a}, {}, [](Backward& back) { back.to(0, back.gradient()); });
}

Tensor subtract(double a, const Tensor& b) {
  Tensor y = with_scalar("subtract", b, a, true, [](const auto& k) { return k.subtract; });
  return record("subtract", std::move(y), {&b}, {}, [](Backward& back) { back.to(0, -back.gradient()); });
}

Tensor multiply(const Tensor& a, double b) {
  Tensor y = with_scalar("multiply", a, b, false, [](const auto& k) { return k.multiply; });
  return record("multiply", std::move(y), {&a}, {}, [b](Backward& back) { back.to(0, back.gradient() * b); });
}

Tensor divide(const Tensor& a, double b) {
  Tensor y = with_scalar("divide", a, b, false, [](const auto& k) { return k.divide; });
  return record("divide", std::move(y), {&a}, {}, [b](Backward& back) { back.to(0, back.gradient() / b); });
}

Tensor divide(double a, const Tensor& b) {
  Tensor y = with_scalar("divide", b, a, true, [](const auto& k) { return k.divide; });
  return record("divide", y, {&b}, {&b, &y},
                [](Backward& back) { back.to(0, -(back.gradient() * back.saved(1) / back.saved(0))); });
}

Tensor negate(const Tensor& x) {
  Tensor y = unary_floating("negate", x, 1, [](const auto& k) { return k.negate; });
  return record("negate", std::move(y), {&x}, {}, [](Backward& back) { back.to(0, -back.gradient()); });
}

Tensor exp(const Tensor& x) {
  Tensor y = unary_floating("exp", x, 2, [](const auto& k) { return k.exp; });
  return record("exp", y, {&x}, {&y}, [](Backward& back) { back.to(0, back.gradient() * back.saved(0)); });
}

Tensor log(const Tensor& x) {
  Tensor y = detail::each("log", x, [](auto v) { return std::log(v); });
  return record("log", std::move(y), {&x}, {&x}, [](Backward& back) { back.to(0, back.gradient() / back.saved(0)); });
}

Tensor sqrt(const Tensor& x) {
  Tensor y = unary_floating("sqrt", x, 2, [](const auto& k) { return k.sqrt; });
  return record("sqrt", y, {&x}, {&y}, [](Backward& back) { back.to(0, 0.5 * back.gradient() / back.saved(0)); });
}

Tensor pow(const Tensor& x, double exponent) {
  Tensor y = detail::each("pow", x, [exponent](auto v) { return std::pow(v, static_cast<decltype(v)>(exponent)); });
  return record("pow", std::move(y), {&x}, {&x}, [exponent](Backward& back) {
    const Tensor slope = exponent == 0 ? zeros({}, back.gradient().dtype()) : pow(back.saved(0), exponent - 1);
    back.to(0, exponent * back.gradient() * slope);
  });
}

Tensor pow(const Tensor& base, const Tensor& exponent) {
  detail::check_same_dtype("pow", base, exponent);
  Tensor y = empty(broadcast("pow", base.shape(), exponent.shape()), base.dtype());
  visit_float(base.dtype(), "pow", [&](auto zero) {
    using T = decltype(zero);
    run_binary<T>([](const T* l, Index ls, const T* r, Index rs, T* o,
                     Index n) { plain_loop(l, ls, r, rs, o, n, [](T b, T e) { return std::pow(b, e); }); },
                  base, exponent, y);
  });
  return record("pow", y, {&base, &exponent}, {&base, &exponent, exponent.requires_grad() ? &y : nullptr},
                [](Backward& back) {
                  const Tensor b = back.saved(0);
                  const Tensor e = back.saved(1);
                  const Tensor zero = zeros({}, b.dtype()), one = ones({}, b.dtype());
                  if (back.wants(0)) {  // x to the power 0 is 1 everywhere, also at 0
                    const Tensor base_used = where(equal(e, zero), where(equal(b, zero), one, b), b);
                    back.to(0, back.gradient() * e * pow(base_used, e - 1.0));
                  }
                  if (!back.wants(1)) return;
                  const Tensor safe = where(equal(b, zero), one, b);  // 0 to a positive power stays 0: no slope
                  back.to(1, back.gradient() * back.saved(2) * log(safe));
                });
}

Tensor abs(const Tensor& x) {
  Tensor y = unary_floating("abs", x, 1, [](const auto& k) { return k.abs; });
  return record("abs", std::move(y), {&x}, {&x},
                [](Backward& back) { back.to(0, back.gradient() * sign(back.saved(0))); });
}

Tensor tanh(const Tensor& x) {
  Tensor y = unary_floating("tanh", x, 4, [](const auto& k) { return k.tanh; });
  return record("tanh", y, {&x}, {&y}, [](Backward& back) {
    const Tensor t = back.saved(0);
    back.to(0, back.gradient() * (1.0 - t * t));
  });
}

Tensor sigmoid(const Tensor& x) {
  Tensor y = unary_floating("sigmoid", x, 4, [](const auto& k) { return k.sigmoid; });
  return record("sigmoid", y, {&x}, {&y}, [](Backward& back) {
    const Tensor s = back.saved(0);
    back.to(0, back.gradient() * (s * (1.0 - s)));
  });
}

Tensor relu(const Tensor& x) {
  Tensor y = unary_floating("relu", x, 1, [](const auto& k) { return k.relu; });
  return record("relu", y, {&x}, {&y},
                [](Backward& back) { back.to(0, relu_backward(back.gradient(), back.saved(0).detach())); });
}

Tensor maximum(const Tensor& a, const Tensor& b) {
  Tensor y = binary_floating("maximum", a, b, [](const auto& k) { return k.maximum; });
  return record("maximum", std::move(y), {&a, &b}, {&a, &b}, [](Backward& back) {
    const Tensor share = share_of_first(back.saved(0), back.saved(1));
    back.to(0, back.gradient() * share);
    back.to(1, back.gradient() * (1.0 - share));
  });
}

Tensor minimum(const Tensor& a, const Tensor& b) {
  Tensor y = binary_floating("minimum", a, b, [](const auto& k) { return k.minimum; });
  return record("minimum", std::move(y), {&a, &b}, {&a, &b}, [](Backward& back) {
    const Tensor share = share_of_first(back.saved(1), back.saved(0));  // of b, when b is the greater
    back.to(0, back.gradient() * share);
    back.to(1, back.gradient() * (1.0 - share));
  });
}

Tensor clamp(const Tensor& x, double low, double high) {
  if (!(low <= high)) throw ValueError(fmt::format("clamp: low {} must not be above high {}", low, high));
  Tensor y = detail::each("clamp", x, [low, high](auto v) {
    using T = decltype(v);
    return v < static_cast<T>(low) ? static_cast<T>(low) : v > static_cast<T>(high) ? static_cast<T>(high) : v;
  });
  return record("clamp", std::move(y), {&x}, {&x}, [low, high](Backward& back) {
    const Tensor& g = back.gradient();
    const Tensor x_saved = back.saved(0);
    const Tensor above_low = to(greater_equal(x_saved, full({}, low, g.dtype())), g.dtype());
    const Tensor below_high = to(less_equal(x_saved, full({}, high, g.dtype())), g.dtype());
    back.to(0, g * (above_low * below_high));
  });
}

namespace detail {

void add_in_place(Tensor& a, const Tensor& b) {
  visit_float(a.dtype(), "add", [&](auto zero) {
    using T = decltype(zero);
    T* sum = fresh<T>(a);
    const T* term = data<T>(b);
    parallel_ranges(a.numel(), 1, [&](Index begin, Index end) {
      kernels(T{}).add(sum + begin, 1, term + begin, 1, sum + begin, end - begin);
    });
  });
}

}  // namespace detail
}  // namespace tapehead
#endif  // HWY_ONCE
