// SPDX-License-Identifier: MIT
#include "core/bad_calls.h"

using namespace bad_calls;

TEST_CASE("bad shapes") {
  check_all({
      {1, Kind::shape, {"add", "[5, 4]", "[3]", "4 against 3"}, [](Model& m) { m.x + ones({3}); }},
      {1,
       Kind::shape,
       {"multiply", "[6, 4]", "[4, 6]", "axis"},
       [](Model& m) {
         m.w1* ones({4, 6});
       }},
      {1,
       Kind::shape,
       {"where", "[5]", "[6]"},
       [](Model&) { where(zeros({5}, DType::boolean), ones({6}), ones({6})); }},
      {2,
       Kind::shape,
       {"matmul", "[5, 4]", "[5, 3]", "4", "5"},
       [](Model& m) {
         matmul(m.x, ones({5, 3}));
       }},
      {2, Kind::shape, {"matmul", "[4]", "[3]"}, [](Model&) { matmul(ones({4}), ones({3})); }},
      {2, Kind::shape, {"matmul", "[6, 4]"}, [](Model& m) { matmul(m.w1, m.w1); }},
      {3, Kind::shape, {"matmul", "[]"}, [](Model& m) { matmul(m.x, tensor(1.0)); }},
      {3, Kind::shape, {"matmul", "[]"}, [](Model& m) { matmul(tensor(1.0), m.x); }},
      {3, Kind::shape, {"matmul", "[]"}, [](Model& m) { matmul(m.x, sum(m.b1), {.transpose_b = true}); }},
      {4,
       Kind::shape,
       {"matmul", "[2, 5, 4]", "[3, 4, 2]", "2 against 3"},
       [](Model&) {
         matmul(ones({2, 5, 4}), ones({3, 4, 2}));
       }},
      {4,
       Kind::shape,
       {"matmul", "[2, 1, 5, 4]", "[3, 6, 4, 2]", "2 against 3"},
       [](Model&) {
         matmul(ones({2, 1, 5, 4}), ones({3, 6, 4, 2}));
       }},
      {4,
       Kind::shape,
       {"matmul", "[4, 5, 2]", "[3, 4, 2]", "4 against 3"},
       [](Model&) {
         matmul(ones({4, 5, 2}), ones({3, 4, 2}), {.transpose_b = true});
       }},
      {5,
       Kind::shape,
       {"linear", "[5, 3]", "[6, 4]", "3", "4"},
       [](Model& m) {
         linear(ones({5, 3}), m.w1);
       }},
      {5, Kind::shape, {"linear", "[4, 5]", "[6, 4]", "5", "4"}, [](Model& m) { linear(transpose(m.x, 0, 1), m.w1); }},
      {5, Kind::shape, {"linear", "bias", "[7]", "[6, 4]"}, [](Model& m) { linear(m.x, m.w1, ones({7})); }},
      {8,
       Kind::shape,
       {"reshape", "[5, 4]", "20", "[3, 7]", "21"},
       [](Model& m) {
         reshape(m.x, {3, 7});
       }},
      {8,
       Kind::shape,
       {"reshape", "-1"},
       [](Model& m) {
         reshape(m.x, {-1, -1});
       }},
      {8,
       Kind::shape,
       {"reshape", "-1", "0"},
       [](Model&) {
         reshape(ones({0, 3}), {0, -1});
       }},
      {8,
       Kind::shape,
       {"reshape", "[5, 4]", "3"},
       [](Model& m) {
         reshape(m.x, {3, -1});
       }},
      {10,
       Kind::shape,
       {"concat", "[5, 4]", "[5, 3]"},
       [](Model& m) {
         concat({m.x, ones({5, 3})}, 0);
       }},
      {10,
       Kind::shape,
       {"stack", "[5, 4]", "[4, 5]"},
       [](Model& m) {
         stack({m.x, ones({4, 5})});
       }},
      {10,
       Kind::shape,
       {"broadcast_to", "[5, 4]", "[5, 3]"},
       [](Model& m) {
         broadcast_to(m.x, {5, 3});
       }},
      {10, Kind::shape, {"squeeze", "4"}, [](Model& m) { squeeze(m.x, 1); }},
      {12,
       Kind::shape,
       {"scaled_dot_product_attention", "[5, 4]", "[6, 4]", "5 against 6"},
       [](Model&) {
         attend({2, 4}, {5, 4}, {6, 4});
       }},
      {12,
       Kind::shape,
       {"scaled_dot_product_attention", "[3, 5, 4]", "[3, 1, 4]", "5 against 1"},
       [](Model&) {
         attend({3, 2, 4}, {3, 5, 4}, {3, 1, 4}, {.mask = Mask::window(1, 1)});
       }},
      {12,
       Kind::shape,
       {"scaled_dot_product_attention", "[5, 4]", "[0, 4]", "5 against 0"},
       [](Model&) {
         attend({2, 8}, {5, 4}, {0, 4}, {.heads = 2, .kv_heads = 1});
       }},
      {13,
       Kind::shape,
       {"scaled_dot_product_attention", "[2, 4]", "[5, 3]", "4", "3"},
       [](Model&) {
         attend({2, 4}, {5, 3}, {5, 4});
       }},
      {13,
       Kind::shape,
       {"scaled_dot_product_attention", "[4]"},
       [](Model&) {
         attend({4}, {5, 4}, {5, 4});
       }},
      {14,
       Kind::shape,
       {"scaled_dot_product_attention", "mask", "[3, 4]", "[2, 5]"},
       [](Model&) {
         attend({2, 4}, {5, 4}, {5, 4}, {.mask = Mask::keep(ones({3, 4}, DType::boolean))});
       }},
      {14,
       Kind::shape,
       {"Mask::causal", "2 queries", "5 keys"},
       [](Model&) {
         attend({2, 4}, {5, 4}, {5, 4}, {.mask = Mask::causal()});
       }},
      {14,
       Kind::shape,
       {"Mask::lengths", "[3]", "[2]"},
       [](Model&) {
         attend({2, 2, 4}, {2, 5, 4}, {2, 5, 4}, {.mask = Mask::lengths(whole({1, 2, 3}, {3}))});
       }},
      {13,
       Kind::shape,
       {"scaled_dot_product_attention", "[2, 6]", "[5, 4]", "3", "2"},
       [](Model&) {
         attend({2, 6}, {5, 4}, {5, 4}, {.heads = 2});
       }},
      {23, Kind::shape, {"softmax", "scalar"}, [](Model&) { softmax(tensor(1.0), 0); }},
      {23, Kind::shape, {"log_softmax", "scalar"}, [](Model& m) { log_softmax(sum(m.b1)); }},
      {23, Kind::shape, {"layer_norm", "[]"}, [](Model& m) { layer_norm(sum(m.b1)); }},
      {25,
       Kind::shape,
       {"backward", "[3]", "[5, 4]"},
       [](Model& m) { (m.x + sum(m.b1)).backward({.gradient = ones({3})}); }},
      {25, Kind::shape, {"mse_loss", "[5, 4]", "[4]"}, [](Model& m) { mse_loss(m.x, ones({4})); }},
      {20,
       Kind::shape,
       {"cross_entropy", "[5, 4]", "[4]"},
       [](Model& m) {
         cross_entropy(m.x, whole({0, 0, 0, 0}, {4}));
       }},
  });
}

