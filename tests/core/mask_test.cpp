// SPDX-License-Identifier: MIT
// Every kind of mask against attention written out in loops, in every path: f32 and f64, with and without weights.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <doctest/doctest.h>

#include <tapehead/attention.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/random.h>

using namespace tapehead;

namespace {

constexpr Index kBatches = 2;
const double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

// What a query may see, and what is added to its score.
using Allowed = std::function<bool(Index batch, Index query, Index key)>;
using Added = std::function<double(Index query, Index key)>;

struct Sizes {
  Index queries, keys, size, value_size;
};

std::vector<double> written_out(const Sizes& s, const Tensor& q, const Tensor& k, const Tensor& v,
                                const Allowed& allowed, const Added& added) {
  std::vector<double> out(static_cast<std::size_t>(kBatches * s.queries * s.value_size), 0);
  for (Index b = 0; b < kBatches; ++b) {
    for (Index i = 0; i < s.queries; ++i) {
      double total = 0;
      std::vector<double> row(static_cast<std::size_t>(s.value_size), 0);
      for (Index j = 0; j < s.keys; ++j) {
        if (!allowed(b, i, j)) continue;
        double score = 0;
        for (Index e = 0; e < s.size; ++e) score += q.at({b, i, e}) * k.at({b, j, e});
        const double power = std::exp(score / std::sqrt(static_cast<double>(s.size)) + added(i, j));
        total += power;
        for (Index e = 0; e < s.value_size; ++e) row[static_cast<std::size_t>(e)] += power * v.at({b, j, e});
      }
      for (Index e = 0; e < s.value_size && total > 0; ++e) {
        out[static_cast<std::size_t>((b * s.queries + i) * s.value_size + e)] =
            row[static_cast<std::size_t>(e)] / total;
      }
    }
  }
  return out;
}

using MakeMask = std::function<Mask(DType)>;

void check_mask(
    const Sizes& s, const MakeMask& mask, const Allowed& allowed,
    const Added& added = [](Index, Index) { return 0.0; }) {
  NumpyRandom random(3);
  Tensor q = random.randn({kBatches, s.queries, s.size});
  Tensor k = random.randn({kBatches, s.keys, s.size});
  Tensor v = random.randn({kBatches, s.keys, s.value_size});
  const std::vector<double> expected = written_out(s, q, k, v, allowed, added);
  // What no query of a batch may see must not be read into any result: a NaN there changes nothing.
  for (Index b = 0; b < kBatches; ++b) {
    for (Index j = 0; j < s.keys; ++j) {
      bool seen = false;
      for (Index i = 0; i < s.queries; ++i) seen = seen || allowed(b, i, j);
      if (!seen) k.write<double>()[static_cast<std::size_t>((b * s.keys + j) * s.size)] = kNaN;
      if (!seen) v.write<double>()[static_cast<std::size_t>((b * s.keys + j) * s.value_size)] = kInfinity;
    }
  }
  for (const DType dtype : {DType::f64, DType::f32}) {
    for (const bool need_weights : {true, false}) {
      CAPTURE(name_of(dtype));
      CAPTURE(need_weights);
      const std::vector<Tensor> leaves = {to(q, dtype).requires_grad_(), to(k, dtype).requires_grad_(),
                                          to(v, dtype).requires_grad_()};
      const AttentionResult result = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2],
                                                                  {.mask = mask(dtype), .need_weights = need_weights});
      const Tensor output = to(result.output, DType::f64);
      for (std::size_t at = 0; at < expected.size(); ++at) {
        CAPTURE(at);
        REQUIRE(std::abs(output.read<double>()[at] - expected[at]) <= (dtype == DType::f64 ? 1e-12 : 2e-5));
      }
      sum(result.output).backward();
      for (Index b = 0; b < kBatches; ++b) {
        for (Index i = 0; i < s.queries; ++i) {
          bool blocked = true;
          for (Index j = 0; j < s.keys; ++j) {
            blocked = blocked && !allowed(b, i, j);
            if (need_weights && !allowed(b, i, j)) REQUIRE(result.weights.at({b, i, j}) == 0);
          }
          for (Index e = 0; e < s.size; ++e) {
            REQUIRE(std::isfinite(leaves[0].grad().at({b, i, e})));
            if (blocked) REQUIRE(leaves[0].grad().at({b, i, e}) == 0);
          }
          for (Index e = 0; e < s.value_size && blocked; ++e) REQUIRE(result.output.at({b, i, e}) == 0);
        }
        for (Index j = 0; j < s.keys; ++j) {
          bool seen = false;
          for (Index i = 0; i < s.queries; ++i) seen = seen || allowed(b, i, j);
          REQUIRE(std::isfinite(leaves[1].grad().at({b, j, 0})));
          REQUIRE(std::isfinite(leaves[2].grad().at({b, j, 0})));
          if (!seen) REQUIRE(leaves[1].grad().at({b, j, 0}) == 0);
          if (!seen) REQUIRE(leaves[2].grad().at({b, j, 0}) == 0);
        }
      }
    }
  }
}

