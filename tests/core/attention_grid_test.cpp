// SPDX-License-Identifier: MIT
// 240 ways to call attention (sizes, heads, masks), each in every path: f32 and f64, with and without weights, rules
// from kernels and from recorded operations. All against attention and its gradients written out in f64 loops.
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <tapehead/attention.h>
#include <tapehead/ops.h>
#include <tapehead/random.h>

using namespace tapehead;

namespace {

constexpr Index kBatches = 2;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Sizes {
  Index queries, keys, size, value_size;
};
constexpr Sizes kSizes[] = {{1, 1, 1, 1}, {5, 5, 3, 4}, {3, 7, 2, 5}, {9, 4, 8, 1}, {1, 33, 16, 4}, {70, 131, 5, 3}};

struct Heads {
  Index heads, kv_heads;      // 0: the last axis is one head
  bool keys_for_all = false;  // one batch of keys and values, which the batches of queries share
};
constexpr Heads kHeads[] = {{0, 0}, {0, 0, true}, {2, 2}, {4, 2}, {3, 1}};

constexpr const char* kMasks[] = {"none", "keep", "block", "add", "causal", "lengths", "window", "all of them"};

struct Combination {
  Sizes size;
  Heads head;
  std::string mask;

  Index heads() const { return head.heads > 0 ? head.heads : 1; }
  Index kv_heads() const { return head.kv_heads > 0 ? head.kv_heads : 1; }
  Index key_batches() const { return head.keys_for_all ? 1 : kBatches; }
  bool has(const char* kind) const { return mask == kind || mask == "all of them"; }

  // The mask, told pair by pair. Query 1 sees nothing where there is a boolean mask.
  bool allowed(Index batch, Index h, Index i, Index j) const {
    if (has("keep") && (i == 1 || (i * 3 + j * 7) % 4 == 1)) return false;
    if (has("block") && j % 5 == 3) return false;
    if (has("add") && (batch + h + i + j * 2) % 6 == 4) return false;
    if (has("causal") && j > i + size.keys - size.queries) return false;
    if (has("lengths") && j >= length(batch)) return false;
    return !has("window") || (j >= i - 2 && j <= i + 60);
  }
  double added(Index h, Index i, Index j) const {
    return has("add") ? 0.1 * static_cast<double>((h + 2 * i + j) % 7) - 0.3 : 0;
  }
  Index length(Index batch) const { return batch == 0 ? size.keys - 1 : size.keys; }
};

template <class F>
Tensor filled(const Shape& shape, DType dtype, F f) {
  Tensor out = empty(shape, DType::f64);
  const Index keys = shape[-1], queries = shape.rank() > 1 ? shape[-2] : 1, heads = shape.rank() > 2 ? shape[-3] : 1;
  Index at = 0;
  for (double& value : out.write<double>()) {
    const Index row = at / keys;
    value = f(row / queries / heads, row / queries % heads, row % queries, at % keys);
    ++at;
  }
  return dtype == DType::boolean ? not_equal(out, zeros({}, DType::f64)) : to(out, dtype);
}

// The same mask in Tapehead's terms, its tensors of rank 1 to 4.
Mask mask_of(const Combination& c, DType dtype) {
  const auto [queries, keys, size, value_size] = c.size;
  Mask mask;
  if (c.has("keep")) {
    mask = mask & Mask::keep(filled({queries, keys}, DType::boolean,
                                    [](Index, Index, Index i, Index j) { return i != 1 && (i * 3 + j * 7) % 4 != 1; }));
  }
  if (c.has("block")) {
    const auto blocked = [](Index, Index, Index, Index j) { return j % 5 == 3; };
    mask = mask & Mask::block(filled({keys}, DType::boolean, blocked));
  }
  if (c.has("add")) {
    const Shape own = c.head.heads > 0 ? Shape{kBatches, c.heads(), queries, keys} : Shape{kBatches, queries, keys};
    mask = mask & Mask::add(filled(own, dtype, [&](Index b, Index h, Index i, Index j) {
             if (c.head.heads == 0) std::swap(b, h);  // rank 3: the third axis from the end is the batch
             return (b + h + i + j * 2) % 6 == 4 ? -kInfinity : c.added(h, i, j);
           }));
  }
  if (c.has("causal")) mask = mask & Mask::causal(keys - queries);
  if (c.has("lengths")) {
    const Index lengths[] = {c.length(0), c.length(1)};
    mask = mask & Mask::lengths(from_data(std::span<const Index>(lengths), {kBatches}));
  }
  if (c.has("window")) mask = mask & Mask::window(2, 60);
  return mask;
}

// Everything that attention takes and gives, flat, with the heads side by side in the last axis.
struct Numbers {
  std::vector<double> query, key, value, output_gradient, weights_gradient;
  std::vector<double> output, weights, query_gradient, key_gradient, value_gradient;
};

std::vector<double> normal(NumpyRandom& random, Index count) {
  const Tensor x = to(to(random.randn({count}), DType::f32), DType::f64);  // f32 and f64 get the same numbers
  return {x.read<double>().begin(), x.read<double>().end()};
}

Numbers inputs_of(const Combination& c) {
  NumpyRandom random(17);
  const auto [queries, keys, size, value_size] = c.size;
  Numbers n;
  n.query = normal(random, kBatches * queries * c.heads() * size);
  n.key = normal(random, c.key_batches() * keys * c.kv_heads() * size);
  n.value = normal(random, c.key_batches() * keys * c.kv_heads() * value_size);
  n.output_gradient = normal(random, kBatches * queries * c.heads() * value_size);
  n.weights_gradient = normal(random, kBatches * queries * c.heads() * keys);
  return n;
}

// One row of one head, in loops: what an allowed pair does not touch is not read.
class Row {
 public:
  Row(const Combination& c, Numbers& n, Index batch, Index head, Index query)
      : c_(c), n_(n), batch_(batch), head_(head), query_(query), scale_(1 / std::sqrt(double(c.size.size))) {}

