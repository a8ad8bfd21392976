// SPDX-License-Identifier: MIT
// The figures that the documents behind this project print, and figures derived from their inputs in float64 with
// NumPy. "Printed" figures have eight decimals.
#include <cmath>
#include <functional>
#include <limits>

#include <doctest/doctest.h>

#include <tapehead/attention.h>
#include <tapehead/gradcheck.h>
#include <tapehead/ops.h>
#include <tapehead/random.h>

using namespace tapehead;

namespace {

const double kNever = -std::numeric_limits<double>::infinity();

Tensor f64(const std::vector<double>& values, const Shape& shape) {
  return from_data(std::span<const double>(values), shape);
}

void check_close(const Tensor& x, const std::vector<double>& expected, double tolerance = 0.51e-8) {
  REQUIRE(x.numel() == static_cast<Index>(expected.size()));
  const std::span<const double> values = x.read<double>();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(values[i] - expected[i]) <= tolerance);
  }
}

// The notebook with batches: seed 42, Q, K and V [2, 4, 8] drawn in this order, times 0.1.
struct Batched {
  NumpyRandom random{42};
  Tensor q = random.randn({2, 4, 8}) * 0.1;
  Tensor k = random.randn({2, 4, 8}) * 0.1;
  Tensor v = random.randn({2, 4, 8}) * 0.1;
};

// The article's first example, "The cat sat".
struct CatSat {
  Tensor x = f64({1, 0, 0.5, 0, 1, 0.3, 1, 1, 0.2}, {3, 3});
  Tensor w_q = f64({1, 0, 0.5, 0, 1, 0.5, 0, 1, 0.5}, {3, 3});
  Tensor w_k = clone(w_q);
  Tensor w_v = f64({0.5, 1, 0.2, 1, 0.5, 0.3, 1, 0.5, 0.1}, {3, 3});
};

// Its second: identity projections, so Q = K = V.
Tensor sentence() { return f64({1, 0, 1, 0, 1, 1, 1, 1, 0}, {3, 3}); }

const std::vector<double> kCausalWeights = {1, 0, 0, 0.35954252, 0.64045748, 0, 0.26445846, 0.26445846, 0.47108308};

}  // namespace

TEST_CASE("documents: S0-1, S0-2, S0-3, S0-4: batched attention without a mask") {
  const Batched in;
  const AttentionResult result = scaled_dot_product_attention(in.q, in.k, in.v);
  CHECK(result.output.shape() == Shape{2, 4, 8});
  CHECK(result.weights.shape() == Shape{2, 4, 4});
  check_close(select(result.weights, 0, 0),  // printed
              {0.25239951, 0.24751685, 0.25106345, 0.24902019, 0.24893051, 0.25202596, 0.24813962, 0.25090392,
               0.24710991, 0.25421605, 0.24841189, 0.25026215, 0.25241656, 0.24979312, 0.24903318, 0.24875714});
  check_close(select(result.weights, 0, 1),  // derived
              {0.25004232, 0.25254746, 0.24735535, 0.25005487, 0.25138068, 0.24975895, 0.25095481, 0.24790557,
               0.25032407, 0.24875336, 0.24799214, 0.25293043, 0.25098513, 0.25215180, 0.24741626, 0.24944681});
  check_close(select(result.output, 0, 0),  // the first row printed, the others derived
              {-0.02728092, 0.00473303, -0.04275996, -0.07967607, 0.03838312, 0.06356303, -0.08637104, 0.06873783,
               -0.02787275, 0.00457763, -0.04143834, -0.08000335, 0.03905305, 0.06399057, -0.08707458, 0.06830579,
               -0.02801172, 0.00460514, -0.04103035, -0.08027551, 0.03919074, 0.06416830, -0.08717596, 0.06803134,
               -0.02749392, 0.00449403, -0.04233400, -0.07966925, 0.03827804, 0.06378862, -0.08675804, 0.06869489});
  check_close(sum(result.weights, -1), std::vector<double>(8, 1), 1e-12);
}

