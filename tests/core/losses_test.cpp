// SPDX-License-Identifier: MIT
// Figures without another origin were printed by PyTorch 2.15 (torch.nn.functional, float64, repr).
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <tapehead/error.h>
#include <tapehead/losses.h>
#include <tapehead/ops.h>
#include <tapehead/tape.h>

using namespace tapehead;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void check_values(const Tensor& x, const std::vector<double>& expected) {
  REQUIRE(x.numel() == static_cast<Index>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(x.read<double>()[i] - expected[i]) <= 1e-15 * (1 + std::abs(expected[i])));
  }
}

// The value of a scalar loss and its gradient with respect to one leaf.
void check_loss(const Tensor& loss, double value, const Tensor& leaf, const std::vector<double>& gradient) {
  check_values(loss, {value});
  check_values(grad(loss, {leaf})[0], gradient);
}

Tensor logits() {
  return tensor({{0.5, -1.25, 2.0, 0.25}, {1.5, 0.75, -0.5, -2.0}, {0.125, 3.0, -1.0, 1.0}}, DType::f64)
      .requires_grad_();
}
Tensor targets() { return tensor({2, -100, 1}, DType::i64); }
Tensor class_weights() { return tensor({0.5, 2.0, 1.5, 0.25}, DType::f64); }

}  // namespace

TEST_CASE("losses: cross_entropy with label smoothing") {
  const Tensor x = logits();
  check_loss(cross_entropy(x, targets(), {.label_smoothing = 0.1}), 0.4683441046638439, x,
             {0.06520896807868101, 0.0010037938244971574, -0.11423256709452573, 0.048019805191347575, 0, 0, 0, 0,
              0.010811162369721801, -0.04929976023242433, -0.004931973619678703, 0.04342057148238114});
  check_values(cross_entropy(x, targets(), {.reduction = Reduction::sum, .label_smoothing = 0.1}),
               {0.9366882093276878});
  check_values(cross_entropy(x, targets(), {.reduction = Reduction::none, .label_smoothing = 0.1}),
               {0.5241374284208395, 0, 0.4125507809068484});
}

TEST_CASE("losses: cross_entropy with class weights divides the mean by the targets' weights") {
  const Tensor x = logits();
  check_loss(cross_entropy(x, targets(), {.weight = class_weights()}), 0.26394505841284455, x,
             {0.06660768692458371, 0.011574680420997564, -0.13005648608102202, 0.051874118735440775, 0, 0, 0, 0,
              0.0266413284225392, -0.09919972597991349, 0.008649173006081482, 0.06390922455129272});
  check_values(cross_entropy(x, targets(), {.reduction = Reduction::sum, .weight = class_weights()}),
               {0.923807704444956});
  check_values(cross_entropy(x, targets(), {.reduction = Reduction::none, .weight = class_weights()}),
               {0.5424561426312593, 0, 0.3813515618136967});
}

TEST_CASE("losses: cross_entropy with both") {
  const Tensor x = logits();
  check_loss(cross_entropy(x, targets(), {.weight = class_weights(), .label_smoothing = 0.3}), 0.5698829224527628, x,
             {0.050065228604396925, -0.03229524697298258, -0.059747972120361204, 0.04197799048894684, 0, 0, 0, 0,
              0.01218060589883391, -0.03703547879970245, -0.024709974090755867, 0.04956484699162433});
  check_values(
      cross_entropy(x, targets(), {.reduction = Reduction::none, .weight = class_weights(), .label_smoothing = 0.3}),
      {1.0715537301510243, 0, 0.9230364984336457});
}

TEST_CASE("losses: nll_loss") {
  const Tensor x = log_softmax(logits()).detach().requires_grad_();
  check_loss(nll_loss(x, targets(), {.weight = class_weights()}), 0.26394505841284455, x,
             {0, 0, -0.42857142857142855, 0, 0, 0, 0, 0, 0, -0.5714285714285714, 0, 0});
  check_values(nll_loss(x, targets(), {.reduction = Reduction::none, .weight = class_weights()}),
               {0.5424561426312593, 0, 0.3813515618136967});
  check_values(nll_loss(x, targets()), {cross_entropy(logits(), targets()).item()});
}

TEST_CASE("losses: an impossible class of weight 0 does not count") {
  const Tensor x = tensor({{0, -kInfinity}, {0, 0}}, DType::f64).requires_grad_();
  const Tensor y =
      cross_entropy(x, tensor({1, 0}, DType::i64), {.reduction = Reduction::sum, .weight = tensor({1, 0}, DType::f64)});
  check_values(y, {std::log(2.0)});
}

