// SPDX-License-Identifier: MIT
// Bad calls: each throws its type, says which operation and which numbers, and changes nothing: a valid step afterwards
// gives the bits that it would have given without.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <typeinfo>
#include <vector>

#include <doctest/doctest.h>

#include <tapehead/attention.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/optim.h>
#include <tapehead/runtime.h>

namespace bad_calls {

using namespace tapehead;

inline const double kInfinity = std::numeric_limits<double>::infinity();

inline Tensor waves(const Shape& shape, double phase) {
  Tensor out = empty(shape);
  for (float& value : out.write<float>()) value = static_cast<float>(0.3 * std::sin(phase += 1.7));
  return out;
}

inline Tensor whole(std::initializer_list<Index> values, const Shape& shape) {
  return from_data(std::span<const Index>(values.begin(), values.size()), shape);
}

// A small network in the middle of training.
struct Model {
  Tensor w1 = waves({6, 4}, 0).requires_grad_();
  Tensor b1 = zeros({6}).requires_grad_();
  Tensor w2 = waves({3, 6}, 1).requires_grad_();
  Tensor x = waves({5, 4}, 2);
  Tensor targets = whole({0, 2, 1, 1, 0}, {5});
  Adam adam{{{"w1", w1}, {"b1", b1}, {"w2", w2}}, {.lr = 0.05}};

  Model() {
    manual_seed(11);
    step();
  }
  Tensor loss() const { return cross_entropy(linear(dropout(tanh(linear(x, w1, b1)), 0.2), w2), targets); }
  void step() {
    loss().backward();
    clip_grad_norm(adam.parameters(), 0.5);
    adam.step();
  }
  std::vector<float> bits() const {
    std::vector<float> out;
    for (const Tensor& parameter : {w1, b1, w2}) {
      out.insert(out.end(), parameter.read<float>().begin(), parameter.read<float>().end());
    }
    return out;
  }
};

enum class Kind { shape, dtype, index, graph, value, state };

struct BadCall {
  int number;  // the class of bad call; see the list in the README of this folder
  Kind kind;
  std::vector<std::string> parts;  // that the text must hold
  std::function<void(Model&)> call;
};

inline bool is_kind(Kind kind, const Error& error) {
  switch (kind) {
    case Kind::shape: return typeid(error) == typeid(ShapeError);
    case Kind::dtype: return typeid(error) == typeid(DTypeError);
    case Kind::index: return typeid(error) == typeid(IndexError);
    case Kind::graph: return typeid(error) == typeid(GraphError);
    case Kind::value: return typeid(error) == typeid(ValueError);
    default: return typeid(error) == typeid(StateError);
  }
}

inline void check_all(const std::vector<BadCall>& calls) {
  std::vector<float> expected;
  {
    Model model;
    model.step();
    expected = model.bits();
  }
  for (const BadCall& bad : calls) {
    CAPTURE(bad.number);
    INFO(bad.parts[0]);
    Model model;
    const std::int64_t nodes = live_nodes();
    bool thrown = false;
    try {
      bad.call(model);
    } catch (const Error& error) {
      thrown = true;
      const std::string text = error.what();
      INFO(text);
      CHECK(is_kind(bad.kind, error));
      CHECK(text.rfind(bad.parts[0], 0) == 0);  // the operation comes first
      for (const std::string& part : bad.parts)
        CHECK_MESSAGE(text.find(part) != std::string::npos, part, " is missing");
    }
    CHECK(thrown);
    CHECK(live_nodes() == nodes);
    for (const NamedTensor& parameter : model.adam.parameters()) CHECK_FALSE(parameter.tensor.grad().defined());
    model.step();
    CHECK(model.bits() == expected);
  }
}

inline Tensor f64(const Shape& shape) { return ones(shape, DType::f64); }

inline void attend(const Shape& q, const Shape& k, const Shape& v, const AttentionOptions& options = {}) {
  scaled_dot_product_attention(ones(q), ones(k), ones(v), options);
}

}  // namespace bad_calls