TEST_CASE("bad element types") {
  check_all({
      {6, Kind::dtype, {"add", "f32", "f64"}, [](Model& m) { m.x + f64({4}); }},
      {6,
       Kind::dtype,
       {"matmul", "f32", "f64"},
       [](Model& m) {
         matmul(m.x, f64({4, 2}));
       }},
      {6,
       Kind::dtype,
       {"linear", "f32", "f64"},
       [](Model& m) {
         linear(f64({5, 4}), m.w1);
       }},
      {6, Kind::dtype, {"layer_norm", "f32", "f64"}, [](Model& m) { layer_norm(m.x, f64({4})); }},
      {6,
       Kind::dtype,
       {"scaled_dot_product_attention", "f32", "f64"},
       [](Model& m) {
         scaled_dot_product_attention(m.x, f64({5, 4}), m.x);
       }},
      {6, Kind::dtype, {"exp", "i64"}, [](Model&) { exp(arange(3)); }},
      {7, Kind::dtype, {"embedding", "ids", "i64", "f32"}, [](Model& m) { embedding(m.w1, ones({2})); }},
      {7,
       Kind::dtype,
       {"gather", "index", "i64", "f32"},
       [](Model& m) {
         gather(m.w1, 0, ones({1, 4}));
       }},
      {7, Kind::dtype, {"cross_entropy", "targets", "i64", "f32"}, [](Model& m) { cross_entropy(m.x, ones({5})); }},
      {15, Kind::dtype, {"Mask::keep", "bool", "i64"}, [](Model&) { Mask::keep(arange(5)); }},
      {15, Kind::dtype, {"Mask::block", "bool", "f32"}, [](Model&) { Mask::block(ones({5})); }},
      {15, Kind::dtype, {"Mask::add", "bool"}, [](Model&) { Mask::add(zeros({5}, DType::boolean)); }},
      {15,
       Kind::dtype,
       {"Mask::add", "f64", "f32"},
       [](Model&) {
         attend({2, 4}, {5, 4}, {5, 4}, {.mask = Mask::add(f64({2, 5}))});
       }},
      {15, Kind::dtype, {"Mask::lengths", "i64", "f32"}, [](Model&) { Mask::lengths(ones({2})); }},
      {25, Kind::dtype, {"backward", "f64", "f32"}, [](Model& m) { sum(m.w1).backward({.gradient = f64({})}); }},
      {48, Kind::dtype, {"read", "f32", "f64"}, [](Model& m) { m.x.read<double>(); }},
      {48, Kind::dtype, {"requires_grad_", "i64"}, [](Model& m) { m.targets.requires_grad_(); }},
  });
}