  void forward() {
    const auto [queries, keys, size, value_size] = c_.size;
    double top = -kInfinity, total = 0;
    for (Index j = 0; j < keys; ++j) {
      if (!allowed(j)) continue;
      double& score = weight(j) = 0;
      for (Index e = 0; e < size; ++e) score += n_.query[query_at(e)] * n_.key[key_at(j, e)];
      score = score * scale_ + c_.added(head_, query_, j);
      top = std::max(top, score);
    }
    for (Index j = 0; j < keys; ++j) {
      if (allowed(j)) total += weight(j) = std::exp(weight(j) - top);
    }
    for (Index j = 0; j < keys; ++j) {
      if (!allowed(j)) continue;
      weight(j) /= total;
      for (Index e = 0; e < value_size; ++e) n_.output[output_at(e)] += weight(j) * n_.value[value_at(j, e)];
    }
  }

  void backward(bool through_weights) {
    const auto [queries, keys, size, value_size] = c_.size;
    std::vector<double> slopes(static_cast<std::size_t>(keys), 0);
    double mean = 0;
    for (Index j = 0; j < keys; ++j) {
      if (!allowed(j)) continue;
      double& slope = slopes[static_cast<std::size_t>(j)];
      if (through_weights) slope = n_.weights_gradient[weight_at(j)];
      for (Index e = 0; e < value_size; ++e) {
        const double g = n_.output_gradient[output_at(e)];
        slope += g * n_.value[value_at(j, e)];
        n_.value_gradient[value_at(j, e)] += weight(j) * g;
      }
      mean += weight(j) * slope;
    }
    for (Index j = 0; j < keys; ++j) {
      if (!allowed(j)) continue;
      const double score = scale_ * weight(j) * (slopes[static_cast<std::size_t>(j)] - mean);
      for (Index e = 0; e < size; ++e) {
        n_.query_gradient[query_at(e)] += score * n_.key[key_at(j, e)];
        n_.key_gradient[key_at(j, e)] += score * n_.query[query_at(e)];
      }
    }
  }

