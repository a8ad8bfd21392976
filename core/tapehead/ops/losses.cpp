// SPDX-License-Identifier: MIT
// Losses between two tensors of one shape, put together from recorded operations.
#include <limits>

#include <fmt/format.h>

#include <tapehead/detail/kernel.h>
#include <tapehead/error.h>
#include <tapehead/losses.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

void check_pair(const char* op, const Tensor& input, const Tensor& target) {
  detail::check_floating(op, "input", input);
  detail::check_same_dtype(op, input, target);
  if (input.shape() != target.shape()) {
    throw ShapeError(fmt::format("{}: input {} and target {} must have one shape", op, to_string(input.shape()),
                                 to_string(target.shape())));
  }
}

Tensor reduced(const char* op, const Tensor& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::none: return losses;
    case Reduction::sum: return sum(losses);
    default: break;
  }
  if (losses.numel() == 0) {
    throw ValueError(
        fmt::format("{}: the mean over input {} has no value; use Reduction::sum or leave such a batch out", op,
                    to_string(losses.shape())));
  }
  return mean(losses);
}

// log(1 + e^x), exact at any distance from 0.
Tensor exact_softplus(const Tensor& x) { return softplus(x, 1, std::numeric_limits<double>::infinity()); }

}  // namespace

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BinaryCrossEntropyOptions& options) {
  constexpr const char* op = "binary_cross_entropy_with_logits";
  check_pair(op, input, target);
  Tensor positive = target;
  if (options.pos_weight.defined()) {
    detail::check_same_dtype(op, input, options.pos_weight);
    if (broadcast(op, input.shape(), options.pos_weight.shape()) != input.shape()) {
      throw ShapeError(fmt::format("{}: pos_weight {} must broadcast to input {}", op,
                                   to_string(options.pos_weight.shape()), to_string(input.shape())));
    }
    positive = target * options.pos_weight;
  }
  return reduced(op, (1.0 - target) * exact_softplus(input) + positive * exact_softplus(-input), options.reduction);
}

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  check_pair("mse_loss", input, target);
  const Tensor difference = input - target;
  return reduced("mse_loss", difference * difference, reduction);
}

Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  check_pair("l1_loss", input, target);
  return reduced("l1_loss", abs(input - target), reduction);
}

Tensor huber_loss(const Tensor& input, const Tensor& target, double delta, Reduction reduction) {
  check_pair("huber_loss", input, target);
  if (!(delta > 0)) throw ValueError(fmt::format("huber_loss: delta {} must be above 0", delta));
  const Tensor difference = input - target;
  const Tensor limited = clamp(difference, -delta, delta);
  // d^2 / 2 where the limited difference is d itself, delta (|d| - delta / 2) where it is +-delta
  return reduced("huber_loss", limited * (difference - limited * 0.5), reduction);
}

Tensor kl_div(const Tensor& input, const Tensor& target, KlReduction reduction) {
  check_pair("kl_div", input, target);
  if (reduction == KlReduction::batchmean && input.rank() == 0) {
    throw ShapeError("kl_div: input [] has no first axis to divide by; use another KlReduction than batchmean");
  }
  const Tensor zero = zeros({}, input.dtype());
  // Where target is 0 nothing counts, not even an input of -inf, neither forward nor backward.
  const Tensor counts = not_equal(target, zero);
  const Tensor p = where(counts, target, ones({}, input.dtype()));
  const Tensor losses = where(counts, p * (log(p) - where(counts, input, zero)), zero);
  switch (reduction) {
    case KlReduction::none: return losses;
    case KlReduction::sum: return sum(losses);
    case KlReduction::batchmean:
      if (input.shape()[0] != 0) return sum(losses) / static_cast<double>(input.shape()[0]);
      break;
    default: break;
  }
  return reduced("kl_div", losses, Reduction::mean);
}

}  // namespace tapehead
