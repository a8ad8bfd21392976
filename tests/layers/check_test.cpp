// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <tapehead/tapehead.h>

#include <string>
#include <vector>

#include "layers/same.h"

using namespace tapehead;

namespace {

Tensor drawn(const Shape& shape) { return NumpyRandom(11).randn(shape); }

template <class M>
M f64(M module) {
  module.to(DType::f64);
  return module;
}

std::vector<std::string> row_names(const GradcheckResult& result) {
  std::vector<std::string> out;
  for (const GradcheckRow& row : result.rows) out.push_back(row.name);
  return out;
}

bool has_row(const GradcheckResult& result, const std::string& name) {
  for (const GradcheckRow& row : result.rows) {
    if (row.name == name) return row.checked > 0;
  }
  return false;
}

// Scales by a learned number; its rule for the number is wrong on purpose.
struct Wrong : Module {
  Parameter scale{ones({1})};
  Tensor operator()(const Tensor& x) const {
    const Tensor y = x.detach() * scale.detach();
    return record("wrong_scale", y, {&x, &scale}, {&x, &scale}, [](Backward& back) {
      back.to(0, back.gradient() * back.saved(1));
      back.to(1, sum_to(back.gradient() * back.saved(0) * 1.01, {1}));
    });
  }
  void members(Members& m) override { m("scale", scale); }
};

}  // namespace

TEST_CASE("gradcheck of modules: every layer") {
  const Linear linear_layer = f64(Linear(3, 2));
  CHECK_MESSAGE(gradcheck(linear_layer, {drawn({2, 4, 3})}), "Linear");
  CHECK_MESSAGE(gradcheck(f64(Linear(3, 2, {.bias = false})), {drawn({4, 3})}), "Linear without bias");
  CHECK_MESSAGE(gradcheck(Softmax(1), {drawn({2, 4, 3})}), "Softmax");
  CHECK_MESSAGE(gradcheck(f64(Embedding(5, 3)), {to(tensor({4, 0, 4}), DType::i64)}), "Embedding");
  CHECK_MESSAGE(gradcheck(f64(RMSNorm(4)), {drawn({3, 4})}), "RMSNorm");
  CHECK_MESSAGE(gradcheck(f64(LayerNorm(4)), {drawn({3, 4})}), "LayerNorm");
  CHECK_MESSAGE(gradcheck(f64(LayerNorm(4, {.bias = false})), {drawn({3, 4})}), "LayerNorm without bias");
  CHECK_MESSAGE(gradcheck(Dropout(0.5), {drawn({3, 4})}), "Dropout");
  CHECK_MESSAGE(gradcheck(f64(Sequential(Linear(3, 4), tapehead::tanh, Dropout(0.3), Linear(4, 2))), {drawn({2, 3})}),
                "Sequential");
}

TEST_CASE("gradcheck of modules: attention, output and weights") {
  SelfAttention plain = f64(SelfAttention(4, 3));
  const GradcheckResult result = gradcheck(plain, {drawn({2, 5, 4})});
  CHECK(result);
  CHECK(row_names(result).size() == 4);
  for (const char* name : {"W_q", "W_k", "W_v"}) CHECK(has_row(result, name));
  plain.need_weights = false;
  CHECK(gradcheck(plain, {drawn({2, 5, 4})}));

  SelfAttention heads = f64(SelfAttention(4, 3, {.heads = 2}));
  const GradcheckResult with_heads = gradcheck(heads, {drawn({3, 4})});
  CHECK(with_heads);
  CHECK(has_row(with_heads, "W_o"));
  heads.need_weights = false;
  CHECK(gradcheck(heads, {drawn({3, 4})}));
}

TEST_CASE("gradcheck of modules: several inputs, masks inside a model") {
  struct Causal : Module {
    SelfAttention attention{4, 3};
    Linear mix{3, 4};
    Tensor operator()(const Tensor& x, const Tensor& y) const { return mix(attention(x, Mask::causal()).output) * y; }
    void members(Members& m) override { m("attention", attention), m("mix", mix); }
  };
  const GradcheckResult result = gradcheck(f64(Causal()), {drawn({4, 4}), drawn({4})});
  CHECK(result);
  CHECK(result.rows.size() == 7);
  CHECK(has_row(result, "attention.W_k"));
  CHECK(has_row(result, "mix.bias"));
}

TEST_CASE("gradcheck of modules: a wrong rule is found at its parameter") {
  const GradcheckResult result = gradcheck(f64(Wrong()), {drawn({3})});
  CHECK_FALSE(result);
  for (const GradcheckRow& row : result.rows) CHECK(row.passed == (row.name != "scale"));
  CHECK(result.table().find("scale") != std::string::npos);
}

TEST_CASE("gradcheck of modules: f32 and a wrong number of inputs are refused") {
  const Linear single(3, 2);
  std::string message;
  try {
    (void)gradcheck(single, {drawn({4, 3})});
  } catch (const DTypeError& error) {
    message = error.what();
  }
  CHECK(message.find("to(DType::f64)") != std::string::npos);
  CHECK(message.find("weight") != std::string::npos);
  CHECK_THROWS_AS((void)gradcheck(f64(Linear(3, 2)), {ones({4, 3})}), DTypeError);
  CHECK_THROWS_AS((void)gradcheck(f64(Linear(3, 2)), {drawn({4, 3}), drawn({3})}), ValueError);
  CHECK_THROWS_AS((void)gradcheck(f64(Linear(3, 2)), {}), ValueError);
}

TEST_CASE("gradcheck of modules: values and gradients stay as they were") {
  const Linear layer = f64(Linear(3, 2));
  const Linear before = layer;
  CHECK(gradcheck(layer, {drawn({4, 3})}));
  CHECK(same_values(layer.weight, before.weight));
  CHECK_FALSE(layer.weight.grad().defined());
}

TEST_CASE("orphans: what is trained but not listed") {
  struct Model : Module {
    Linear first{2, 3}, second{3, 1};
    Tensor operator()(const Tensor& x) const { return second(first(x)); }
    void members(Members& m) override { m("first", first); }
  };
  const Model model;
  const std::vector<Tensor> found = orphans(model(ones({1, 2})), model);
  REQUIRE(found.size() == 2);
  CHECK(same_leaf(found[0], model.second.weight));
  CHECK(same_leaf(found[1], model.second.bias));
  CHECK(orphans(model.first(ones({1, 2})), model).empty());
  CHECK(orphans(ones({1}), model).empty());
}

TEST_CASE("orphans: a copy of a parameter where a handle was meant") {
  struct Tied : Module {
    Embedding embed{5, 3};
    bool copies = false;
    Tensor operator()(const Tensor& ids) const {
      if (!copies) return linear(embed(ids), embed.weight);
      const auto weight = embed.weight;
      return linear(embed(ids), weight);
    }
    void members(Members& m) override { m("embed", embed); }
  };
  Tied model;
  CHECK(orphans(model(arange(4)), model).empty());
  model.copies = true;
  CHECK(orphans(model(arange(4)), model).size() == 1);

  model.copies = false;
  CHECK(model.parameters().size() == 1);
  const GradcheckResult result = gradcheck(f64(model), {arange(4)});
  CHECK(result);
  CHECK(row_names(result) == std::vector<std::string>{"embed.weight"});
}