TEST_CASE("documents: S0-5, S0-6, S0-7, S0-8: batched attention with a causal keep-mask") {
  const Batched in;
  const Tensor keep = not_equal(tril(ones({4, 4})), zeros({}));
  CHECK(to_string(to(keep, DType::i64)) == "[[1 0 0 0]\n [1 1 0 0]\n [1 1 1 0]\n [1 1 1 1]]");
  const AttentionResult plain = scaled_dot_product_attention(in.q, in.k, in.v);
  for (const Mask& mask : {Mask::keep(keep), Mask::keep(broadcast_to(keep, {2, 4, 4})), Mask::causal()}) {
    const AttentionResult result = scaled_dot_product_attention(in.q, in.k, in.v, {.mask = mask});
    check_close(select(result.weights, 0, 0),  // two rows printed, two derived
                {1, 0, 0, 0, 0.49691046, 0.50308954, 0, 0, 0.32959509, 0.33907325, 0.33133167, 0, 0.25241656,
                 0.24979312, 0.24903318, 0.24875714});
    check_close(slice(select(result.weights, 0, 1), 0, {.start = 1, .stop = 3}),
                {0.50161804, 0.49838196, 0, 0, 0.33507465, 0.33297214, 0.33195321, 0});
    check_close(select(result.output, 0, 0),
                {0.00996514,  -0.05034757, -0.15506634, 0.00685630,  -0.10623037, 0.04735924, -0.09194242, 0.15499344,
                 -0.03445287, -0.04122081, -0.03612689, -0.05851653, -0.04134371, 0.08929429, -0.12655795, 0.08630660,
                 -0.01466282, -0.00161029, -0.06450901, -0.08322642, -0.01000687, 0.06977113, -0.07650961, 0.06882444,
                 -0.02749392, 0.00449403,  -0.04233400, -0.07966925, 0.03827804,  0.06378862, -0.08675804, 0.06869489});
    CHECK(result.weights.at({0, 0, 1}) == 0);
    CHECK(result.weights.at({0, 2, 3}) == 0);
    for (Index i = 0; i < 8; ++i) {
      CHECK(result.output.at({0, 0, i}) == in.v.at({0, 0, i}));                            // sees itself alone
      CHECK(std::abs(result.output.at({0, 3, i}) - plain.output.at({0, 3, i})) <= 1e-16);  // sees everything
    }
  }
}

TEST_CASE("documents: S1-4: the minimal self-attention") {
  NumpyRandom random(42);
  const Tensor x = random.randn({4, 8});
  const Tensor w_q = random.randn({8, 8}) * 0.1;
  const Tensor w_k = random.randn({8, 8}) * 0.1;
  const Tensor w_v = random.randn({8, 8}) * 0.1;
  const AttentionResult result = scaled_dot_product_attention(matmul(x, w_q), matmul(x, w_k), matmul(x, w_v));
  check_close(result.output,
              {-0.01035516, -0.27415780, -0.14408016, -0.20593843, 0.02155267, 0.06036594, 0.00967804, -0.18386666,
               -0.01214499, -0.22997054, -0.13112747, -0.18788542, 0.03592952, 0.04071390, 0.01025643, -0.17372143,
               -0.00617919, -0.22060670, -0.12805948, -0.17880954, 0.02524986, 0.05583657, 0.00274535, -0.16358427,
               -0.00930351, -0.26194582, -0.14036100, -0.19973441, 0.02230098, 0.05933740, 0.00821298, -0.17942075});
  check_close(result.weights,
              {0.23477085, 0.26403109, 0.24610060, 0.25509746, 0.25656560, 0.23464604, 0.24361217, 0.26517620,
               0.26811614, 0.24296143, 0.25373332, 0.23518912, 0.24213999, 0.25864585, 0.24825651, 0.25095765});
}

