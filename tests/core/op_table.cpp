// SPDX-License-Identifier: MIT
#include "core/op_table.h"

#include <cmath>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>

#include <tapehead/ops.h>

namespace op_table {

using namespace tapehead;

namespace {

// Rank 0, all sizes 1, a size 0 on each axis in turn, primes, rank 5 and 6.
const std::vector<Shape> kShapes = {
    {}, {1, 1}, {0, 3}, {3, 0}, {7}, {5, 3}, {2, 3, 1, 2, 2}, {1, 2, 1, 3, 1, 2},
};

// The same, and broadcasting from the left, from the right and from both.
const std::vector<std::pair<Shape, Shape>> kPairs = {
    {{}, {}},
    {{1, 1}, {1}},
    {{0, 3}, {3}},
    {{2, 1}, {2, 0}},
    {{7}, {7}},
    {{3}, {5, 3}},
    {{5, 3}, {3}},
    {{5, 3}, {}},
    {{5, 1}, {3}},
    {{2, 1, 3}, {5, 1}},
    {{2, 1, 3, 1, 2}, {3, 1, 2, 1}},
    {{1, 2, 1, 3, 1, 2}, {2, 1, 3, 1, 1, 2}},
};

}  // namespace

std::vector<Case> on_shapes(const TensorFunction& f, double low, double high, const std::string& what) {
  std::vector<Case> cases;
  for (const Shape& shape : kShapes) cases.push_back({what, f, {{shape, low, high}}});
  return cases;
}

void append(std::vector<Case>& cases, std::vector<Case> more) {
  for (Case& one : more) cases.push_back(std::move(one));
}

Tensor pattern(const Shape& shape) {
  Tensor out = zeros(shape, DType::boolean);
  Index i = 0;
  for (bool& value : out.write<bool>()) value = i++ % 3 != 1;
  return out;
}

Tensor whole(std::initializer_list<Index> values, const Shape& shape) {
  return from_data(std::span<const Index>(values.begin(), values.size()), shape);
}

Entry unary(const std::string& name, const std::function<Tensor(const Tensor&)>& f, double low, double high) {
  return {name, WrongType::whole, on_shapes([f](Inputs in) { return f(in[0]); }, low, high)};
}

namespace {

template <class F>
Entry binary(const std::string& name, F f, double low = -2, double high = 2) {
  Entry entry{name, WrongType::mixed};
  for (const auto& [a, b] : kPairs) {
    entry.cases.push_back({"", [f](Inputs in) { return f(in[0], in[1]); }, {{a, low, high}, {b, low, high}}});
  }
  return entry;
}

// The same tensor in both places.
template <class F>
std::vector<Case> twice(F f, double low = -2, double high = 2) {
  return on_shapes([f](Inputs in) { return f(in[0], in[0]); }, low, high, "same tensor twice");
}

void add_arithmetic(std::vector<Entry>& table) {
  Entry plus = binary("add", [](auto& a, auto& b) { return add(a, b); });
  append(plus.cases, twice([](auto& a, auto& b) { return add(a, b); }));
  append(plus.cases, on_shapes([](Inputs in) { return add(in[0], 1.5); }, -2, 2, "number"));
  Entry minus = binary("subtract", [](auto& a, auto& b) { return subtract(a, b); });
  append(minus.cases, twice([](auto& a, auto& b) { return subtract(a, b); }));
  append(minus.cases, on_shapes([](Inputs in) { return subtract(1.5, in[0]); }, -2, 2, "number"));
  Entry times = binary("multiply", [](auto& a, auto& b) { return multiply(a, b); });
  append(times.cases, twice([](auto& a, auto& b) { return multiply(a, b); }));
  append(times.cases, on_shapes([](Inputs in) { return multiply(in[0], -1.5); }, -2, 2, "number"));
  Entry over = binary(
      "divide", [](auto& a, auto& b) { return divide(a, b); }, 0.5, 2);
  append(over.cases, twice([](auto& a, auto& b) { return divide(a, b); }, -3, -0.5));
  append(over.cases, on_shapes([](Inputs in) { return divide(in[0], -1.5); }, -2, 2, "by a number"));
  append(over.cases, on_shapes([](Inputs in) { return divide(1.5, in[0]); }, -3, -0.5, "number"));
  Entry power = binary(
      "pow", [](auto& a, auto& b) { return pow(a, b); }, 0.3, 2.5);
  append(power.cases, twice([](auto& a, auto& b) { return pow(a, b); }, 0.3, 2));
  for (const double exponent : {-1.0, 0.0, 1.0, 2.0, 2.5, 3.0}) {
    const double low = exponent == 2.5 || exponent < 0 ? 0.3 : -2;
    append(power.cases, on_shapes([exponent](Inputs in) { return pow(in[0], exponent); }, low, 2,
                                  "exponent " + std::to_string(exponent)));
  }
  for (Entry* entry : {&plus, &minus, &times, &over, &power}) table.push_back(std::move(*entry));
}

void add_elementwise(std::vector<Entry>& table) {
  table.push_back(unary(
      "negate", [](auto& x) { return negate(x); }, -2, 2));
  table.push_back(unary(
      "exp", [](auto& x) { return exp(x); }, -2, 2));
  table.push_back(unary(
      "log", [](auto& x) { return log(x); }, 0.2, 3));
  table.push_back(unary(
      "sqrt", [](auto& x) { return sqrt(x); }, 0.2, 3));
  table.push_back(unary(
      "abs", [](auto& x) { return abs(x); }, -2, 2));
  table.push_back(unary(
      "tanh", [](auto& x) { return tanh(x); }, -3, 3));
  table.push_back(unary(
      "sigmoid", [](auto& x) { return sigmoid(x); }, -4, 4));
  table.push_back(unary(
      "relu", [](auto& x) { return relu(x); }, -2, 2));
  Entry gelu_entry = unary(
      "gelu", [](auto& x) { return gelu(x); }, -3, 3);
  append(gelu_entry.cases, on_shapes([](Inputs in) { return gelu(in[0], Gelu::tanh); }, -3, 3, "tanh"));
  table.push_back(std::move(gelu_entry));
  table.push_back(unary(
      "clamp", [](auto& x) { return clamp(x, -0.9, 1.1); }, -2, 2));
  table.push_back(binary("maximum", [](auto& a, auto& b) { return maximum(a, b); }));
  table.push_back(binary("minimum", [](auto& a, auto& b) { return minimum(a, b); }));
  Entry choice{"where", WrongType::mixed};
  for (const auto& [a, b] : kPairs) {
    const auto both = [](Inputs in) { return where(pattern(in[1].shape()), in[0], in[1]); };
    const auto single = [](Inputs in) { return where(pattern({}), in[0], in[1]); };
    choice.cases.push_back({"condition like b", both, {{a}, {b}}});
    choice.cases.push_back({"condition scalar", single, {{a}, {b}}});
  }
  table.push_back(std::move(choice));
  table.push_back({"to", WrongType::none, on_shapes([](Inputs in) { return to(in[0], in[0].dtype()); }, -2, 2)});
  table.push_back({"clone", WrongType::none, on_shapes([](Inputs in) { return clone(in[0]); }, -2, 2)});
}

}  // namespace

Entry reduction(const std::string& name, const Reducer& f, bool over_nothing) {
  Entry entry{name, WrongType::whole};
  for (const Shape& shape : kShapes) {
    if (!over_nothing && shape.numel() == 0) continue;
    entry.cases.push_back({"all", [f](Inputs in) { return f(in[0], Axes{}, false); }, {{shape}}});
    entry.cases.push_back({"all, kept", [f](Inputs in) { return f(in[0], Axes{}, true); }, {{shape}}});
    if (shape.rank() == 0) continue;
    entry.cases.push_back({"first", [f](Inputs in) { return f(in[0], Axes{0}, false); }, {{shape}}});
    entry.cases.push_back({"last, kept", [f](Inputs in) { return f(in[0], Axes{-1}, true); }, {{shape}}});
  }
  for (const Shape& shape : {Shape{2, 3, 5}, Shape{3, 2, 1, 2, 2}}) {
    entry.cases.push_back({"first and third", [f](Inputs in) { return f(in[0], Axes{0, 2}, false); }, {{shape}}});
    entry.cases.push_back({"-1 and 1, kept", [f](Inputs in) { return f(in[0], Axes{-1, 1}, true); }, {{shape}}});
    entry.cases.push_back({"middle", [f](Inputs in) { return f(in[0], Axes{1}, false); }, {{shape}}});
  }
  entry.cases.push_back({"axis of a shape with 0", [f](Inputs in) { return f(in[0], Axes{1}, false); }, {{{0, 3}}}});
  return entry;
}

namespace {

void add_reductions(std::vector<Entry>& table) {
  table.push_back(reduction(
      "sum", [](auto& x, const Axes& axes, bool keep) { return sum(x, axes, keep); }, true));
  table.back().wrong_type = WrongType::none;
  table.push_back(reduction(
      "mean", [](auto& x, const Axes& axes, bool keep) { return mean(x, axes, keep); }, false));
  table.push_back(reduction(
      "max", [](auto& x, const Axes& axes, bool keep) { return max(x, axes, keep); }, false));
  table.push_back(reduction(
      "min", [](auto& x, const Axes& axes, bool keep) { return min(x, axes, keep); }, false));
  for (Entry& entry : table) {
    if (entry.name == "max" || entry.name == "min") entry.wrong_type = WrongType::none;  // i64 has extremes too
  }
  Entry to_shape{"sum_to", WrongType::none};
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{}, {}},         {{1, 1}, {}},        {{5, 3}, {3}},
      {{5, 3}, {5, 1}}, {{2, 5, 3}, {5, 1}}, {{0, 3}, {1, 3}},
      {{3, 0}, {0}},    {{5, 3}, {5, 3}},    {{2, 3, 2, 1, 2, 2}, {3, 1, 1, 2, 1}},
  };
  for (const auto& [from, target] : shapes) {
    to_shape.cases.push_back({"", [target = target](Inputs in) { return sum_to(in[0], target); }, {{from}}});
  }
  table.push_back(std::move(to_shape));
}