 private:
  static std::size_t place(Index row, Index heads, Index head, Index size, Index e) {
    return static_cast<std::size_t>((row * heads + head) * size + e);
  }
  bool allowed(Index j) const { return c_.allowed(batch_, head_, query_, j); }
  Index query_row() const { return batch_ * c_.size.queries + query_; }
  Index key_row(Index j) const { return (c_.head.keys_for_all ? 0 : batch_) * c_.size.keys + j; }
  Index shared() const { return head_ / (c_.heads() / c_.kv_heads()); }
  std::size_t query_at(Index e) const { return place(query_row(), c_.heads(), head_, c_.size.size, e); }
  std::size_t key_at(Index j, Index e) const { return place(key_row(j), c_.kv_heads(), shared(), c_.size.size, e); }
  std::size_t value_at(Index j, Index e) const {
    return place(key_row(j), c_.kv_heads(), shared(), c_.size.value_size, e);
  }
  std::size_t output_at(Index e) const { return place(query_row(), c_.heads(), head_, c_.size.value_size, e); }
  std::size_t weight_at(Index j) const {
    return static_cast<std::size_t>(((batch_ * c_.heads() + head_) * c_.size.queries + query_) * c_.size.keys + j);
  }
  double& weight(Index j) { return n_.weights[weight_at(j)]; }

  const Combination& c_;
  Numbers& n_;
  Index batch_, head_, query_;
  double scale_;
};

void write_out(const Combination& c, Numbers& n, bool through_weights) {
  n.output.assign(n.output_gradient.size(), 0);
  n.weights.assign(n.weights_gradient.size(), 0);
  n.query_gradient.assign(n.query.size(), 0);
  n.key_gradient.assign(n.key.size(), 0);
  n.value_gradient.assign(n.value.size(), 0);
  for (Index row = 0; row < kBatches * c.heads() * c.size.queries; ++row) {
    Row one(c, n, row / c.size.queries / c.heads(), row / c.size.queries % c.heads(), row % c.size.queries);
    one.forward();
    one.backward(through_weights);
  }
}

// Within the tolerance, in units of 1 or of the expected number; 0 exactly 0 where the loops never came; NaN where NaN
// is expected and nowhere else.
std::string compared(const char* what, const Tensor& x, const std::vector<double>& expected, double tolerance) {
  const Tensor wide = to(x.detach(), DType::f64);
  if (wide.numel() != static_cast<Index>(expected.size())) return fmt::format("{} has {} elements", what, wide.numel());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double value = wide.read<double>()[i];
    if (std::isnan(value) && std::isnan(expected[i])) continue;
    if (expected[i] == 0 ? value == 0
                         : std::abs(value - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i])))
      continue;
    return fmt::format("{}[{}] is {}, not {}", what, i, value, expected[i]);
  }
  return "";
}

struct Path {
  DType dtype;
  bool need_weights, recorded;
};

Tensor leaf(const std::vector<double>& values, const Shape& shape, DType dtype) {
  return to(from_data(std::span<const double>(values), shape), dtype).requires_grad_();
}

void check_path(const Combination& c, const Numbers& n, const Path& path) {
  const auto [queries, keys, size, value_size] = c.size;
  const Tensor q = leaf(n.query, {kBatches, queries, c.heads() * size}, path.dtype);
  const Tensor k = leaf(n.key, {c.key_batches(), keys, c.kv_heads() * size}, path.dtype);
  const Tensor v = leaf(n.value, {c.key_batches(), keys, c.kv_heads() * value_size}, path.dtype);
  const AttentionOptions options{.mask = mask_of(c, path.dtype),
                                 .heads = c.head.heads,
                                 .kv_heads = c.head.kv_heads,
                                 .need_weights = path.need_weights};
  const AttentionResult result = scaled_dot_product_attention(q, k, v, options);
  const Tensor g = leaf(n.output_gradient, result.output.shape(), path.dtype).detach();
  // Both results in one row, so that one playback brings both gradients.
  Tensor all = reshape(result.output, {-1}), upstream = reshape(g, {-1});
  if (path.need_weights) {
    all = concat({all, reshape(result.weights, {-1})});
    upstream = concat({upstream, leaf(n.weights_gradient, {result.weights.numel()}, path.dtype).detach()});
  }
  const std::vector<Tensor> gradients = grad(all, {q, k, v}, {.gradient = upstream, .create_graph = path.recorded});
  const double tolerance = path.dtype == DType::f64 ? 1e-12 : 2e-5;
  std::string text = compared("output", result.output, n.output, tolerance);
  if (text.empty() && path.need_weights) text = compared("weights", result.weights, n.weights, tolerance);
  if (text.empty()) text = compared("query's gradient", gradients[0], n.query_gradient, tolerance);
  if (text.empty()) text = compared("key's gradient", gradients[1], n.key_gradient, tolerance);
  if (text.empty()) text = compared("value's gradient", gradients[2], n.value_gradient, tolerance);
  CHECK_MESSAGE(text.empty(),
                fmt::format("{} queries, {} keys, {}/{} heads, mask {}, {}{}{}: {}", c.size.queries, c.size.keys,
                            c.head.heads, c.head.kv_heads, c.mask, name_of(path.dtype),
                            path.need_weights ? ", weights" : "", path.recorded ? ", recorded" : "", text));
}