TEST_CASE("documents: S2-2, S2-3, S2-4, S2-8, S2-9: the step-by-step notebook") {
  const Tensor products =
      f64({-0.6565045, -3.76956714, 3.08105246, 2.43434131, 2.07802559, 1.21139921, 7.93190485, -1.00497858, 4.20399631,
           -0.29168475, -1.308575, -5.64194761, 4.73150822, -1.13656296, 2.20243154, -5.90394453},
          {4, 4});
  const Tensor v =
      f64({-0.66661609, -0.2300184,  0.10529725, 0.8967182,   0.1888911,   0.73803245, -0.49179694, -0.52730004,
           -0.10955928, -0.39643985, 0.49443102, -0.74299578, -0.05876202, 0.55378618, -2.64925633, -0.41944655,
           -0.9235716,  -0.2243191,  0.029843,   0.95871349,  -1.37069767, 1.27240117, 0.42138193,  0.38992467,
           -0.88377787, -0.56258775, -1.8317103, 0.14400398,  1.19939318,  0.32319981, 0.6360734,   0.61045097},
          {4, 8});
  const auto variance = [](const Tensor& x) { return mean((x - mean(x)) * (x - mean(x))).item(); };
  const Tensor scaled = products / std::sqrt(8.0);
  CHECK(std::abs(variance(products) - 13.143538524054767) <= 1e-8);
  CHECK(std::abs(variance(scaled) - 1.6429423155068454) <= 1e-8);
  CHECK(variance(products) / variance(scaled) == doctest::Approx(8).epsilon(1e-14));

  const Tensor blocked = f64({0, kNever, kNever, kNever, 0, 0, kNever, kNever, 0, 0, 0, kNever, 0, 0, 0, 0}, {4, 4});
  const std::vector<double> weights = {1,          0,          0,          0,          0.57600598, 0.42399402,
                                       0,          0,          0.742692,   0.15153523, 0.10577277, 0,
                                       0.64192037, 0.08062331, 0.26251301, 0.01494331};
  const std::vector<double> mixed = {
      -0.66661609, -0.2300184,  0.10529725, 0.8967182,  0.1888911,  0.73803245, -0.49179694, -0.52730004,
      -0.43042733, -0.3005801,  0.27028764, 0.20148928, 0.08388766, 0.65991313, -1.40654681, -0.4815708,
      -0.60938126, -0.25463428, 0.15628372, 0.65480118, -0.0135991, 0.76663431, -0.72213858, -0.41393903,
      -0.69240361, -0.2469094,  0.08791747, 0.76954556, -0.2253876, 0.85725767, -0.409163,   -0.26081935};
  check_close(softmax(scaled + blocked), weights, 1e-8);
  check_close(matmul(softmax(scaled + blocked), v), mixed, 2e-8);  // the printed inputs are rounded
  // Queries that are the products, against unit keys, have the products as their scores.
  const AttentionResult result = scaled_dot_product_attention(
      products, eye(4, DType::f64), v, {.mask = Mask::add(blocked), .scale = 1 / std::sqrt(8.0)});
  check_close(result.weights, weights, 1e-8);
  check_close(result.output, mixed, 2e-8);

  const Tensor last_weights = f64({1, 0, 0, 0, 0.72088975, 0.27911025, 0, 0, 0.18065601, 0.3695087, 0.44983529, 0,
                                   0.0218007, 0.07263483, 0.65240409, 0.25316038},
                                  {4, 4});
  check_close(matmul(last_weights, v),
              {-0.66661609, -0.2300184,  0.10529725, 0.8967182,  0.1888911,   0.73803245, -0.49179694, -0.52730004,
               -0.51113582, -0.27646833, 0.21390848, 0.43905722, 0.11976857,  0.68660743, -1.09396597, -0.49719702,
               -0.57636641, -0.28894883, 0.21514358, 0.31871729, -0.60417695, 0.91032976, -0.87821687, -0.07484719,
               -0.84876995, -0.32258153, -0.4060383, 0.62750641, -0.59076015, 0.9682549,  0.23279007,  0.3669685},
              2e-8);
}

TEST_CASE("documents: S3-2, S3-3: \"The cat sat\"") {
  const CatSat in;
  const Tensor q = matmul(in.x, in.w_q), k = matmul(in.x, in.w_k), v = matmul(in.x, in.w_v);
  check_close(q, {1, 0.5, 0.75, 0, 1.3, 0.65, 1, 1.2, 1.1}, 1e-15);
  check_close(v, {1, 1.25, 0.25, 1.3, 0.65, 0.33, 1.7, 1.6, 0.52}, 1e-15);
  const Tensor scores = matmul(q, k, {.transpose_b = true});
  check_close(scores, {1.8125, 1.1375, 2.425, 1.1375, 2.1125, 2.275, 2.425, 2.275, 3.65}, 1e-15);
  check_close(scores / std::sqrt(3.0), {1.04644736, 0.65673593, 1.4000744, 0.65673593, 1.21965244, 1.31347186,
                                        1.4000744, 1.31347186, 2.10732848});
  const AttentionResult result = scaled_dot_product_attention(q, k, v);
  check_close(result.weights, {0.32242711, 0.21836449, 0.4592084, 0.21348029, 0.37482567, 0.41169404, 0.25345618,
                               0.23242983, 0.51411399});
  check_close(result.output, {1.38695523, 1.27970424, 0.39145543, 1.40063353, 1.16919751, 0.39114344, 1.42960874,
                              1.290482, 0.40740516});
}

