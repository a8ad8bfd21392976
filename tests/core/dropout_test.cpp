// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/runtime.h>

#include "core/central_differences.h"

using namespace tapehead;
using test::check_gradients;
using test::uneven;

namespace {

template <class T>
std::vector<T> values(const Tensor& x) {
  return {x.read<T>().begin(), x.read<T>().end()};
}

}  // namespace

TEST_CASE("dropout: each element is 0 or divided by what stays, in the right share") {
  for (const double p : {0.1, 0.5, 0.9}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      Generator generator(3);
      const Tensor y = to(dropout(full({400, 501}, 3, dtype), p, generator), DType::f64);
      Index zeros = 0;
      for (const double v : y.read<double>()) {
        if (v != 0) REQUIRE(v == doctest::Approx(3 / (1 - p)).epsilon(1e-6));
        zeros += v == 0 ? 1 : 0;
      }
      const double n = static_cast<double>(y.numel());
      CHECK(std::abs(static_cast<double>(zeros) - n * p) < 6 * std::sqrt(n * p * (1 - p)));
    }
  }
}

TEST_CASE("dropout: which elements go is decided by the bits of the generator's blocks") {
  Generator generator(9);
  generator.next();
  const Tensor y = dropout(ones({3, 7}, DType::f64), 0.25, generator);
  CHECK(generator.position() == 1 + 6);
  std::vector<std::uint32_t> bits(24);
  detail::philox_blocks(9, 1, 6, bits.data());
  for (std::size_t i = 0; i < 21; ++i) CHECK(y.read<double>()[i] == (bits[i] >= 0x40000000u ? 1 / 0.75 : 0));
}

TEST_CASE("dropout: same bits for any number of threads; a new mask every time") {
  const auto draw = [] {
    Generator generator(1);
    return values<float>(dropout(ones({100'003}), 0.3, generator));
  };
  const int threads = num_threads();
  set_num_threads(1);
  const auto alone = draw();
  set_num_threads(3);
  CHECK(draw() == alone);
  set_num_threads(threads);
  Generator generator(1);
  CHECK(values<float>(dropout(ones({100'003}), 0.3, generator)) == alone);
  CHECK(values<float>(dropout(ones({100'003}), 0.3, generator)) != alone);
  manual_seed(1);
  CHECK(values<float>(dropout(ones({100'003}), 0.3)) == alone);
}

TEST_CASE("dropout: the backward pass uses the same mask, also after other draws") {
  const auto fixed = [](const Tensor& t) {
    Generator generator(5);
    Tensor y = dropout(t, 0.4, generator);
    dropout(t, 0.4, generator);
    return y;
  };
  check_gradients(fixed, uneven({5, 7}));
  check_gradients([&](const Tensor& t) { return fixed(t) * t; }, uneven({11}));
  Generator generator(5);
  Tensor x = full({20'000}, 2).requires_grad_();
  const Tensor y = dropout(x, 0.5, generator);
  dropout(x, 0.5, generator);
  sum(y).backward();
  CHECK(values<float>(x.grad() * 2.0) == values<float>(y));
}

TEST_CASE("dropout: p = 0 changes nothing and draws nothing; dropped infinities and NaN are 0") {
  Generator generator(1);
  const Tensor x = uneven({4});
  CHECK(values<double>(dropout(x, 0, generator)) == values<double>(x));
  CHECK(generator.position() == 0);
  CHECK(dropout(zeros({0, 3}), 0.5, generator).shape() == Shape{0, 3});
  CHECK(dropout(tensor(1), 0.5, generator).rank() == 0);
  const Tensor y = dropout(full({1000}, std::numeric_limits<double>::quiet_NaN()), 0.5, generator);
  const Tensor z = dropout(full({1000}, -std::numeric_limits<double>::infinity()), 0.999, generator);
  CHECK(std::count(y.read<float>().begin(), y.read<float>().end(), 0.0f) > 400);
  CHECK(std::count(z.read<float>().begin(), z.read<float>().end(), 0.0f) > 980);
}

TEST_CASE("dropout: refuses other rates and types before it draws") {
  Generator generator(1);
  const Tensor x = ones({2});
  CHECK_THROWS_WITH_AS(dropout(x, 1, generator), "dropout: p is 1; it must be at least 0 and below 1", ValueError);
  CHECK_THROWS_WITH_AS(dropout(x, -0.1, generator), "dropout: p is -0.1; it must be at least 0 and below 1",
                       ValueError);
  CHECK_THROWS_AS(dropout(x, std::numeric_limits<double>::quiet_NaN(), generator), ValueError);
  CHECK_THROWS_WITH_AS(dropout(arange(3), 0.5, generator),
                       "dropout: x must be f32 or f64; convert it with to(), is i64", DTypeError);
  CHECK_THROWS_AS(dropout(Tensor(), 0.5, generator), StateError);
  CHECK(generator.position() == 0);
}
