// SPDX-License-Identifier: MIT
// Bad calls: each throws its type, says which operation and which numbers, and changes nothing: a valid step afterwards
// gives the bits that it would have given without. Three or more of each class:
//
//  1 shapes that do not broadcast         17 head size 0                         33 backward inside backward
//  2 matmul, inner sizes differ           18 longer than the position table      34 gradient read before backward
//  3 matmul of a scalar                   19 index out of range                  35 step without gradients
//  4 matmul, batch axes differ            20 target out of range                 36 parameter's shape changed
//  5 linear, wrong last axis              21 all targets ignored                 37 impossible learning rate, epsilon
//  6 f32 with f64                         22 max or mean over nothing            38 dropout outside [0, 1)
//  7 floating indices                     23 softmax over a scalar               39 more memory than there is
//  8 reshape to another count             24 backward from no scalar             40 axis too long for BLAS
//  9 axis out of range or named twice     25 cotangent of another shape, type    41 loading another model's names
// 10 slice step 0, concat of nothing      26 backward twice                      42 another configuration or version
// 11 width not divisible by heads         27 backward, nothing asks for it       43 file missing, a folder, unreadable
// 12 other numbers of keys and values     28 saved value changed                 44 damaged safetensors
// 13 queries and keys of other size       29 recorded leaf changed               45 npy of unknown type
// 14 mask does not broadcast              30 write through a view                46 npy cut short or too long
// 15 mask of the wrong type               31 tape played in two threads          47 no space, no permission
// 16 additive mask with NaN or +inf       32 no second derivative there          48 moved-from or empty tensor
//
// 18 belongs to a layer, 41 and 42 to modules, 43 to 47 to files: their tests stand with those.
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
  int number;  // of its class, above
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
