// SPDX-License-Identifier: MIT
#include "core/bad_calls.h"

using namespace bad_calls;

TEST_CASE("bad axes, indices and targets") {
  check_all({
      {9, Kind::index, {"sum", "axis 2", "rank 2"}, [](Model& m) { sum(m.x, 2); }},
      {9, Kind::index, {"mean", "axis -3", "rank 2"}, [](Model& m) { mean(m.x, -3); }},
      {9,
       Kind::index,
       {"sum", "axis 1", "twice"},
       [](Model& m) {
         sum(m.x, {1, -1});
       }},
      {9, Kind::index, {"softmax", "axis 5"}, [](Model& m) { softmax(m.x, 5); }},
      {9,
       Kind::index,
       {"permute"},
       [](Model& m) {
         permute(m.x, {0, 2});
       }},
      {9,
       Kind::index,
       {"concat", "axis 2"},
       [](Model& m) {
         concat({m.x, m.x}, 2);
       }},
      {9,
       Kind::index,
       {"at", "index 5", "axis 0"},
       [](Model& m) {
         m.x.at({5, 0});
       }},
      {9, Kind::index, {"select", "5", "[5, 4]"}, [](Model& m) { select(m.x, 0, 5); }},
      {19,
       Kind::index,
       {"embedding", "ids[1] is 6", "[0, 6)"},
       [](Model& m) {
         embedding(m.w1, whole({0, 6}, {2}));
       }},
      {19, Kind::index, {"embedding", "-1"}, [](Model& m) { embedding(m.w1, whole({-1}, {1})); }},
      {19,
       Kind::index,
       {"gather", "7", "6"},
       [](Model& m) {
         gather(m.w1, 0, whole({0, 1, 7, 2}, {1, 4}));
       }},
      {19,
       Kind::index,
       {"one_hot", "3"},
       [](Model&) {
         one_hot(whole({0, 3}, {2}), 3);
       }},
      {20,
       Kind::index,
       {"cross_entropy", "4", "position 2"},
       [](Model& m) {
         cross_entropy(m.x, whole({0, 1, 4, 0, 0}, {5}));
       }},
      {20,
       Kind::index,
       {"cross_entropy", "-1"},
       [](Model& m) {
         cross_entropy(m.x, whole({-1, 1, 0, 0, 0}, {5}));
       }},
  });
}