// A NaN in the last query, in a key, in a value and in the gradient of a weight.
void spoil(Numbers& n) {
  n.query.back() = kNaN;
  n.key[n.key.size() / 3] = kNaN;
  n.value[n.value.size() / 2] = kNaN;
  n.weights_gradient[n.weights_gradient.size() / 5] = kNaN;
}

}  // namespace

TEST_CASE("attention: 240 combinations give one answer in every path") {
  int combinations = 0;
  for (const Sizes& size : kSizes) {
    for (const Heads& head : kHeads) {
      for (const char* mask : kMasks) {
        const Combination c{size, head, mask};
        ++combinations;
        for (const bool with_nan : {false, true}) {
          CAPTURE(with_nan);
          Numbers n = inputs_of(c);
          if (with_nan) spoil(n);
          for (const bool need_weights : {false, true}) {
            write_out(c, n, need_weights);
            for (const DType dtype : {DType::f64, DType::f32}) {
              for (const bool recorded : {false, true}) check_path(c, n, {dtype, need_weights, recorded});
            }
          }
        }
      }
    }
  }
  CHECK(combinations == 240);
}

TEST_CASE("attention: keys kept from earlier steps give the rows of the whole") {
  for (const DType dtype : {DType::f64, DType::f32}) {
    for (const Heads& head : kHeads) {
      const Combination c{{70, 70, 5, 3}, head, "causal"};
      const Numbers n = inputs_of(c);
      const Tensor q = leaf(n.query, {kBatches, 70, c.heads() * 5}, dtype).detach();
      const Tensor k = leaf(n.key, {c.key_batches(), 70, c.kv_heads() * 5}, dtype).detach();
      const Tensor v = leaf(n.value, {c.key_batches(), 70, c.kv_heads() * 3}, dtype).detach();
      AttentionOptions options{.mask = Mask::causal(), .heads = head.heads, .kv_heads = head.kv_heads};
      const AttentionResult whole = scaled_dot_product_attention(q, k, v, options);
      for (const Index step : {1, 7, 66}) {
        for (Index begin = 0; begin < 70; begin += step) {
          const Index end = std::min<Index>(begin + step, 70);
          options.mask = Mask::causal(begin);
          const AttentionResult part =
              scaled_dot_product_attention(slice(q, 1, {.start = begin, .stop = end}), slice(k, 1, {.stop = end}),
                                           slice(v, 1, {.stop = end}), options);
          const double tolerance = dtype == DType::f64 ? 1e-12 : 2e-5;
          CAPTURE(begin);
          CHECK(max(abs(part.output - slice(whole.output, 1, {.start = begin, .stop = end}))).item() <= tolerance);
          const Tensor rows = slice(whole.weights, -2, {.start = begin, .stop = end});
          CHECK(max(abs(part.weights - slice(rows, -1, {.stop = end}))).item() <= tolerance);
          if (end < 70) CHECK(max(slice(rows, -1, {.start = end})).item() == 0);  // the whole gives the future nothing
        }
      }
    }
  }
}
