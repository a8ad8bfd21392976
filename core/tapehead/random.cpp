// SPDX-License-Identifier: MIT
#include <tapehead/random.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tapehead/random.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef TAPEHEAD_PHILOX_CONSTANTS
#define TAPEHEAD_PHILOX_CONSTANTS
namespace tapehead {
inline constexpr std::uint32_t kPhiloxMultiplier0 = 0xD2511F53;
inline constexpr std::uint32_t kPhiloxMultiplier1 = 0xCD9E8D57;
inline constexpr std::uint32_t kPhiloxWeyl0 = 0x9E3779B9;
inline constexpr std::uint32_t kPhiloxWeyl1 = 0xBB67AE85;
inline constexpr int kPhiloxRounds = 10;
}  // namespace tapehead
#endif

HWY_BEFORE_NAMESPACE();
namespace tapehead::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
Index philox_vectors(std::uint64_t, std::uint64_t, Index, std::uint32_t*) { return 0; }
#else
// One block in each 64-bit lane. Its four words are the low halves of four vectors; the high halves never matter.
template <class D, class V = hn::Vec<D> >
struct Lanes4 {
  V x0, x1, x2, x3;

  HWY_INLINE Lanes4(D d, std::uint64_t first)
      : x0(hn::Iota(d, first)), x1(hn::ShiftRight<32>(x0)), x2(hn::Zero(d)), x3(hn::Zero(d)) {}
  HWY_INLINE void round(V key0, V key1) {
    const hn::Repartition<std::uint32_t, D> half;
    const V product0 = hn::MulEven(hn::BitCast(half, x0), hn::Set(half, kPhiloxMultiplier0));
    const V product1 = hn::MulEven(hn::BitCast(half, x2), hn::Set(half, kPhiloxMultiplier1));
    x0 = hn::Xor3(hn::ShiftRight<32>(product1), x1, key0);
    x2 = hn::Xor3(hn::ShiftRight<32>(product0), x3, key1);
    x1 = product1;
    x3 = product0;
  }
  HWY_INLINE void store(D d, std::uint32_t* out) const {
    const V low = hn::Set(d, 0xFFFFFFFFu);
    const V front = hn::Or(hn::And(x0, low), hn::ShiftLeft<32>(x1));
    const V back = hn::Or(hn::And(x2, low), hn::ShiftLeft<32>(x3));
    hn::StoreInterleaved2(front, back, d, reinterpret_cast<std::uint64_t*>(out));
  }
};

// As many blocks as whole vectors hold, two vectors at a time to hide the latency of the products; returns how many.
Index philox_vectors(std::uint64_t seed, std::uint64_t first, Index count, std::uint32_t* out) {
  const hn::ScalableTag<std::uint64_t> d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  Index done = 0;
  for (; done + 2 * lanes <= count; done += 2 * lanes) {
    Lanes4<decltype(d)> a(d, first + static_cast<std::uint64_t>(done));
    Lanes4<decltype(d)> b(d, first + static_cast<std::uint64_t>(done + lanes));
    auto low = static_cast<std::uint32_t>(seed);
    auto high = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const auto key0 = hn::Set(d, low);
      const auto key1 = hn::Set(d, high);
      a.round(key0, key1);
      b.round(key0, key1);
      low += kPhiloxWeyl0;
      high += kPhiloxWeyl1;
    }
    a.store(d, out + 4 * done);
    b.store(d, out + 4 * (done + lanes));
  }
  return done;
}
#endif

}  // namespace
}  // namespace tapehead::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <tapehead/detail/kernel.h>
#include <tapehead/detail/parallel.h>
#include <tapehead/error.h>

