// SPDX-License-Identifier: MIT
// The table's page of rearrangements, order and Einstein's sums.
#include <tapehead/ops.h>

#include "core/op_table.h"

namespace op_table {

using namespace tapehead;

namespace {

Case one(const std::string& what, const Shape& shape, const TensorFunction& f) { return {what, f, {{shape}}}; }

void add_moves(std::vector<Entry>& table) {
  table.push_back({"flip",
                   WrongType::none,
                   {
                       one("all", {5, 3}, [](Inputs in) { return flip(in[0]); }),
                       one("last", {5, 3}, [](Inputs in) { return flip(in[0], -1); }),
                       one("first and third", {2, 3, 5},
                           [](Inputs in) {
                             return flip(in[0], {0, 2});
                           }),
                       one("size 0", {0, 3}, [](Inputs in) { return flip(in[0]); }),
                   }});
  table.push_back({"roll",
                   WrongType::none,
                   {
                       one("", {7}, [](Inputs in) { return roll(in[0], 2); }),
                       one("back", {5, 3}, [](Inputs in) { return roll(in[0], -1, 0); }),
                       one("round and round", {2, 3, 5}, [](Inputs in) { return roll(in[0], 17, 1); }),
                       one("size 0", {0, 3}, [](Inputs in) { return roll(in[0], 2, 1); }),
                   }});
  const auto around = [](const std::vector<Padding>& paddings) {
    return [paddings](Inputs in) { return pad(in[0], paddings, 0.5); };
  };
  table.push_back({"pad",
                   WrongType::none,
                   {
                       one("last", {5, 3}, around({{1, 2}})),
                       one("both", {5, 3}, around({{0, 1}, {2, 0}})),
                       one("size 0", {0, 3}, around({{1, 1}, {0, 0}})),
                       one("rank 5", {1, 2, 1, 2, 1}, around({{1, 0}, {0, 0}, {0, 1}})),
                   }});
  const auto copies = [](const std::vector<Index>& repeats) {
    return [repeats](Inputs in) { return tile(in[0], repeats); };
  };
  table.push_back({"tile",
                   WrongType::none,
                   {
                       one("scalar", {}, copies({3})),
                       one("both", {2, 3}, copies({2, 3})),
                       one("last", {2, 3}, copies({2})),
                       one("in front", {3}, copies({2, 1, 2})),
                       one("none", {2, 3}, copies({0, 2})),
                       one("size 0", {0, 3}, copies({2, 2})),
                   }});
  table.push_back({"repeat_interleave",
                   WrongType::none,
                   {
                       one("last", {2, 3}, [](Inputs in) { return repeat_interleave(in[0], 2); }),
                       one("first", {2, 3}, [](Inputs in) { return repeat_interleave(in[0], 3, 0); }),
                       one("size 0", {3, 0}, [](Inputs in) { return repeat_interleave(in[0], 2, 0); }),
                       one("none", {2, 3}, [](Inputs in) { return repeat_interleave(in[0], 0); }),
                   }});
}

void add_order(std::vector<Entry>& table) {
  table.push_back({"sort",
                   WrongType::none,
                   {
                       one("", {7}, [](Inputs in) { return sort(in[0]).values; }),
                       one("first, falling", {5, 3}, [](Inputs in) { return sort(in[0], 0, true).values; }),
                       one("middle", {2, 3, 5}, [](Inputs in) { return sort(in[0], 1).values; }),
                       one("size 0", {0, 3}, [](Inputs in) { return sort(in[0], 0).values; }),
                   }});
  table.push_back({"topk",
                   WrongType::none,
                   {
                       one("", {7}, [](Inputs in) { return topk(in[0], 3).values; }),
                       one("first, smallest", {5, 3}, [](Inputs in) { return topk(in[0], 2, 0, false).values; }),
                       one("all", {2, 3}, [](Inputs in) { return topk(in[0], 3, 1).values; }),
                       one("none", {2, 3}, [](Inputs in) { return topk(in[0], 0).values; }),
                   }});
}

void add_einsum(std::vector<Entry>& table) {
  Entry entry{"einsum", WrongType::mixed};
  const auto put = [&](const std::string& equation, const std::vector<Shape>& shapes) {
    std::vector<Input> inputs;
    for (const Shape& shape : shapes) inputs.push_back({shape});
    entry.cases.push_back({equation, [equation](Inputs in) { return einsum(equation, in); }, inputs});
  };
  put("->", {{}});
  put("ij->ji", {{5, 3}});
  put("ijk->j", {{2, 3, 5}});
  put("ii->i", {{3, 3}});
  put("iji", {{2, 3, 2}});
  put("iii->", {{2, 2, 2}});
  put("ij,jk->ik", {{2, 3}, {3, 5}});
  put("bij,bjk->bik", {{2, 2, 3}, {2, 3, 5}});
  put("bij,bkj->kbi", {{2, 2, 3}, {2, 5, 3}});
  put("ji,jk->ki", {{3, 2}, {3, 5}});
  put("bhqd,bhkd->bhqk", {{2, 1, 2, 3}, {2, 1, 3, 3}});
  put("i,j->ij", {{3}, {5}});
  put("bi,bj->jib", {{2, 3}, {2, 2}});
  put("i,i->", {{7}, {7}});
  put("ij,ij->ji", {{2, 3}, {2, 3}});
  put("ij,kl->l", {{2, 3}, {2, 3}});
  put("ij,jk,kl->il", {{2, 3}, {3, 2}, {2, 5}});
  put("ii,ij,j->i", {{3, 3}, {3, 2}, {2}});
  put("ij,jk->ik", {{2, 0}, {0, 3}});
  put("ij,jk->ik", {{0, 2}, {2, 3}});
  entry.cases.push_back({"same tensor twice",
                         [](Inputs in) {
                           return einsum("ij,jk->ik", {in[0], in[0]});
                         },
                         {{{3, 3}}}});
  table.push_back(std::move(entry));
}

}  // namespace

void add_rearrangements(std::vector<Entry>& table) {
  add_moves(table);
  add_order(table);
  add_einsum(table);
}

}  // namespace op_table