TEST_CASE("documents: S3-3: gradients of \"The cat sat\", derived analytically and by differences") {
  CatSat in;
  const std::vector<Tensor> leaves = {in.x.requires_grad_(), in.w_q.requires_grad_(), in.w_k.requires_grad_(),
                                      in.w_v.requires_grad_()};
  const TensorFunction energy = [](const std::vector<Tensor>& t) {
    const Tensor out = scaled_dot_product_attention(matmul(t[0], t[1]), matmul(t[0], t[2]), matmul(t[0], t[3])).output;
    return 0.5 * sum(out * out);
  };
  const Tensor loss = energy(leaves);
  CHECK(std::abs(loss.item() - 5.535709652782) <= 1e-12);
  loss.backward();
  const double tolerance = 0.6e-10;
  check_close(in.x.grad(),
              {1.4256007702, 1.4204579376, 1.3578626150, 1.4428714874, 1.2228314385, 1.1574747017, 3.7909402810,
               4.1064134083, 3.9963646607},
              tolerance);
  check_close(in.w_q.grad(),
              {0.2598430539, 0.1309508139, 0.1953969339, 0.3070573948, 0.0891516161, 0.1981045054, 0.1380318718,
               0.0557226109, 0.0968772414},
              tolerance);
  check_close(in.w_k.grad(),
              {0.2598430539, 0.4450892666, 0.3524661603, 0.2241930276, 0.2705473624, 0.2473701950, -0.0932422137,
               -0.1256731354, -0.1094576745},
              tolerance);
  check_close(in.w_v.grad(),
              {3.0570585998, 2.7217500261, 0.8632203511, 3.1086547144, 2.7500911542, 0.8770274219, 1.2920162243,
               1.1464279019, 0.3645721593},
              tolerance);
  CHECK(gradcheck(energy, leaves));
}

TEST_CASE("documents: S3-4, S3-5, S3-6: the causal example, and what each mask means to each function") {
  const Tensor x = sentence();
  const Tensor added = triu(full({3, 3}, kNever, DType::f64), 1);
  const Tensor kept = not_equal(tril(ones({3, 3})), zeros({}));
  const Tensor blocked = not_equal(triu(ones({3, 3}), 1), zeros({}));
  check_close(
      matmul(x, x, {.transpose_b = true}) / std::sqrt(3.0) + tril(zeros({3, 3}, DType::f64)),
      {1.15470054, 0.57735027, 0.57735027, 0.57735027, 1.15470054, 0.57735027, 0.57735027, 0.57735027, 1.15470054});
  for (const Mask& mask : {Mask::add(added), Mask::keep(kept), Mask::block(blocked), Mask::causal()}) {
    const AttentionResult result = scaled_dot_product_attention(x, x, x, {.mask = mask});
    check_close(result.weights, kCausalWeights);
    check_close(result.output, {1, 0, 1, 0.35954252, 0.64045748, 1, 0.73554154, 0.73554154, 0.52891692});
  }

  // The documents' functions differ in what a mask's numbers mean. Here each reads each other's mask as its own; the
  // leak is the largest weight on a key of the future. A typed mask takes part in none of it.
  const auto leak = [&](const Mask& mask) {
    const Tensor weights = scaled_dot_product_attention(x, x, x, {.mask = mask}).weights;
    return max(weights * to(blocked, DType::f64)).item();
  };
  const auto as_scores = [](const Tensor& mask) { return Mask::add(to(mask, DType::f64)); };
  const auto truth = [](const Tensor& mask) { return not_equal(mask, zeros({}, DType::f64)); };
  CHECK(leak(Mask::keep(kept)) == 0);
  CHECK(leak(Mask::keep(truth(added))) == 1);                             // -inf is true: inverted
  CHECK(leak(Mask::keep(blocked)) == 1);                                  // inverted
  CHECK(leak(as_scores(kept)) == doctest::Approx(0.146).epsilon(0.004));  // added ones: hardly a mask at all
  CHECK(leak(Mask::add(added)) == 0);
  CHECK(leak(as_scores(blocked)) == doctest::Approx(0.494).epsilon(0.001));  // prefers the future
  CHECK(leak(Mask::block(kept)) == 1);                                       // inverted
  CHECK(leak(Mask::block(truth(added))) == 0);                               // right by accident
  CHECK(leak(Mask::block(blocked)) == 0);
}

