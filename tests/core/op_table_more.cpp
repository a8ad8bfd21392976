// SPDX-License-Identifier: MIT
// The table's second page: shapes, lookups, networks and attention.
#include <limits>

#include <tapehead/attention.h>
#include <tapehead/ops.h>

#include "core/op_table.h"

namespace op_table {

using namespace tapehead;

namespace {

Case one(const std::string& what, const Shape& shape, const TensorFunction& f) { return {what, f, {{shape}}}; }

void add_reorderings(std::vector<Entry>& table) {
  table.push_back({"reshape",
                   WrongType::none,
                   {
                       one("", {2, 3},
                           [](Inputs in) {
                             return reshape(in[0], {3, 2});
                           }),
                       one("-1", {2, 3, 5},
                           [](Inputs in) {
                             return reshape(in[0], {5, -1});
                           }),
                       one("to a scalar", {1, 1}, [](Inputs in) { return reshape(in[0], Shape{}); }),
                       one("from a scalar", {},
                           [](Inputs in) {
                             return reshape(in[0], {1, 1});
                           }),
                       one("size 0", {0, 3},
                           [](Inputs in) {
                             return reshape(in[0], {3, 0});
                           }),
                       one("rank 6", {7, 8},
                           [](Inputs in) {
                             return reshape(in[0], {1, 7, 2, 1, 2, 2});
                           }),
                   }});
  table.push_back({"permute",
                   WrongType::none,
                   {
                       one("scalar", {}, [](Inputs in) { return permute(in[0], {}); }),
                       one("", {2, 3, 5},
                           [](Inputs in) {
                             return permute(in[0], {2, 0, 1});
                           }),
                       one("negative", {2, 3, 5},
                           [](Inputs in) {
                             return permute(in[0], {-1, -3, -2});
                           }),
                       one("sizes 1", {1, 1},
                           [](Inputs in) {
                             return permute(in[0], {1, 0});
                           }),
                       one("size 0", {2, 0, 3},
                           [](Inputs in) {
                             return permute(in[0], {1, 2, 0});
                           }),
                       one("rank 6", {1, 2, 1, 3, 2, 2},
                           [](Inputs in) {
                             return permute(in[0], {5, 3, 0, 1, 4, 2});
                           }),
                   }});
  table.push_back({"transpose",
                   WrongType::none,
                   {
                       one("", {5, 3}, [](Inputs in) { return transpose(in[0], 0, 1); }),
                       one("negative", {2, 3, 5}, [](Inputs in) { return transpose(in[0], -1, -2); }),
                       one("itself", {2, 3}, [](Inputs in) { return transpose(in[0], 1, 1); }),
                       one("size 0", {0, 3}, [](Inputs in) { return transpose(in[0], 0, 1); }),
                   }});
  table.push_back({"unsqueeze",
                   WrongType::none,
                   {
                       one("scalar", {}, [](Inputs in) { return unsqueeze(in[0], 0); }),
                       one("front", {2, 3}, [](Inputs in) { return unsqueeze(in[0], 0); }),
                       one("back", {2, 3}, [](Inputs in) { return unsqueeze(in[0], -1); }),
                   }});
  table.push_back({"squeeze",
                   WrongType::none,
                   {
                       one("to a scalar", {1}, [](Inputs in) { return squeeze(in[0], 0); }),
                       one("middle", {2, 1, 3}, [](Inputs in) { return squeeze(in[0], 1); }),
                       one("back", {0, 1}, [](Inputs in) { return squeeze(in[0], -1); }),
                   }});
}

void add_parts(std::vector<Entry>& table) {
  table.push_back({"slice",
                   WrongType::none,
                   {
                       one("start", {5, 3}, [](Inputs in) { return slice(in[0], 0, {.start = 2}); }),
                       one("stop from the end", {5, 3}, [](Inputs in) { return slice(in[0], 1, {.stop = -1}); }),
                       one("step 2", {7, 2}, [](Inputs in) { return slice(in[0], 0, {.start = 1, .step = 2}); }),
                       one("backwards", {7}, [](Inputs in) { return slice(in[0], 0, {.step = -2}); }),
                       one("nothing", {5, 3}, [](Inputs in) { return slice(in[0], 0, {.start = 4, .stop = 2}); }),
                       one("size 0", {0, 3}, [](Inputs in) { return slice(in[0], 0, {.start = 1}); }),
                       one("two axes", {5, 3, 2},
                           [](Inputs in) {
                             return slice(in[0], {{.start = 1, .stop = 4}, {.start = -2}});
                           }),
                       one("rank 6", {1, 2, 3, 1, 2, 2}, [](Inputs in) { return slice(in[0], 2, {.start = 1}); }),
                   }});
  table.push_back({"select",
                   WrongType::none,
                   {
                       one("to a scalar", {7}, [](Inputs in) { return select(in[0], 0, 3); }),
                       one("from the end", {5, 3}, [](Inputs in) { return select(in[0], -1, -1); }),
                       one("middle", {2, 3, 5}, [](Inputs in) { return select(in[0], 1, 2); }),
                       one("size 0", {3, 0}, [](Inputs in) { return select(in[0], 0, 1); }),
                   }});
  const auto join = [](int axis) { return [axis](Inputs in) { return concat(in, axis); }; };
  table.push_back({"concat",
                   WrongType::mixed,
                   {
                       {"", join(0), {{{2, 3}}, {{5, 3}}}},
                       {"last axis", join(-1), {{{2, 3}}, {{2, 1}}, {{2, 2}}}},
                       {"size 0", join(0), {{{0, 3}}, {{2, 3}}}},
                       {"one", join(1), {{{2, 3}}}},
                       {"twice",
                        [](Inputs in) {
                          return concat({in[0], in[0]}, 1);
                        },
                        {{{2, 3}}}},
                       {"rank 5", join(2), {{{1, 2, 1, 2, 1}}, {{1, 2, 3, 2, 1}}}},
                   }});
  const auto pile = [](int axis) { return [axis](Inputs in) { return stack(in, axis); }; };
  table.push_back({"stack",
                   WrongType::mixed,
                   {
                       {"scalars", pile(0), {{{}}, {{}}, {{}}}},
                       {"", pile(0), {{{2, 3}}, {{2, 3}}}},
                       {"last axis", pile(-1), {{{2, 3}}, {{2, 3}}}},
                       {"size 0", pile(1), {{{2, 0}}, {{2, 0}}}},
                       {"twice",
                        [](Inputs in) {
                          return stack({in[0], in[0]}, 1);
                        },
                        {{{2, 3}}}},
                   }});
  table.push_back({"broadcast_to",
                   WrongType::none,
                   {
                       one("scalar", {},
                           [](Inputs in) {
                             return broadcast_to(in[0], {2, 3});
                           }),
                       one("left", {3},
                           [](Inputs in) {
                             return broadcast_to(in[0], {5, 3});
                           }),
                       one("right", {5, 1},
                           [](Inputs in) {
                             return broadcast_to(in[0], {5, 3});
                           }),
                       one("both", {3, 1},
                           [](Inputs in) {
                             return broadcast_to(in[0], {2, 3, 5});
                           }),
                       one("to size 0", {1, 3},
                           [](Inputs in) {
                             return broadcast_to(in[0], {0, 3});
                           }),
                       one("same", {2, 3},
                           [](Inputs in) {
                             return broadcast_to(in[0], {2, 3});
                           }),
                       one("rank 6", {2, 1, 2},
                           [](Inputs in) {
                             return broadcast_to(in[0], {1, 2, 1, 2, 3, 2});
                           }),
                   }});
  for (const bool lower : {true, false}) {
    const auto part = [lower](Index diagonal) {
      return [=](Inputs in) { return lower ? tril(in[0], diagonal) : triu(in[0], diagonal); };
    };
    table.push_back({lower ? "tril" : "triu",
                     WrongType::none,
                     {
                         one("", {5, 3}, part(0)),
                         one("above", {3, 5}, part(1)),
                         one("below", {3, 3}, part(-1)),
                         one("batches", {2, 3, 2, 2}, part(0)),
                         one("size 0", {0, 3}, part(0)),
                         one("sizes 1", {1, 1}, part(0)),
                         one("beyond", {2, 3}, part(7)),
                         one("far below", {2, 3}, part(-7)),
                     }});
  }
}

}  // namespace

void add_shapes(std::vector<Entry>& table) {
  add_reorderings(table);
  add_parts(table);
}

void add_lookups(std::vector<Entry>& table) {
  table.push_back({"embedding",
                   WrongType::none,
                   {
                       one("", {5, 3},
                           [](Inputs in) {
                             return embedding(in[0], whole({4, 0, 2}, {3}));
                           }),
                       one("repeated", {5, 3},
                           [](Inputs in) {
                             return embedding(in[0], whole({1, 1, 2, 1, 0, 2}, {2, 3}));
                           }),
                       one("one id", {5, 3}, [](Inputs in) { return embedding(in[0], whole({2}, {})); }),
                       one("no ids", {5, 3},
                           [](Inputs in) {
                             return embedding(in[0], whole({}, {2, 0}));
                           }),
                       one("width 0", {5, 0},
                           [](Inputs in) {
                             return embedding(in[0], whole({1, 2}, {2}));
                           }),
                   }});
  table.push_back({"gather",
                   WrongType::none,
                   {
                       one("", {5, 3},
                           [](Inputs in) {
                             return gather(in[0], 0, whole({4, 0, 2, 2, 2, 0}, {2, 3}));
                           }),
                       one("last axis", {2, 3},
                           [](Inputs in) {
                             return gather(in[0], -1, whole({2, 2, 0, 1, 1, 1, 0, 2}, {2, 4}));
                           }),
                       one("shorter", {5, 3},
                           [](Inputs in) {
                             return gather(in[0], 0, whole({3, 3}, {1, 2}));
                           }),
                       one("nothing", {5, 3},
                           [](Inputs in) {
                             return gather(in[0], 1, whole({}, {5, 0}));
                           }),
                       one("middle", {2, 3, 2},
                           [](Inputs in) {
                             return gather(in[0], 1, whole({2, 0, 1, 1}, {2, 1, 2}));
                           }),
                   }});
}

void add_networks(std::vector<Entry>& table) {
  for (const bool log : {false, true}) {
    const auto along = [log](int axis) {
      return [=](Inputs in) { return log ? log_softmax(in[0], axis) : softmax(in[0], axis); };
    };
    table.push_back({log ? "log_softmax" : "softmax",
                     WrongType::whole,
                     {
                         one("", {5, 3}, along(-1)),
                         one("first axis", {5, 3}, along(0)),
                         one("middle", {2, 3, 5}, along(1)),
                         one("vector", {7}, along(0)),
                         one("sizes 1", {1, 1}, along(-1)),
                         one("no rows", {0, 3}, along(-1)),
                         one("size 0 beside", {3, 0}, along(0)),
                         one("nothing along", {3, 0}, along(1)),
                         one("rank 6", {1, 2, 1, 3, 2, 2}, along(3)),
                         one("wide", {2, 37}, along(-1)),
                     }});
  }
  Entry norm{"layer_norm", WrongType::mixed};
  for (const Shape& x : {Shape{7}, Shape{2, 7}, Shape{0, 7}, Shape{2, 3, 7}, Shape{1, 2, 1, 1, 2, 7}}) {
    norm.cases.push_back({"bare", [](Inputs in) { return layer_norm(in[0]); }, {{x}}});
    norm.cases.push_back({"weight", [](Inputs in) { return layer_norm(in[0], in[1]); }, {{x}, {{7}}}});
    norm.cases.push_back({"bias", [](Inputs in) { return layer_norm(in[0], {}, in[1]); }, {{x}, {{7}}}});
    norm.cases.push_back(
        {"both", [](Inputs in) { return layer_norm(in[0], in[1], in[2], 1e-3); }, {{x}, {{7}}, {{7}}}});
  }
  table.push_back(std::move(norm));
  Entry root{"rms_norm", WrongType::mixed};
  for (const Shape& x : {Shape{7}, Shape{2, 7}, Shape{0, 7}, Shape{2, 3, 7}, Shape{1, 2, 1, 1, 2, 7}}) {
    root.cases.push_back({"bare", [](Inputs in) { return rms_norm(in[0], {}, 1e-6); }, {{x}}});
    root.cases.push_back({"weight", [](Inputs in) { return rms_norm(in[0], in[1], 1e-3); }, {{x}, {{7}}}});
  }
  table.push_back(std::move(root));
  table.push_back({"dropout", WrongType::whole,
                   on_shapes(
                       [](Inputs in) {
                         Generator generator(3);
                         return dropout(in[0], 0.4, generator);
                       },
                       -2, 2)});
  append(table.back().cases, on_shapes([](Inputs in) { return dropout(in[0], 0); }, -2, 2, "p = 0"));
}

void add_attention(std::vector<Entry>& table) {
  Entry attention{"scaled_dot_product_attention", WrongType::mixed};
  struct Shapes {
    Shape query, key, value;
  };
  const auto put = [&](const std::string& what, const Shapes& shapes,
                       const std::function<AttentionOptions(DType)>& options) {
    const auto output = [options](Inputs in) {
      AttentionOptions chosen = options(in[0].dtype());
      chosen.need_weights = false;
      return scaled_dot_product_attention(in[0], in[1], in[2], chosen).output;
    };
    // The key's gradient has to come from both results at once.
    const auto both = [options](Inputs in) {
      const AttentionResult result = scaled_dot_product_attention(in[0], in[1], in[2], options(in[0].dtype()));
      return concat({reshape(result.output, {-1}), reshape(result.weights, {-1})});
    };
    const std::vector<Input> inputs = {{shapes.query}, {shapes.key}, {shapes.value}};
    attention.cases.push_back({what, output, inputs});
    if (shapes.query.numel() * shapes.value.numel() > 0) attention.cases.push_back({what + ", weights", both, inputs});
  };
  const auto masked = [](const Mask& mask) { return [mask](DType) -> AttentionOptions { return {.mask = mask}; }; };
  const auto plain = [](DType) -> AttentionOptions { return {}; };
  const Shapes square = {{4, 3}, {4, 3}, {4, 5}};
  const Shapes batched = {{2, 3, 2}, {2, 5, 2}, {2, 5, 3}};
  put("", square, plain);
  put("one", {{1, 1}, {1, 1}, {1, 1}}, plain);
  put("cross", {{2, 3}, {5, 3}, {5, 2}}, plain);
  put("batches", batched, plain);
  put("leading axes broadcast", {{2, 1, 3, 2}, {3, 5, 2}, {1, 5, 3}}, plain);
  put("rank 5", {{1, 2, 1, 2, 2}, {2, 1, 1, 3, 2}, {1, 1, 2, 3, 2}}, plain);
  put("no queries", {{0, 3}, {5, 3}, {5, 2}}, plain);
  put("no keys", {{2, 3}, {0, 3}, {0, 2}}, plain);
  put("no batches", {{0, 2, 3}, {0, 5, 3}, {0, 5, 2}}, plain);
  put("scale", square, [](DType) -> AttentionOptions { return {.scale = 0.3}; });
  put("heads", {{2, 3, 4}, {2, 5, 4}, {2, 5, 6}}, [](DType) -> AttentionOptions { return {.heads = 2}; });
  put("heads, causal", {{3, 4}, {3, 4}, {3, 4}},
      [](DType) -> AttentionOptions { return {.mask = Mask::causal(), .heads = 4}; });
  put("causal", square, masked(Mask::causal()));
  put("causal, last aligned", batched, masked(Mask::causal(2)));
  put("causal, first query blocked", {{3, 2}, {3, 2}, {3, 2}}, masked(Mask::causal(-1)));
  put("keep", batched, masked(Mask::keep(pattern({2, 3, 5}))));
  put("block", batched, masked(Mask::block(pattern({3, 5}))));
  put("lengths, one of them 0", batched, masked(Mask::lengths(whole({4, 0}, {2}))));
  put("window", {{5, 2}, {5, 2}, {5, 2}}, masked(Mask::window(1, 1)));
  put("window and keep", {{5, 2}, {5, 2}, {5, 2}}, masked(Mask::window(2, 0) & Mask::keep(pattern({5}))));
  put("added", square, [](DType dtype) -> AttentionOptions {
    const double never = -std::numeric_limits<double>::infinity();
    return {.mask = Mask::add(tensor({{0.5, never, -1, 0}}, dtype))};
  });
  attention.cases.push_back({"same tensor three times",
                             [](Inputs in) { return scaled_dot_product_attention(in[0], in[0], in[0]).output; },
                             {{{2, 4, 3}}}});
  attention.cases.push_back(
      {"several tiles",
       [](Inputs in) { return scaled_dot_product_attention(in[0], in[1], in[2], {.mask = Mask::causal()}).output; },
       {{{131, 1}}, {{131, 1}}, {{131, 1}}}});
  const auto joined = [&](const std::string& what, const Shape& shape, const AttentionOptions& options) {
    attention.cases.push_back({"joined, " + what,
                               [options](Inputs in) {
                                 Generator same_every_time(3);
                                 AttentionOptions seeded = options;
                                 seeded.generator = &same_every_time;
                                 const AttentionResult result = scaled_dot_product_attention(in[0], seeded);
                                 if (!options.need_weights) return result.output;
                                 return sum(result.output) + sum(result.weights * result.weights);
                               },
                               {{shape}}});
  };
  joined("two heads", {2, 3, 12}, {.heads = 2, .need_weights = false});
  joined("weights too", {3, 12}, {.mask = Mask::causal(), .heads = 2});
  joined("shared keys, dropout", {3, 8}, {.heads = 2, .kv_heads = 1, .dropout = 0.3, .need_weights = false});
  joined("softcap, blocked rows", {3, 6}, {.mask = Mask::causal(-1), .heads = 1, .softcap = 2});
  table.push_back(std::move(attention));
  Entry scores{"attention_scores", WrongType::mixed};
  scores.cases.push_back(
      {"batched", [](Inputs in) { return attention_scores(in[0], in[1]); }, {{{2, 3, 5}}, {{4, 5}}}});
  scores.cases.push_back({"heads that share keys",
                          [](Inputs in) { return attention_scores(in[0], in[1], {.heads = 4, .kv_heads = 2}); },
                          {{{3, 8}}, {{5, 4}}}});
  scores.cases.push_back({"no keys", [](Inputs in) { return attention_scores(in[0], in[1]); }, {{{3, 2}}, {{0, 2}}}});
  table.push_back(std::move(scores));
}

}  // namespace op_table
