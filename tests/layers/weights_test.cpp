// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tapehead/tapehead.h>

#include "scratch.h"

using namespace tapehead;

namespace {

struct Tied : Module {  // logits through the embedding's own weights
  Embedding embedding{5, 4};
  Linear hidden{4, 4};
  Tensor operator()(const Tensor& x) const { return linear(hidden(embedding(x)), embedding.weight); }
  void members(Members& m) override { m("embedding", embedding), m("hidden", hidden); }
};

struct Other : Module {
  Embedding embedding{6, 4};
  Linear hidden{4, 4, {.bias = false}};
  Linear head{4, 5};
  void members(Members& m) override { m("embedding", embedding), m("hidden", hidden), m("head", head); }
};

std::vector<float> values(const Module& model) {
  std::vector<float> out;
  for (const NamedTensor& parameter : model.parameters()) {
    out.insert(out.end(), parameter.tensor.read<float>().begin(), parameter.tensor.read<float>().end());
  }
  return out;
}

}  // namespace

TEST_CASE("a model's weights come back from a file by name") {
  const Scratch scratch;
  const std::string path = scratch.path("model.safetensors");
  manual_seed(1);
  const Tied saved;
  saved.save_weights(path, {{"step", "7"}});
  Tied loaded;
  CHECK(values(loaded) != values(saved));
  const Tensor same_leaf = loaded.embedding.weight;
  CHECK(loaded.load_weights(path).at("step") == "7");
  CHECK(values(loaded) == values(saved));
  CHECK(same_leaf.at({0, 0}) == saved.embedding.weight.at({0, 0}));
  const Tensor x = arange(5);
  CHECK(to_string(loaded(x)) == to_string(saved(x)));
  CHECK(scratch.names() == std::vector<std::string>{"model.safetensors"});
}

TEST_CASE("a parameter that two layers share is saved once") {
  const Scratch scratch;
  Tied().save_weights(scratch.path("x"));
  const std::vector<NamedTensor> tensors = load_safetensors(scratch.path("x")).tensors;
  std::string names;
  for (const NamedTensor& entry : tensors) names += entry.name + ' ';
  CHECK(names == "embedding.weight hidden.bias hidden.weight ");
}

TEST_CASE("load_weights lists everything that does not fit and changes nothing") {
  const Scratch scratch;
  const std::string path = scratch.path("x");
  Tied().save_weights(path);
  Other other;
  const std::vector<float> before = values(other);
  std::string text = "nothing was thrown";
  try {
    other.load_weights(path);
  } catch (const StateError& error) {
    text = error.what();
  }
  CHECK(text == "load_weights: " + path +
                    ": load_state: the state belongs to something else; nothing was loaded; names, shapes and "
                    "types must agree"
                    "\n  other shape  embedding.weight: here it is [6, 4], in the state [5, 4]"
                    "\n  missing      head.weight [5, 4]"
                    "\n  missing      head.bias [5]"
                    "\n  unexpected   hidden.bias [4]");
  CHECK(values(other) == before);
  other.to(DType::f64);
  CHECK_THROWS_WITH_AS(other.load_weights(path),
                       doctest::Contains("other type   hidden.weight: here it is f64, in the state f32"), StateError);
  scratch.file("damaged", scratch.bytes("x").substr(0, 200));
  CHECK_THROWS_AS(Tied().load_weights(scratch.path("damaged")), FormatError);
  CHECK_THROWS_AS(Tied().load_weights(scratch.path("missing")), IoError);
  CHECK_THROWS_AS(Tied().save_weights(scratch.path("no/folder")), IoError);
}
