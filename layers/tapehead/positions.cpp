// SPDX-License-Identifier: MIT
#include <tapehead/positions.h>

#include <cmath>

#include <fmt/format.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

// The paper's slopes: powers of 2^(-8 / heads), and for other counts than powers of two every second one of twice as
// many heads fills up.
std::vector<double> alibi_slopes(Index heads) {
  Index whole = 1;
  while (2 * whole <= heads) whole *= 2;
  std::vector<double> slopes;
  for (Index h = 1; h <= whole; ++h)
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(whole)));
  for (Index h = 1; static_cast<Index>(slopes.size()) < heads; h += 2) {
    slopes.push_back(std::exp2(-4.0 * static_cast<double>(h) / static_cast<double>(whole)));
  }
  return slopes;
}

}  // namespace

Tensor sinusoidal_positions(Index count, Index width, DType dtype) {
  detail::at_least_one("sinusoidal_positions", "count", count);
  detail::at_least_one("sinusoidal_positions", "width", width);
  if (width % 2 != 0) {
    throw ValueError(fmt::format("sinusoidal_positions: width {} is odd; sine and cosine come in pairs", width));
  }
  std::vector<double> values(static_cast<std::size_t>(count * width));
  for (Index p = 0; p < count; ++p) {
    for (Index i = 0; i < width; i += 2) {
      const double angle = static_cast<double>(p) / std::pow(1e4, static_cast<double>(i) / static_cast<double>(width));
      values[static_cast<std::size_t>(p * width + i)] = std::sin(angle);
      values[static_cast<std::size_t>(p * width + i + 1)] = std::cos(angle);
    }
  }
  return to(from_data(std::span<const double>(values), {count, width}), dtype);
}

Tensor alibi(Index heads, Index queries, Index keys, Index offset, DType dtype) {
  detail::at_least_one("alibi", "heads", heads);
  detail::at_least_one("alibi", "queries", queries);
  detail::at_least_one("alibi", "keys", keys);
  Tensor out = empty({heads, queries, keys}, dtype);
  const std::vector<double> slopes = alibi_slopes(heads);
  visit_float(dtype, "alibi", [&](auto zero) {
    using T = decltype(zero);
    const std::span<T> values = out.write<T>();
    std::size_t at = 0;
    for (const double slope : slopes) {
      for (Index i = 0; i < queries; ++i) {
        for (Index j = 0; j < keys; ++j) {
          values[at++] = static_cast<T>(-slope * static_cast<double>(std::abs(i + offset - j)));
        }
      }
    }
  });
  return out;
}

PositionEmbedding::PositionEmbedding(Index context, Index width, Generator& generator) {
  detail::at_least_one("PositionEmbedding", "context", context);
  detail::at_least_one("PositionEmbedding", "width", width);
  weight = randn({context, width}, DType::f32, generator);
}

Tensor PositionEmbedding::operator()(const Tensor& x, Index offset) const {
  const Index context = weight.shape()[0], width = weight.shape()[1];
  const std::string name = weight.name().empty() ? "PositionEmbedding" : std::string(weight.name());
  if (x.rank() < 2 || x.shape()[-1] != width) {
    throw ShapeError(fmt::format("{}: x {} must be [..., T, {}]", name, to_string(x.shape()), width));
  }
  const Index end = offset + x.shape()[-2];
  if (offset < 0 || end > context) {
    throw ValueError(
        fmt::format("{}: positions {} to {} are asked for, the table has {}; shorten the input or make "
                    "the model with a longer context",
                    name, offset, end - 1, context));
  }
  if (end - offset == context) return x + weight;
  return x + slice(weight, 0, {.start = offset, .stop = end});
}

void PositionEmbedding::members(Members& m) { m("weight", weight); }

}  // namespace tapehead
