// SPDX-License-Identifier: MIT
// The table's page on indexing and rotary embedding.
#include <tapehead/indexing.h>
#include <tapehead/ops.h>
#include <tapehead/rotary.h>

#include "core/op_table.h"

namespace op_table {

using namespace tapehead;

namespace {

void add_selections(std::vector<Entry>& table) {
  const auto choose = [](int axis, const Tensor& ids) {
    return [=](Inputs in) { return index_select(in[0], axis, ids); };
  };
  table.push_back({"index_select",
                   WrongType::none,
                   {
                       {"", choose(0, whole({4, 0, 4}, {3})), {{{5, 3}}}},
                       {"middle", choose(1, whole({2, 2, 0, 1}, {4})), {{{2, 3, 5}}}},
                       {"last", choose(-1, whole({1}, {1})), {{{2, 3}}}},
                       {"nothing", choose(0, whole({}, {0})), {{{5, 3}}}},
                       {"size 0", choose(0, whole({1, 1}, {2})), {{{2, 0}}}},
                       {"rank 6", choose(3, whole({2, 0}, {2})), {{{1, 2, 1, 3, 1, 2}}}},
                   }});
  const auto at = [](std::vector<Tensor> ids) { return [=](Inputs in) { return index(in[0], ids); }; };
  table.push_back({"index",
                   WrongType::none,
                   {
                       {"rows", at({whole({4, 0, 4}, {3})}), {{{5, 3}}}},
                       {"one element", at({whole({4}, {}), whole({1}, {})}), {{{5, 3}}}},
                       {"pairs", at({whole({4, 0, 4}, {3}), whole({1, 2, 1}, {3})}), {{{5, 3, 2}}}},
                       {"broadcast", at({whole({4, 0}, {2, 1}), whole({1, 2, 1}, {3})}), {{{5, 3}}}},
                       {"nothing", at({whole({}, {0})}), {{{5, 3}}}},
                   }});
  table.push_back({"masked_fill", WrongType::none,
                   on_shapes([](Inputs in) { return masked_fill(in[0], pattern(in[0].shape()), 1.5); }, -2, 2)});
  append(table.back().cases,
         {{"broadcast", [](Inputs in) { return masked_fill(in[0], pattern({3}), -1); }, {{{5, 3}}}}});
  table.push_back({"masked_select", WrongType::none,
                   on_shapes([](Inputs in) { return masked_select(in[0], pattern(in[0].shape())); }, -2, 2)});
  append(table.back().cases, {{"broadcast", [](Inputs in) { return masked_select(in[0], pattern({3})); }, {{{5, 3}}}}});
}

void add_scatters(std::vector<Entry>& table) {
  struct Place {
    std::string what;
    Shape shape;
    int axis;
    Tensor index;
  };
  const std::vector<Place> places = {
      {"", {5, 3}, 0, whole({4, 0, 2, 1, 2, 0}, {2, 3})},
      {"repeated", {5, 3}, 0, whole({2, 2, 0, 2, 1, 0, 2, 2, 3}, {3, 3})},
      {"last axis", {2, 3}, -1, whole({2, 2, 0, 1, 1, 1, 0, 2}, {2, 4})},
      {"shorter", {5, 3}, 0, whole({3, 3}, {1, 2})},
      {"nothing", {5, 3}, 1, whole({}, {5, 0})},
      {"middle", {2, 3, 2}, 1, whole({2, 0, 1, 1}, {2, 1, 2})},
  };
  Entry put{"scatter", WrongType::mixed};
  Entry add{"scatter_add", WrongType::mixed};
  for (const Place& place : places) {
    const std::vector<Input> inputs = {{place.shape}, {place.index.shape()}};
    put.cases.push_back(
        {place.what, [place](Inputs in) { return scatter(in[0], place.axis, place.index, in[1]); }, inputs});
    add.cases.push_back(
        {place.what, [place](Inputs in) { return scatter_add(in[0], place.axis, place.index, in[1]); }, inputs});
  }
  table.push_back(std::move(put));
  table.push_back(std::move(add));
}

void add_rotary(std::vector<Entry>& table) {
  Entry turn{"rotary", WrongType::whole};
  struct Layout {
    std::string what;
    Shape x;
    Tensor positions;
    Index dims;
    Index heads;
  };
  const std::vector<Layout> layouts = {
      {"one", {2}, whole({7}, {}), 2, 1},
      {"", {5, 6}, arange(5), 6, 1},
      {"partial", {2, 3, 7}, arange(3), 4, 1},
      {"heads", {2, 3, 12}, arange(3), 4, 3},
      {"own positions", {2, 3, 8}, whole({5, 0, 2, 1, 1, 9}, {2, 3}), 2, 2},
      {"axes of heads", {2, 2, 3, 4}, whole({5, 0, 2, 1, 1, 9}, {2, 1, 3}), 4, 1},
      {"no rows", {0, 4}, arange(0), 4, 1},
  };
  for (const Layout& layout : layouts) {
    for (const RotaryPairs pairs : {RotaryPairs::interleaved, RotaryPairs::halves}) {
      turn.cases.push_back({layout.what,
                            [layout, pairs](Inputs in) {
                              const DType dtype = is_floating(in[0].dtype()) ? in[0].dtype() : DType::f32;
                              const RotaryTable angles = rotary_table(layout.positions, layout.dims, 100, dtype);
                              return rotary(in[0], angles, {.heads = layout.heads, .pairs = pairs});
                            },
                            {{layout.x}}});
    }
  }
  table.push_back(std::move(turn));
}

}  // namespace

void add_indexing(std::vector<Entry>& table) {
  add_selections(table);
  add_scatters(table);
  add_rotary(table);
}

}  // namespace op_table