TEST_CASE("losses: binary_cross_entropy_with_logits") {
  const Tensor x = tensor({{0.5, -1.25, 2.0}, {30.0, -30.0, 0.0}}, DType::f64).requires_grad_();
  const Tensor y = tensor({{0.0, 1.0, 0.25}, {1.0, 0.0, 0.5}}, DType::f64);
  const Tensor weight = tensor({0.5, 2.0, 3.0}, DType::f64);
  check_loss(binary_cross_entropy_with_logits(x, y), 0.7993468761880971, x,
             {0.10374322186697577, -0.12954997686244854, 0.10513284632964705, -1.5580129778906365e-14,
              1.559603828139883e-14, 0});
  check_values(binary_cross_entropy_with_logits(x, y, {.reduction = Reduction::none}),
               {0.9740769841801067, 1.501929081345373, 1.6269280110429725, 9.357622968839737e-14, 9.357622968839737e-14,
                0.6931471805599453});
  check_loss(binary_cross_entropy_with_logits(x, y, {.pos_weight = weight}), 1.175770254092557, x,
             {0.10374322186697577, -0.2590999537248971, 0.09519926949447059, -7.790064889453182e-15,
              1.559603828139883e-14, -0.08333333333333333});
  check_values(binary_cross_entropy_with_logits(x, y, {.pos_weight = weight, .reduction = Reduction::none}),
               {0.9740769841801067, 3.003858162690746, 1.6903920165644588, 4.6788114844198684e-14,
                9.357622968839737e-14, 1.3862943611198906});
  // On both sides log(1 + e^-80) to its last digit: e^-80, from a 40-digit calculator.
  const Tensor far = binary_cross_entropy_with_logits(tensor({80, -80}, DType::f64), tensor({1, 0}, DType::f64),
                                                      {.reduction = Reduction::none});
  for (const Index i : {0, 1}) CHECK(far.at({i}) == doctest::Approx(1.8048513878454153e-35).epsilon(1e-15));
}

TEST_CASE("losses: kl_div") {
  const Tensor input = log_softmax(tensor({{0.5, -1.25, 2.0}, {1.5, 0.75, -0.5}}, DType::f64)).detach();
  const Tensor x = clone(input).requires_grad_();
  const Tensor p = tensor({{0.2, 0.5, 0.3}, {0.0, 0.75, 0.25}}, DType::f64).requires_grad_();
  check_loss(kl_div(x, p, KlReduction::batchmean), 1.0514697762974827, x, {-0.1, -0.25, -0.15, 0, -0.375, -0.125});
  // PyTorch has NaN where the target is 0; here nothing counts there.
  check_values(grad(kl_div(x, p, KlReduction::batchmean), {p})[0],
               {0.5615920353339662, 1.8947374012710436, 0.014324589388048273, 0, 0.968561827862267, 1.044255683528212});
  check_values(kl_div(x, p, KlReduction::mean), {0.35048992543249424});
  check_values(kl_div(x, p, KlReduction::sum), {2.1029395525949655});
  check_values(kl_div(x, p, KlReduction::none), {0.024636814133586482, 1.3947374012710436, -0.291405246367171, 0,
                                                 0.7028427417934003, 0.27212784176410604});
  const Tensor never = tensor({-kInfinity, 0}, DType::f64).requires_grad_();
  const Tensor sure = tensor({0, 1}, DType::f64).requires_grad_();
  check_loss(kl_div(never, sure, KlReduction::sum), 0, never, {0, -1});
  check_values(grad(kl_div(never, sure, KlReduction::sum), {sure})[0], {0, 1});
}

TEST_CASE("losses: huber_loss and l1_loss") {
  const Tensor x = tensor({0.5, -1.25, 2.0, 0.25}, DType::f64).requires_grad_();
  const Tensor y = tensor({0.0, 1.0, 1.5, 0.25}, DType::f64);
  check_loss(huber_loss(x, y, 0.75, Reduction::sum), 1.65625, x, {0.5, -0.75, 0.5, 0});
  check_values(huber_loss(x, y, 0.75), {0.4140625});
  check_values(huber_loss(x, y, 0.75, Reduction::none), {0.125, 1.40625, 0.125, 0});
  check_loss(huber_loss(x, y, 1, Reduction::sum), 2, x, {0.5, -1, 0.5, 0});
  check_values(huber_loss(x, y), {0.5});
  check_loss(l1_loss(x, y, Reduction::sum), 3.25, x, {1, -1, 1, 0});
  check_values(l1_loss(x, y), {0.8125});
  check_values(l1_loss(x, y, Reduction::none), {0.5, 2.25, 0.5, 0});
}