TEST_CASE("documents: S4-2, S4-3, S4-4: the tutorial's two examples") {
  {
    NumpyRandom random(42);
    const Tensor q = random.rand({1, 2}), k = random.rand({3, 2}), v = random.rand({3, 4});
    check_close(q, {0.37454012, 0.95071431});
    const AttentionResult result = scaled_dot_product_attention(q, k, v);
    CHECK(result.weights.shape() == Shape{1, 3});
    check_close(result.weights, {0.37894411, 0.24159524, 0.37946065});
    check_close(result.output, {0.54435113, 0.51874447, 0.21563456, 0.52236128});
  }
  NumpyRandom random(123);
  const Tensor q = random.rand({2, 2, 4}), k = random.rand({2, 3, 4}), v = random.rand({2, 3, 5});
  check_close(slice(select(select(q, 0, 0), 0, 0), 0, {.stop = 2}), {0.69646919, 0.28613933});
  check_close(slice(select(select(k, 0, 0), 0, 0), 0, {.stop = 2}), {0.18249173, 0.17545176});
  check_close(slice(select(select(v, 0, 0), 0, 0), 0, {.stop = 2}), {0.62395295, 0.11561840});
  // Batch 0, query 1 may not see key 2; batch 1, query 0 may not see key 0.
  Tensor blocked = zeros({2, 2, 3}, DType::boolean);
  blocked.write<bool>()[5] = true;
  blocked.write<bool>()[6] = true;
  const AttentionResult result = scaled_dot_product_attention(q, k, v, {.mask = Mask::block(blocked)});
  CHECK(result.output.shape() == Shape{2, 2, 5});
  check_close(result.weights, {0.28913924, 0.38932564, 0.32153513, 0.39487531, 0.60512469, 0, 0, 0.44143868, 0.55856132,
                               0.30216993, 0.31689656, 0.38093351});
  CHECK(result.weights.at({0, 1, 2}) == 0);
  CHECK(result.weights.at({1, 0, 0}) == 0);
  check_close(result.output, {0.31670433, 0.48718503, 0.66934839, 0.49744992, 0.59931013, 0.39794034, 0.33795081,
                              0.72167476, 0.47815790, 0.71296171, 0.34193050, 0.68521875, 0.41195919, 0.40631928,
                              0.69159485, 0.33569115, 0.60260524, 0.49671906, 0.55232941, 0.63923774});
}

TEST_CASE("documents: C1, C2, C3: softmax on any axis, shifted, and against a loop") {
  NumpyRandom random(5);
  const Tensor x = random.randn({2, 3, 4});
  for (const int axis : {0, 1, 2, -1, -2, -3}) {
    CAPTURE(axis);
    const Tensor y = softmax(x, axis);
    CHECK(y.shape() == x.shape());
    const Tensor powers = exp(x);
    check_close(y - powers / sum(powers, axis, true), std::vector<double>(24, 0), 1e-15);
    check_close(softmax(x + 1e4, axis) - y, std::vector<double>(24, 0), 1e-11);  // x itself loses digits to the shift
    check_close(sum(y, axis) - 1.0, std::vector<double>(static_cast<std::size_t>(sum(y, axis).numel()), 0), 1e-15);
  }
  const Tensor narrow = softmax(to(x, DType::f32));
  check_close(to(sum(narrow, -1), DType::f64), std::vector<double>(6, 1), 1e-6);
}

TEST_CASE("documents: S2-11: scaling keeps the variance of scores near one") {
  NumpyRandom random(7);
  for (const Index size : {8, 64, 512}) {
    const Tensor q = random.randn({64, size}), k = random.randn({64, size});
    const Tensor scores = matmul(q, k, {.transpose_b = true});
    const double variance = mean(scores * scores).item();
    CHECK(variance == doctest::Approx(static_cast<double>(size)).epsilon(0.15));
    const Tensor scaled = scores / std::sqrt(static_cast<double>(size));
    CHECK(mean(scaled * scaled).item() == doctest::Approx(1).epsilon(0.15));
  }
}