TEST_CASE("bad values") {
  const double nan = std::nan("");
  check_all({
      {10, Kind::value, {"slice", "step"}, [](Model& m) { slice(m.x, 0, {.step = 0}); }},
      {10, Kind::value, {"concat"}, [](Model&) { concat({}); }},
      {10, Kind::value, {"stack"}, [](Model&) { stack({}); }},
      {10, Kind::value, {"arange", "step"}, [](Model&) { arange(0, 1, 0); }},
      {10, Kind::value, {"clamp", "2", "1"}, [](Model& m) { clamp(m.x, 2, 1); }},
      {11,
       Kind::value,
       {"scaled_dot_product_attention", "3 heads", "4"},
       [](Model&) {
         attend({2, 4}, {5, 4}, {5, 4}, {.heads = 3});
       }},
      {11,
       Kind::value,
       {"scaled_dot_product_attention", "-1 heads"},
       [](Model&) {
         attend({2, 4}, {5, 4}, {5, 4}, {.heads = -1});
       }},
      {16,
       Kind::value,
       {"Mask::add", "element 1", "nan"},
       [=](Model&) {
         Mask::add(tensor({0, nan}));
       }},
      {16,
       Kind::value,
       {"Mask::add", "element 2", "inf"},
       [](Model&) {
         Mask::add(tensor({0, -kInfinity, kInfinity}));
       }},
      {16, Kind::value, {"Mask::window", "-1"}, [](Model&) { Mask::window(-1, 0); }},
      {16,
       Kind::value,
       {"Mask::lengths", "6", "5"},
       [](Model&) {
         attend({2, 4}, {5, 4}, {5, 4}, {.mask = Mask::lengths(whole({6}, {}))});
       }},
      {11,
       Kind::value,
       {"scaled_dot_product_attention", "6 heads", "4 heads of key"},
       [](Model&) {
         attend({2, 12}, {5, 8}, {5, 8}, {.heads = 6, .kv_heads = 4});
       }},
      {17,
       Kind::value,
       {"scaled_dot_product_attention", "[2, 0]", "head size 0"},
       [](Model&) {
         attend({2, 0}, {5, 0}, {5, 4});
       }},
      {17,
       Kind::value,
       {"scaled_dot_product_attention", "[3, 2, 0]", "head size 0"},
       [](Model&) {
         attend({3, 2, 0}, {3, 5, 0}, {3, 5, 4}, {.heads = 2});
       }},
      {17,
       Kind::value,
       {"scaled_dot_product_attention", "head size 0"},
       [](Model&) {
         attention_scores(ones({2, 0}), ones({5, 0}));
       }},
      {21,
       Kind::value,
       {"cross_entropy", "5"},
       [](Model& m) {
         cross_entropy(m.x, whole({-100, -100, -100, -100, -100}, {5}));
       }},
      {21,
       Kind::value,
       {"nll_loss", "2 targets"},
       [](Model&) {
         nll_loss(ones({2, 3}), whole({-100, -100}, {2}));
       }},
      {21,
       Kind::value,
       {"cross_entropy", "2 targets"},
       [](Model&) {
         cross_entropy(ones({2, 3}), whole({1, 1}, {2}), {.weight = tensor({1, 0, 1})});  // its class weighs nothing
       }},
      {22,
       Kind::value,
       {"max", "[0, 3]"},
       [](Model&) {
         max(zeros({0, 3}));
       }},
      {22,
       Kind::value,
       {"min", "[3, 0]"},
       [](Model&) {
         min(zeros({3, 0}), 1);
       }},
      {22,
       Kind::value,
       {"mean", "[0, 3]"},
       [](Model&) {
         mean(zeros({0, 3}));
       }},
      {22,
       Kind::value,
       {"argmax", "[3, 0]"},
       [](Model&) {
         argmax(zeros({3, 0}));
       }},
      {37, Kind::value, {"Adam", "lr", "nan"}, [=](Model& m) { m.adam.set_lr(nan); }},
      {37,
       Kind::value,
       {"SGD", "lr", "-1"},
       [](Model& m) {
         SGD({{"w", m.w1}}, {.lr = -1});
       }},
      {37,
       Kind::value,
       {"AdamW", "beta1", "1"},
       [](Model& m) {
         AdamW({{"w", m.w1}}, {.beta1 = 1});
       }},
      {37,
       Kind::value,
       {"Adam", "eps", "0"},
       [](Model& m) {
         Adam({{"w", m.w1}}, {.eps = 0});
       }},
      {37,
       Kind::value,
       {"clip_grad_norm", "max_norm", "-1"},
       [](Model& m) { clip_grad_norm(m.adam.parameters(), -1); }},
      {37, Kind::value, {"layer_norm", "eps", "0"}, [](Model& m) { layer_norm(m.x, {}, {}, 0); }},
      {38, Kind::value, {"dropout", "1"}, [](Model& m) { dropout(m.x, 1); }},
      {38, Kind::value, {"dropout", "-0.1"}, [](Model& m) { dropout(m.x, -0.1); }},
      {38, Kind::value, {"dropout", "nan"}, [=](Model& m) { dropout(m.x, nan); }},
      {38, Kind::value, {"randint", "3"}, [](Model&) { randint(3, 3, {2}); }},
      {39,
       Kind::value,
       {"shape", "3037000500, 3037000500"},
       [](Model&) {
         zeros({3037000500, 3037000500});
       }},
      {39, Kind::value, {"allocate", "bytes"}, [](Model&) { zeros({Index{1} << 44}); }},
      {39,
       Kind::value,
       {"shape"},
       [](Model&) {
         broadcast_to(ones({1}), {Index{1} << 40, Index{1} << 40});
       }},
      {39, Kind::value, {"set_num_threads", "0"}, [](Model&) { set_num_threads(0); }},
  });
}