bool scattered(Index batch, Index query, Index key) { return (batch * 5 + query * 3 + key * 7) % 4 != 1; }

Tensor scattered_tensor(const Sizes& s, bool blocked) {
  Tensor out = empty({kBatches, s.queries, s.keys}, DType::boolean);
  std::size_t at = 0;
  for (Index b = 0; b < kBatches; ++b) {
    for (Index i = 0; i < s.queries; ++i) {
      for (Index j = 0; j < s.keys; ++j) out.write<bool>()[at++] = scattered(b, i, j) != blocked;
    }
  }
  return out;
}

}  // namespace

TEST_CASE("masks mean what they say, in every path") {
  for (const Sizes& s : {Sizes{5, 5, 3, 4}, Sizes{3, 7, 2, 1}, Sizes{70, 131, 8, 5}, Sizes{131, 67, 16, 3}}) {
    CAPTURE(s.queries);
    CAPTURE(s.keys);
    check_mask(
        s, [](DType) { return Mask(); }, [](Index, Index, Index) { return true; });
    for (const Index offset : {Index{0}, Index{2}, Index{-1}, Index{-3}, s.keys - s.queries, Index{1000}}) {
      CAPTURE(offset);
      check_mask(
          s, [=](DType) { return Mask::causal(offset); }, [=](Index, Index i, Index j) { return j <= i + offset; });
    }
    check_mask(
        s, [](DType) { return Mask::window(1, 2); }, [](Index, Index i, Index j) { return j >= i - 1 && j <= i + 2; });
    check_mask(
        s, [](DType) { return Mask::window(2, 1000) & Mask::causal(1); },
        [](Index, Index i, Index j) { return j >= i - 2 && j <= i + 1; });
    const Index lengths[] = {s.keys - 2, 0};
    check_mask(
        s, [&](DType) { return Mask::lengths(from_data(std::span<const Index>(lengths), {2})); },
        [&](Index b, Index, Index j) { return j < lengths[b]; });
    check_mask(
        s, [&](DType) { return Mask::keep(scattered_tensor(s, false)); }, scattered);
    check_mask(
        s, [&](DType) { return Mask::block(scattered_tensor(s, true)); }, scattered);
    check_mask(
        s, [&](DType) { return Mask::keep(scattered_tensor(s, false)) & Mask::causal(0); },
        [](Index b, Index i, Index j) { return scattered(b, i, j) && j <= i; });
    check_mask(
        s,
        [&](DType dtype) {
          Tensor scores = empty({s.queries, s.keys}, DType::f64);
          for (Index i = 0; i < s.queries; ++i) {
            for (Index j = 0; j < s.keys; ++j) {
              scores.write<double>()[static_cast<std::size_t>(i * s.keys + j)] =
                  scattered(0, i, j) ? 0.1 * static_cast<double>(j % 5) : -kInfinity;
            }
          }
          return Mask::add(to(scores, dtype));
        },
        [](Index, Index i, Index j) { return scattered(0, i, j); },
        [](Index, Index j) { return 0.1 * static_cast<double>(j % 5); });
  }
}

TEST_CASE("causal() without an offset is causal(0) for as many keys as queries") {
  const Tensor x = randn({3, 5, 4});
  const Tensor a = scaled_dot_product_attention(x, x, x, {.mask = Mask::causal()}).output;
  const Tensor b = scaled_dot_product_attention(x, x, x, {.mask = Mask::causal(0)}).output;
  CHECK(std::ranges::equal(a.read<float>(), b.read<float>()));
}

TEST_CASE("masks: each factory takes one element type") {
  const auto takes = [](auto factory, DType wanted) {
    for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::boolean}) {
      CAPTURE(name_of(dtype));
      const Tensor values = zeros({3}, dtype);
      if (dtype == wanted || (wanted == DType::f32 && dtype == DType::f64)) {
        CHECK_NOTHROW(factory(values));
      } else {
        CHECK_THROWS_AS(factory(values), DTypeError);
      }
    }
  };
  takes([](const Tensor& x) { return Mask::keep(x); }, DType::boolean);
  takes([](const Tensor& x) { return Mask::block(x); }, DType::boolean);
  takes([](const Tensor& x) { return Mask::lengths(x); }, DType::i64);
  takes([](const Tensor& x) { return Mask::add(x); }, DType::f32);
}