TEST_CASE("losses: rms_norm agrees with PyTorch") {
  const Tensor x = tensor({{0.5, -1.25, 2.0}, {1.5, 0.75, -0.5}}, DType::f64).requires_grad_();
  const Tensor weight = tensor({1.0, 0.5, -2.0}, DType::f64).requires_grad_();
  const Tensor upstream = tensor({{1, 2, 3}, {-1, 0.5, 2}}, DType::f64);
  const Tensor bare = rms_norm(x, weight);
  check_values(bare, {0.35921060405354976, -0.44901325506693723, -2.873684832428398, 1.4846149779161806,
                      0.37115374447904514, 0.989743318610787});
  std::vector<Tensor> gradients = grad(sum(bare * upstream), {x, weight});
  check_values(gradients[0], {1.5063670492568213, -1.2514433947672052, -1.1587438840437092, -1.3230242320205419,
                              0.08079537294781935, -3.8478796366398966});
  check_values(gradients[1], {-1.1254043738626307, -1.4248992757887038, 3.32078393003181});
  const Tensor softer = rms_norm(x, weight, 1e-2);
  check_values(softer, {0.3582871819500093, -0.44785897743751163, -2.8662974556000744, 1.4773963858222832,
                        0.3693490964555708, 0.984930923881522});
  gradients = grad(sum(softer * upstream), {x, weight});
  check_values(gradients[0], {1.4984590998628118, -1.238137476006964, -1.1719072395489394, -1.3133739360893861,
                              0.08201122486644843, -3.8302426914568});
  check_values(gradients[1], {-1.1191092038722739, -1.4220868132944757, 3.31451525951859});
}

TEST_CASE("losses: what is wrong is named") {
  const Tensor x = logits();
  CHECK_THROWS_WITH_AS(cross_entropy(x, targets(), {.weight = ones({3}, DType::f64)}),
                       "cross_entropy: weight [3] must be [4], one number for each class", ShapeError);
  CHECK_THROWS_AS(cross_entropy(x, targets(), {.weight = ones({4})}), DTypeError);
  CHECK_THROWS_WITH_AS(nll_loss(x, targets(), {.weight = tensor({1, 1, -0.5, 1}, DType::f64)}),
                       "nll_loss: weight[2] is -0.5; it must not be negative", ValueError);
  CHECK_THROWS_WITH_AS(cross_entropy(x, targets(), {.weight = ones({4}, DType::f64).requires_grad_()}),
                       "cross_entropy: weight wants a gradient; class weights are constants, detach() them",
                       GraphError);
  CHECK_THROWS_WITH_AS(cross_entropy(x, targets(), {.label_smoothing = 1.5}),
                       "cross_entropy: label_smoothing 1.5 must be in [0, 1]", ValueError);
  CHECK_THROWS_WITH_AS(cross_entropy(x, targets(), {.weight = zeros({4}, DType::f64)}),
                       "cross_entropy: none of the 3 targets counts, their mean has no value; use Reduction::sum or "
                       "leave such a batch out",
                       ValueError);
  CHECK_THROWS_WITH_AS(nll_loss(x, tensor({1, 4, 0}, DType::i64)),
                       "nll_loss: target 4 at position 1 of [3] is outside the 4 classes; ignored targets carry "
                       "ignore_index",
                       IndexError);
  CHECK_THROWS_WITH_AS(l1_loss(x, ones({4}, DType::f64)), "l1_loss: input [3, 4] and target [4] must have one shape",
                       ShapeError);
  CHECK_THROWS_WITH_AS(huber_loss(x, x, 0), "huber_loss: delta 0 must be above 0", ValueError);
  CHECK_THROWS_WITH_AS(l1_loss(ones({0, 3}), ones({0, 3})),
                       "l1_loss: the mean over input [0, 3] has no value; use Reduction::sum or leave such a batch out",
                       ValueError);
  CHECK_THROWS_WITH_AS(binary_cross_entropy_with_logits(ones({3}), ones({3}), {.pos_weight = ones({2, 3})}),
                       "binary_cross_entropy_with_logits: pos_weight [2, 3] must broadcast to input [3]", ShapeError);
  CHECK_THROWS_AS(kl_div(ones({}), ones({}), KlReduction::batchmean), ShapeError);
  CHECK_THROWS_AS(kl_div(ones({0, 3}), ones({0, 3}), KlReduction::batchmean), ValueError);
  CHECK_THROWS_WITH_AS(rms_norm(x, ones({3}, DType::f64)),
                       "rms_norm: x [3, 4] and weight [3]; the weight must be [4], the last axis of x", ShapeError);
  CHECK_THROWS_WITH_AS(rms_norm(x, {}, 0), "rms_norm: eps must be above 0, is 0", ValueError);
}
