// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cmath>

#include "layers/filled.h"

using namespace tapehead;

TEST_CASE("sinusoidal_positions: the paper's formula") {
  const Tensor table = sinusoidal_positions(50, 6, DType::f64);
  CHECK(table.shape() == Shape{50, 6});
  for (const Index p : {0, 1, 49}) {
    for (const Index i : {0, 1, 2}) {
      const double angle = static_cast<double>(p) / std::pow(10000.0, 2.0 * static_cast<double>(i) / 6);
      CHECK(table.at({p, 2 * i}) == doctest::Approx(std::sin(angle)).epsilon(1e-12));
      CHECK(table.at({p, 2 * i + 1}) == doctest::Approx(std::cos(angle)).epsilon(1e-12));
    }
  }
  CHECK(sinusoidal_positions(2, 2).dtype() == DType::f32);
  CHECK_THROWS_AS(sinusoidal_positions(4, 5), ValueError);
  CHECK_THROWS_AS(sinusoidal_positions(0, 4), ValueError);
}

TEST_CASE("alibi: the paper's slopes, for powers of two and for others") {
  const Tensor eight = alibi(8, 3, 3, 0, DType::f64);
  for (Index h = 0; h < 8; ++h) CHECK(eight.at({h, 2, 0}) == -2 * std::exp2(-static_cast<double>(h + 1)));
  CHECK(eight.at({0, 1, 1}) == 0);
  // Six heads: those of four, 1/4 to 1/256, then every second one of eight: 1/2 and 1/8.
  const Tensor six = alibi(6, 1, 2, 1, DType::f64);
  const double slopes[] = {1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256, 1.0 / 2, 1.0 / 8};
  for (Index h = 0; h < 6; ++h) {
    CHECK(six.at({h, 0, 0}) == -slopes[h]);
    CHECK(six.at({h, 0, 1}) == 0);
  }
  CHECK_THROWS_AS(alibi(0, 1, 1), ValueError);
  CHECK_THROWS_AS(alibi(1, 1, 0), ValueError);
}

TEST_CASE("PositionEmbedding: rows are added from an offset on, and a short table says so") {
  Generator generator(1);
  PositionEmbedding positions(5, 4, generator);
  positions.to(DType::f64);
  const Tensor x = wave({2, 3, 4}, 0.1);
  CHECK(same_values(positions(x, 2), x + slice(positions.weight, 0, {.start = 2, .stop = 5})));
  CHECK(gradcheck(positions, {x}).passed());
  CHECK(gradcheck(positions, {wave({1, 5, 4}, 0.3)}).passed());
  positions.parameters();
  CHECK_THROWS_WITH_AS(positions(x, 3),
                       "weight: positions 3 to 5 are asked for, the table has 5; shorten the input or make the model "
                       "with a longer context",
                       ValueError);
  CHECK_THROWS_AS(positions(x, -1), ValueError);
  CHECK_THROWS_AS(positions(wave({2, 3, 5}, 0)), ShapeError);
  CHECK_THROWS_AS(PositionEmbedding(0, 4), ValueError);
}