void add_products(std::vector<Entry>& table) {
  Entry product{"matmul", WrongType::mixed};
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{1, 1}, {1, 1}},
      {{2, 3}, {3, 5}},
      {{3}, {3, 5}},
      {{2, 3}, {3}},
      {{3}, {3}},
      {{3}, {2, 3, 5}},
      {{2, 2, 3}, {3}},
      {{7, 2, 3}, {3, 5}},
      {{2, 3}, {7, 3, 5}},
      {{2, 1, 2, 3}, {5, 3, 2}},
      {{0, 3}, {3, 2}},
      {{2, 0}, {0, 3}},
      {{2, 3}, {3, 0}},
      {{0, 2, 3}, {3, 2}},
      {{2, 1, 3, 2, 1}, {3, 1, 1, 2}},
      {{1, 2, 1, 1, 2, 3}, {2, 1, 1, 3, 2}},
      {{17, 19}, {19, 13}},
  };
  for (const auto& [a, b] : shapes) {
    product.cases.push_back({"", [](Inputs in) { return matmul(in[0], in[1]); }, {{a}, {b}}});
  }
  const auto flags = [](bool a, bool b) {
    return [=](Inputs in) { return matmul(in[0], in[1], {.transpose_a = a, .transpose_b = b}); };
  };
  product.cases.push_back({"a transposed", flags(true, false), {{{3, 2}}, {{3, 5}}}});
  product.cases.push_back({"b transposed", flags(false, true), {{{2, 3}}, {{5, 3}}}});
  product.cases.push_back({"both transposed", flags(true, true), {{{3, 2}}, {{5, 3}}}});
  product.cases.push_back({"a transposed, batches", flags(true, false), {{{7, 3, 2}}, {{3, 5}}}});
  product.cases.push_back({"b transposed, batches", flags(false, true), {{{2, 1, 2, 3}}, {{3, 5, 3}}}});
  product.cases.push_back({"both transposed, batches", flags(true, true), {{{3, 2}}, {{2, 5, 3}}}});
  product.cases.push_back({"same tensor twice", [](Inputs in) { return matmul(in[0], in[0]); }, {{{2, 3, 3}}}});
  product.cases.push_back({"x x^T", [](Inputs in) { return matmul(in[0], in[0], {.transpose_b = true}); }, {{{5, 3}}}});
  table.push_back(std::move(product));

  Entry affine{"linear", WrongType::mixed};
  for (const Shape& x : {Shape{3}, Shape{1, 3}, Shape{7, 3}, Shape{0, 3}, Shape{2, 5, 3}, Shape{2, 1, 2, 1, 2, 3}}) {
    affine.cases.push_back({"", [](Inputs in) { return linear(in[0], in[1]); }, {{x}, {{5, 3}}}});
    affine.cases.push_back({"bias", [](Inputs in) { return linear(in[0], in[1], in[2]); }, {{x}, {{5, 3}}, {{5}}}});
  }
  table.push_back(std::move(affine));
}

}  // namespace

