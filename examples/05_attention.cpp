// SPDX-License-Identifier: MIT
// Lesson 5: attention. Five published walk-throughs of scaled dot-product attention, replayed with their numbers:
// softmax(Q K^T / sqrt(d_k)) V, with weights that say how much each query reads from each key.
#include <cmath>
#include <limits>

#include <fmt/core.h>
#include <tapehead/tapehead.h>

namespace th = tapehead;
using th::DType;
using th::Tensor;

namespace {

void heading(const char* text) { fmt::print("\n\n{:-<75}\n{}\n", "", text); }

void show(const char* name, const Tensor& values) { fmt::print("\n{}\n{}\n", name, values); }

Tensor corner(const Tensor& x) { return th::select(th::select(x, 0, 0), 0, 0); }

double variance_of(const Tensor& x) { return th::mean(th::pow(x - th::mean(x), 2)).item(); }

// A mask says what its numbers mean. Here True is a place to look at.
void batched_with_causal_mask() {
  heading("1. Batched attention, without and with a causal mask (NumPy seed 42)");
  const th::Index batch_size = 2, seq_len = 4, d_k = 8, d_v = 8;
  th::NumpyRandom random(42);
  const Tensor Q = random.randn({batch_size, seq_len, d_k}) * 0.1;
  const Tensor K = random.randn({batch_size, seq_len, d_k}) * 0.1;
  const Tensor V = random.randn({batch_size, seq_len, d_v}) * 0.1;
  fmt::print("\nBatch size: {}\nSequence length: {}\n", batch_size, seq_len);
  fmt::print("Key/Query dimension (d_k): {}\nValue dimension (d_v): {}\n", d_k, d_v);
  fmt::print("Q shape: {}\nK shape: {}\nV shape: {}\n", Q.shape(), K.shape(), V.shape());

  const auto [output, weights] = th::scaled_dot_product_attention(Q, K, V);
  fmt::print("\nOutput shape: {}\nAttention weights shape: {}\n", output.shape(), weights.shape());
  const Tensor first = th::select(weights, 0, 0);
  show("Attention weights (first batch):", first);
  fmt::print("Row sums: {}\n", th::sum(first, 1));
  show("Output (first batch, first sequence position):", corner(output));

  const Tensor causal = th::to(th::tril(th::ones({seq_len, seq_len})), DType::boolean);
  show("Causal mask (first batch):", th::to(causal, DType::i64));
  const auto masked = th::scaled_dot_product_attention(Q, K, V, {.mask = th::Mask::keep(causal)});
  show("Attention weights with causal mask (first batch):", th::select(masked.weights, 0, 0));
  fmt::print("\nNote: Upper triangle is 0 (masked positions)\n");
}

void a_layer() {
  heading("2. A layer with learnable weights W_q, W_k, W_v (NumPy seed 42)");
  th::NumpyRandom random(42);
  const Tensor X = random.randn({4, 8});
  th::SelfAttention attention(8, 8);
  attention.to(DType::f64);
  attention.W_q = random.randn({8, 8}) * 0.1;
  attention.W_k = random.randn({8, 8}) * 0.1;
  attention.W_v = random.randn({8, 8}) * 0.1;
  const auto [output, weights] = attention(X);
  show("Attention Output:", output);
  show("Attention Weights:", weights);
}

// The notebook drew its numbers without a seed, so its scores and values are typed in as it printed them, rounded to
// eight decimals: results made of them differ from its own by at most one in the eighth.
void step_by_step() {
  heading("3. MatMul -> Scale -> Mask -> SoftMax -> MatMul, one step at a time");
  const Tensor scores = th::tensor({{-0.6565045, -3.76956714, 3.08105246, 2.43434131},
                                    {2.07802559, 1.21139921, 7.93190485, -1.00497858},
                                    {4.20399631, -0.29168475, -1.308575, -5.64194761},
                                    {4.73150822, -1.13656296, 2.20243154, -5.90394453}},
                                   DType::f64);
  const Tensor v = th::tensor(
      {{-0.66661609, -0.2300184, 0.10529725, 0.8967182, 0.1888911, 0.73803245, -0.49179694, -0.52730004},
       {-0.10955928, -0.39643985, 0.49443102, -0.74299578, -0.05876202, 0.55378618, -2.64925633, -0.41944655},
       {-0.9235716, -0.2243191, 0.029843, 0.95871349, -1.37069767, 1.27240117, 0.42138193, 0.38992467},
       {-0.88377787, -0.56258775, -1.8317103, 0.14400398, 1.19939318, 0.32319981, 0.6360734, 0.61045097}},
      DType::f64);
  const double d_k = 8, infinity = std::numeric_limits<double>::infinity();

  show("q k^T", scores);
  fmt::print("variance {:.7f}\n", variance_of(scores));
  const Tensor scaled = scores / std::sqrt(d_k);
  fmt::print("after scaling by sqrt(d_k) {:.7f}\n", variance_of(scaled));
  Tensor mask = th::tril(th::ones({4, 4}, DType::f64));
  show("mask", mask);
  mask = th::where(th::equal(mask, th::zeros({}, DType::f64)), th::full({}, -infinity, DType::f64),
                   th::zeros({}, DType::f64));
  show("scaled + mask", scaled + mask);
  const Tensor attention = th::softmax(scaled + mask);
  show("attention", attention);
  show("new_v", th::matmul(attention, v));
  show("v", v);

  const auto [output, weights] = th::scaled_dot_product_attention(
      scores, th::eye(4, DType::f64), v, {.mask = th::Mask::add(mask), .scale = 1 / std::sqrt(d_k)});
  fmt::print("\nlargest difference to scaled_dot_product_attention in one call: {:.0e}\n",
             th::max(th::abs(output - th::matmul(attention, v))).item());

  // The notebook's last cell ran on another q and k, which it does not show, and the same v.
  const Tensor last = th::tensor({{1, 0, 0, 0},
                                  {0.72088975, 0.27911025, 0, 0},
                                  {0.18065601, 0.3695087, 0.44983529, 0},
                                  {0.0218007, 0.07263483, 0.65240409, 0.25316038}},
                                 DType::f64);
  show("the last cell's weights", last);
  show("and its output", th::matmul(last, v));
}

void words() {
  heading("4. \"The cat sat\": words, projections, scores, weights, output");
  const auto word = [](double a, double b, double c) { return th::tensor({a, b, c}, DType::f64); };
  const Tensor X = th::stack({word(1, 0, 0.5), word(0, 1, 0.3), word(1, 1, 0.2)});
  show("X", X);
  const Tensor W_Q = th::stack({word(1, 0, 0.5), word(0, 1, 0.5), word(0, 1, 0.5)});
  const Tensor W_K = W_Q;
  const Tensor W_V = th::stack({word(0.5, 1, 0.2), word(1, 0.5, 0.3), word(1, 0.5, 0.1)});
  const Tensor Q = th::matmul(X, W_Q), K = th::matmul(X, W_K), V = th::matmul(X, W_V);
  show("Q", Q);
  show("K", K);
  show("V", V);
  const Tensor scores = th::matmul(Q, K, {.transpose_b = true});
  show("Dot product scores:", scores);
  show("scaled_scores", scores / std::sqrt(3.0));
  const auto [output, weights] = th::scaled_dot_product_attention(Q, K, V);
  show("Attention Weights:", weights);
  show("Final Output:", output);
}

void words_with_causal_mask() {
  heading("   The same with a causal mask, other words and projections that change nothing");
  const Tensor X = th::tensor({{1, 0, 1}, {0, 1, 1}, {1, 1, 0}}, DType::f64);
  const Tensor W = th::eye(3, DType::f64);
  const Tensor Q = th::matmul(X, W), K = th::matmul(X, W), V = th::matmul(X, W);
  const Tensor scaled = th::matmul(Q, K, {.transpose_b = true}) / std::sqrt(3.0);
  const Tensor mask = th::triu(th::full({3, 3}, -std::numeric_limits<double>::infinity(), DType::f64), 1);
  show("masked_scores", scaled + mask);
  const auto [output, weights] = th::scaled_dot_product_attention(Q, K, V, {.mask = th::Mask::add(mask)});
  show("attn_weights", weights);
  show("Q:", Q);
  show("K:", K);
  show("V:", V);
  show("Masked Attention Weights:", weights);
  show("Masked Self-Attention Output:", output);
}

void one_query() {
  heading("5. One query, three keys, values of another width (NumPy seed 42)");
  th::NumpyRandom random(42);
  const Tensor Q = random.rand({1, 2}), K = random.rand({3, 2}), V = random.rand({3, 4});
  show("Q_ex1:", Q);
  show("K_ex1:", K);
  show("V_ex1:", V);
  const auto [output, weights] = th::scaled_dot_product_attention(Q, K, V);
  fmt::print("\nAttention Weights (shape: {}):\n{}\n", weights.shape(), weights);
  fmt::print("Output (shape: {}):\n{}\n", output.shape(), output);
}

// Here 1 is a place not to look at: the opposite of the first example, and the mask says so.
void batched_with_blocked_keys() {
  heading("   A batch in which two places are blocked (NumPy seed 123)");
  th::NumpyRandom random(123);
  const Tensor Q = random.rand({2, 2, 4}), K = random.rand({2, 3, 4}), V = random.rand({2, 3, 5});
  const Tensor blocked = th::tensor({{{0, 0, 0}, {0, 0, 1}}, {{1, 0, 0}, {0, 0, 0}}}, DType::boolean);
  const auto snippet = [](const Tensor& x) { return th::slice(corner(x), 0, {.stop = 2}); };
  fmt::print("\nQ_ex2 (shape {}): {} ...\n", Q.shape(), snippet(Q));
  fmt::print("K_ex2 (shape {}): {} ...\n", K.shape(), snippet(K));
  fmt::print("V_ex2 (shape {}): {} ...\n", V.shape(), snippet(V));
  fmt::print("Mask_ex2 (shape {}):\n{}\n", blocked.shape(), th::to(blocked, DType::i64));
  const auto [output, weights] = th::scaled_dot_product_attention(Q, K, V, {.mask = th::Mask::block(blocked)});
  fmt::print("\nAttention Weights (shape: {}):\n{}\n", weights.shape(), weights);
  fmt::print("Output (shape: {}):\n{}\n", output.shape(), output);
  fmt::print("\nBatch 0, Query 1, Key 2 weight: {}\n", weights.at({0, 1, 2}));
  fmt::print("Batch 1, Query 0, Key 0 weight: {}\n", weights.at({1, 0, 0}));
}

}  // namespace

int main() {
  batched_with_causal_mask();
  a_layer();
  step_by_step();
  words();
  words_with_causal_mask();
  one_query();
  batched_with_blocked_keys();
}
