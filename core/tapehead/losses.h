// SPDX-License-Identifier: MIT
// Losses. Each is averaged, summed, or left as it is; names, options and values are PyTorch's. Inputs are f32 or f64;
// element by element losses take two tensors of one shape: a silent broadcast here hides a bug. They throw ShapeError
// and DTypeError for operands that do not fit, and ValueError for a mean over nothing.
#pragma once

#include <optional>

#include <tapehead/tensor.h>

namespace tapehead {

enum class Reduction { mean, sum, none };

struct NllOptions {
  std::optional<Index> ignore_index = -100;  ///< targets of this value do not count, not even in the mean
  Reduction reduction = Reduction::mean;
  Tensor weight = {};  ///< [classes], not negative, a constant: a loss counts by its target's weight, also in the mean
};
/// -input[target] * weight[target]. input: log-probabilities [..., classes], targets i64 [...]. Sum or mean, which
/// divides by the sum of the targets' weights, -> scalar, none -> [...]. Throws IndexError with value and place for a
/// target outside [0, classes), ValueError for a negative weight, GraphError for one that wants a gradient.
Tensor nll_loss(const Tensor& input, const Tensor& targets, const NllOptions& options = {});

struct CrossEntropyOptions {
  std::optional<Index> ignore_index = -100;  ///< as in NllOptions
  Reduction reduction = Reduction::mean;
  Tensor weight = {};          ///< as in NllOptions
  double label_smoothing = 0;  ///< in [0, 1]: this share of the target is spread evenly over all classes
};
/// nll_loss of log_softmax(logits) without ever storing a probability. logits [..., classes], targets i64 [...].
/// Label smoothing as in Szegedy et al. 2016 (arXiv:1512.00567), where class c of the even share counts by weight[c].
/// Errors as for nll_loss.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {});

struct BinaryCrossEntropyOptions {
  Tensor pos_weight = {};  ///< counts the positive part; broadcasts to the input
  Reduction reduction = Reduction::mean;
};
/// -pos_weight target log(sigmoid(input)) - (1 - target) log(1 - sigmoid(input)), exact for inputs of any size.
/// target: probabilities of the same shape.
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BinaryCrossEntropyOptions& options = {});

/// batchmean, the mathematical definition, divides the sum by the first size; mean divides by the number of elements.
enum class KlReduction { batchmean, mean, sum, none };
/// Kullback and Leibler 1951: target (log(target) - input), 0 where target is 0. input: log-probabilities, target:
/// probabilities of the same shape. The reduction has no default, because PyTorch's, mean, is not the divergence.
Tensor kl_div(const Tensor& input, const Tensor& target, KlReduction reduction);

/// (input - target)^2
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);
/// |input - target|, gradient 0 where both are equal.
Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);
/// Huber 1964: (input - target)^2 / 2 up to a distance of delta, delta (|input - target| - delta / 2) beyond. Throws
/// ValueError unless delta > 0.
Tensor huber_loss(const Tensor& input, const Tensor& target, double delta = 1, Reduction reduction = Reduction::mean);

}  // namespace tapehead