namespace {

// The names of the functions that a header declares at the start of a line.
std::set<std::string> declared_in(const char* header) {
  std::ifstream file(std::string(TAPEHEAD_SOURCE_DIR "/core/tapehead/") + header);
  if (!file.good()) throw std::runtime_error(fmt::format("cannot read {}", header));
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);) {
    for (const std::string_view type : {"Tensor ", "AttentionResult ", "SortResult "}) {
      if (!line.starts_with(type)) continue;
      const std::string name = line.substr(type.size(), line.find('(') - type.size());
      if (line.find('(') != std::string::npos) names.insert(name);
    }
  }
  return names;
}

}  // namespace

std::set<std::string> differentiable_operations() {
  static const std::set<std::string> no_gradient = {"equal",         "not_equal", "less",   "less_equal", "greater",
                                                    "greater_equal", "argmax",    "argmin", "one_hot"};
  std::set<std::string> names = declared_in("ops.h");
  for (const char* header : {"attention.h", "indexing.h", "losses.h", "rotary.h"}) names.merge(declared_in(header));
  for (const std::string& name : no_gradient) names.erase(name);
  return names;
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> table = [] {
    std::vector<Entry> out;
    add_arithmetic(out);
    add_elementwise(out);
    add_reductions(out);
    add_products(out);
    add_functions(out);
    add_shapes(out);
    add_rearrangements(out);
    add_lookups(out);
    add_indexing(out);
    add_losses(out);
    add_networks(out);
    add_attention(out);
    return out;
  }();
  return table;
}

Tensor sample(const Input& input, int seed, DType dtype) {
  Tensor out = empty(input.shape, DType::f64);
  double place = 0.31 * seed + 0.137;
  for (double& value : out.write<double>()) {
    place += 0.6180339887498949;  // the golden ratio's steps spread evenly and never repeat
    const double even = place - std::floor(place);
    value = input.low + (input.high - input.low) * even * (3 + even) / 4;  // bent, lest two differences be equal
  }
  return to(out, dtype).detach();
}

}  // namespace op_table