TEST_CASE("questions that the tape cannot answer") {
  check_all({
      {24, Kind::graph, {"backward", "[5, 4]", "scalar"}, [](Model& m) { (m.x * sum(m.b1)).backward(); }},
      {26,
       Kind::graph,
       {"backward", "saved are gone", ".retain"},
       [](Model& m) {
         const Tensor loss = cross_entropy(linear(m.x, m.w1), m.targets);
         loss.backward();
         m.adam.zero_grad();
         loss.backward();
       }},
      {26,
       Kind::graph,
       {"backward", "\"tanh\"", ".retain"},
       [](Model& m) {
         const Tensor hidden = tanh(linear(m.x, m.w1));
         sum(hidden).backward();
         m.adam.zero_grad();
         (sum(hidden) + sum(m.w2)).backward();
       }},
      {27, Kind::graph, {"backward", "needs no gradient"}, [](Model& m) { sum(m.x).backward(); }},
      {27, Kind::graph, {"grad", "input 0", "[5, 4]"}, [](Model& m) { grad(sum(m.w1), {m.x}); }},
      {27,
       Kind::graph,
       {"grad", "input 1", "[2]"},
       [](Model& m) {
         grad(sum(m.w1), {m.w1, ones({2}).requires_grad_()});
       }},
      {27, Kind::graph, {"requires_grad_", "leaves"}, [](Model& m) { (m.w1 * 2.0).requires_grad_(); }},
      {28,
       Kind::graph,
       {"multiply", "[2]", "write()", "version"},
       [](Model& m) {
         Tensor scratch = ones({2}).requires_grad_();
         const Tensor loss = sum(scratch * scratch) + sum(m.w1);  // w1's gradient arrives before the edit is found
         scratch.write<float>()[0] = 2;
         loss.backward();
       }},
      {29,
       Kind::graph,
       {"tanh", "write()"},
       [](Model& m) {
         Tensor hidden = tanh(linear(m.x, m.w1));
         const Tensor loss = sum(hidden) + sum(m.w2);
         hidden.write<float>()[0] = 2;
         loss.backward();
       }},
      {28,
       Kind::graph,
       {"scaled_dot_product_attention", "mask [5, 5]", "write()", "version"},
       [](Model& m) {
         Tensor mask = ones({5, 5}, DType::boolean);
         const Tensor hidden = linear(m.x, m.w1);
         const AttentionOptions options{.mask = Mask::keep(mask), .need_weights = false};
         const Tensor loss = sum(scaled_dot_product_attention(hidden, hidden, hidden, options).output);
         mask.write<bool>()[0] = false;
         loss.backward();
       }},
      {16, Kind::graph, {"Mask::add", "gradient"}, [](Model& m) { Mask::add(m.b1); }},
      {37,
       Kind::graph,
       {"SGD", "\"w\"", "leaves"},
       [](Model& m) {
         SGD({{"w", m.w1 * 2.0}});
       }},
  });
}

TEST_CASE("objects that are not ready") {
  check_all({
      {34,
       Kind::state,
       {"tensor", "empty"},
       [](Model& m) {
         m.w1.grad().at({0, 0});
       }},
      {35, Kind::state, {"Adam.step", "\"w1\", \"b1\", \"w2\""}, [](Model& m) { m.adam.step(); }},
      {36,
       Kind::state,
       {"SGD.step", "\"w\"", "[2, 3]", "[3, 2]"},
       [](Model&) {
         const Tensor w = ones({2, 3}).requires_grad_();
         SGD sgd({{"w", w}});
         w.backward({.gradient = ones({2, 3})});
         w.body().shape = Shape{3, 2};
         sgd.step();
       }},
      {48, Kind::state, {"tensor", "empty"}, [](Model&) { Tensor().shape(); }},
      {48, Kind::state, {"tensor", "empty"}, [](Model& m) { m.x + Tensor(); }},
      {48, Kind::state, {"tensor", "empty"}, [](Model& m) { linear(m.x, Tensor()); }},
      {48,
       Kind::state,
       {"tensor", "empty"},
       [](Model& m) {
         Tensor from = m.x;
         const Tensor to = std::move(from);
         exp(from);
       }},
      {48, Kind::state, {"tensor", "empty"}, [](Model&) { Tensor().backward(); }},
      {48,
       Kind::state,
       {"tensor", "empty"},
       [](Model& m) {
         concat({m.x, Tensor()});
       }},
      {48, Kind::state, {"tensor", "empty"}, [](Model&) { scaled_dot_product_attention({}, {}, {}); }},
  });
}