namespace tapehead {
namespace {

HWY_EXPORT(philox_vectors);

using Block = std::array<std::uint32_t, 4>;

std::uint32_t low_half(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high_half(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }
std::uint64_t joined(std::uint32_t low, std::uint32_t high) { return std::uint64_t{high} << 32 | low; }

// Attempts above 0 are drawn again for a block that a distribution rejected; they do not move the stream.
Block block_at(std::uint64_t seed, std::uint64_t position, std::uint32_t attempt = 0) {
  return detail::philox({low_half(position), high_half(position), attempt, 0}, {low_half(seed), high_half(seed)});
}

struct Wide {
  std::uint64_t high, low;
};
Wide product(std::uint64_t a, std::uint64_t b) {
  __extension__ using Integer = unsigned __int128;
  const Integer wide = Integer{a} * b;
  return {static_cast<std::uint64_t>(wide >> 64), static_cast<std::uint64_t>(wide)};
}

// Uniform in [0, limit) from one half of a block, whose bits are given: Lemire 2019 (arXiv:1805.10941). Exact; bits are
// rejected and drawn again with probability below limit / 2^64.
std::uint64_t bounded(std::uint64_t bits, std::uint64_t seed, std::uint64_t position, std::size_t half,
                      std::uint64_t limit) {
  Wide scaled = product(bits, limit);
  if (scaled.low < limit) {
    const std::uint64_t threshold = (0 - limit) % limit;
    for (std::uint32_t attempt = 1; scaled.low < threshold; ++attempt) {
      const Block block = block_at(seed, position, attempt);
      scaled = product(joined(block[2 * half], block[2 * half + 1]), limit);
    }
  }
  return scaled.high;
}

float uniform_of(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }
double uniform_of(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }
// The middle of the step that the bits name, so that neither end of (0, 1) is reached.
float normal_of(std::uint32_t bits) {
  return static_cast<float>(detail::inverse_normal((static_cast<double>(bits) + 0.5) * 0x1p-32));
}
double normal_of(std::uint64_t bits) {
  return detail::inverse_normal((static_cast<double>(bits >> 12) + 0.5) * 0x1p-52);
}

// Element i comes from block first + i / 4 (f32) or first + i / 2 (f64, i64), whoever computes it. `of` makes an
// element of its bits, the number of its block and which half of it they are.
template <class T, class Distribution>
Tensor filled(const Shape& shape, Generator& generator, Index cost, Distribution of) {
  constexpr Index kEach = 16 / static_cast<Index>(sizeof(T));  // elements from one block
  constexpr Index kBatch = 256;                                // blocks at a time, to stay in the first cache
  Tensor out = empty(shape, dtype_of<T>());
  const Index blocks = (out.numel() + kEach - 1) / kEach;
  const std::uint64_t first = generator.reserve(static_cast<std::uint64_t>(blocks));
  T* elements = detail::fresh<T>(out);
  detail::parallel_ranges(blocks, kEach * cost, [&](Index begin, Index end) {
    std::array<std::uint32_t, 4 * kBatch> words;
    for (Index block = begin; block < end; block += kBatch) {
      const Index count = std::min(kBatch, end - block);
      const std::uint64_t position = first + static_cast<std::uint64_t>(block);
      detail::philox_blocks(generator.seed(), position, count, words.data());
      const std::size_t n = static_cast<std::size_t>(std::min(count * kEach, out.numel() - block * kEach));
      T* to = elements + block * kEach;
      for (std::size_t i = 0; i < n; ++i) {
        if constexpr (sizeof(T) == 4) {
          to[i] = of(words[i], position + i / 4, i % 4 / 2);
        } else {
          to[i] = of(joined(words[2 * i], words[2 * i + 1]), position + i / 2, i % 2);
        }
      }
    }
  });
  return out;
}

template <class Distribution>
Tensor filled_floating(const char* op, const Shape& shape, DType dtype, Generator& generator, Index cost,
                       Distribution of) {
  if (!is_floating(dtype)) throw_dtype(op, "dtype", dtype, "f32 or f64");
  return visit_float(dtype, op, [&](auto zero) {
    return filled<decltype(zero)>(shape, generator, cost, [of](auto bits, auto...) { return of(bits); });
  });
}

template <std::size_t N>
double polynomial(const std::array<double, N>& coefficients, double x) {
  double sum = 0;
  for (std::size_t i = N; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

// ln x for x in (0, 1), from arithmetic alone: libraries differ in the last bit of log.
double log_below_one(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // [1/2, 1)
  if (mantissa < 0.70710678118654752) {
    mantissa *= 2;
    --exponent;
  }
  const double s = (mantissa - 1) / (mantissa + 1);
  constexpr std::array<double, 11> kSeries{1,        1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9, 1.0 / 11,
                                           1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
  return exponent * 0.69314718055994531 + 2 * s * polynomial(kSeries, s * s);
}

}  // namespace

namespace detail {

std::array<std::uint32_t, 4> philox(const std::array<std::uint32_t, 4>& counter,
                                    const std::array<std::uint32_t, 2>& key) {
  Block x = counter;
  std::array<std::uint32_t, 2> k = key;
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kPhiloxMultiplier0} * x[0];
    const std::uint64_t product1 = std::uint64_t{kPhiloxMultiplier1} * x[2];
    x = {high_half(product1) ^ x[1] ^ k[0], low_half(product1), high_half(product0) ^ x[3] ^ k[1], low_half(product0)};
    k[0] += kPhiloxWeyl0;
    k[1] += kPhiloxWeyl1;
  }
  return x;
}

void philox_blocks(std::uint64_t seed, std::uint64_t first, Index count, std::uint32_t* out) {
  const Index done = HWY_DYNAMIC_DISPATCH(philox_vectors)(seed, first, count, out);
  for (Index i = done; i < count; ++i) {
    const Block block = block_at(seed, first + static_cast<std::uint64_t>(i));
    std::copy(block.begin(), block.end(), out + 4 * i);
  }
}

// Wichura 1988, "Algorithm AS 241: the percentage points of the normal distribution", Applied Statistics 37, PPND16.
double inverse_normal(double p) {
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q *
           polynomial<8>(
               {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
                4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3},
               r) /
           polynomial<8>(
               {1, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3, 2.1213794301586595867e4,
                3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3},
               r);
  }
  const double r = std::sqrt(-log_below_one(q < 0 ? p : 1 - p));
  double z;
  if (r <= 5) {
    z = polynomial<8>(
            {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
             1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4},
            r - 1.6) /
        polynomial<8>({1, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
                       1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
                       1.05075007164441684324e-9},
                      r - 1.6);
  } else {
    z = polynomial<8>({6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
                       2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                       2.71155556874348757815e-5, 2.01033439929228813265e-7},
                      r - 5) /
        polynomial<8>({1, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
                       7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
                       2.04426310338993978564e-15},
                      r - 5);
  }
  return q < 0 ? -z : z;
}

}  // namespace detail

void Generator::set_state(std::uint64_t seed, std::uint64_t position) {
  seed_ = seed;
  position_ = position;
}

std::uint32_t Generator::next() { return block_at(seed_, position_++)[0]; }

double Generator::uniform() {
  const Block block = block_at(seed_, position_++);
  return uniform_of(joined(block[0], block[1]));
}

Index Generator::below(Index limit) {
  if (limit < 1) throw ValueError(fmt::format("below: limit is {}; it must be at least 1", limit));
  const std::uint64_t position = position_++;
  const Block block = block_at(seed_, position);
  return static_cast<Index>(bounded(joined(block[0], block[1]), seed_, position, 0, static_cast<std::uint64_t>(limit)));
}

std::uint64_t Generator::reserve(std::uint64_t count) {
  const std::uint64_t first = position_;
  position_ += count;
  return first;
}

Generator& default_generator() {
  static Generator generator;
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator().set_state(seed, 0); }

Tensor rand(const Shape& shape, DType dtype, Generator& generator) {
  return filled_floating("rand", shape, dtype, generator, 2, [](auto bits) { return uniform_of(bits); });
}

Tensor randn(const Shape& shape, DType dtype, Generator& generator) {
  return filled_floating("randn", shape, dtype, generator, 32, [](auto bits) { return normal_of(bits); });
}

Tensor randint(Index low, Index high, const Shape& shape, Generator& generator) {
  if (low >= high) throw ValueError(fmt::format("randint: low {} must be below high {}", low, high));
  const std::uint64_t limit = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  return filled<Index>(shape, generator, 4, [=](std::uint64_t bits, std::uint64_t position, std::size_t half) {
    const std::uint64_t step = bounded(bits, generator.seed(), position, half, limit);
    return static_cast<Index>(static_cast<std::uint64_t>(low) + step);
  });
}

// Fisher and Yates: every order is equally likely.
Tensor randperm(Index n, Generator& generator) {
  if (n < 0) throw ValueError(fmt::format("randperm: n is {}; it must be at least 0", n));
  Tensor out = arange(n);
  Index* order = detail::fresh<Index>(out);
  for (Index i = n - 1; i > 0; --i) std::swap(order[i], order[generator.below(i + 1)]);
  return out;
}

double NumpyRandom::rand() {
  const std::uint32_t a = static_cast<std::uint32_t>(engine_() >> 5);
  const std::uint32_t b = static_cast<std::uint32_t>(engine_() >> 6);
  return (a * 67108864.0 + b) / 9007199254740992.0;
}

// Marsaglia's polar method, the second of each pair kept for the next call.
double NumpyRandom::randn() {
  if (has_kept_) {
    has_kept_ = false;
    return kept_;
  }
  double x1, x2, square;
  do {
    x1 = 2 * rand() - 1;
    x2 = 2 * rand() - 1;
    square = x1 * x1 + x2 * x2;
  } while (square >= 1 || square == 0);
  const double factor = std::sqrt(-2 * std::log(square) / square);
  kept_ = factor * x1;
  has_kept_ = true;
  return factor * x2;
}

Tensor NumpyRandom::rand(const Shape& shape) {
  Tensor out = empty(shape, DType::f64);
  for (double& value : out.write<double>()) value = rand();
  return out;
}

Tensor NumpyRandom::randn(const Shape& shape) {
  Tensor out = empty(shape, DType::f64);
  for (double& value : out.write<double>()) value = randn();
  return out;
}

}  // namespace tapehead
#endif  // HWY_ONCE
