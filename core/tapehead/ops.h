// SPDX-License-Identifier: MIT
// Every differentiable operation but attention (attention.h). Operations take tensors of one floating type, f32 or
// f64, unless they say otherwise, and never convert silently: mixed types throw DTypeError. Shapes broadcast as in
// NumPy where noted and throw ShapeError where they do not fit. Results are recorded on the tape when an input wants
// a gradient. They never change their inputs, but may share elements with them: reshape() does, and an operation that
// has nothing to do (sum_to() the same shape, dropout() with p = 0) may return its input as it is.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include <tapehead/losses.h>
#include <tapehead/random.h>
#include <tapehead/tape.h>
#include <tapehead/tensor.h>

namespace tapehead {

// Element by element -------------------------------------------------------------------------------------------------

/// a + b, a - b, a * b, a / b with broadcasting. f32, f64 and i64 (division: floating types only).
Tensor add(const Tensor& a, const Tensor& b);
Tensor subtract(const Tensor& a, const Tensor& b);
Tensor multiply(const Tensor& a, const Tensor& b);
Tensor divide(const Tensor& a, const Tensor& b);
Tensor add(const Tensor& a, double b);
Tensor subtract(double a, const Tensor& b);
Tensor multiply(const Tensor& a, double b);
Tensor divide(const Tensor& a, double b);
Tensor divide(double a, const Tensor& b);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return subtract(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return multiply(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return divide(a, b); }
inline Tensor operator+(const Tensor& a, double b) { return add(a, b); }
inline Tensor operator+(double a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(const Tensor& a, double b) { return add(a, -b); }
inline Tensor operator-(double a, const Tensor& b) { return subtract(a, b); }
inline Tensor operator*(const Tensor& a, double b) { return multiply(a, b); }
inline Tensor operator*(double a, const Tensor& b) { return multiply(b, a); }
inline Tensor operator/(const Tensor& a, double b) { return divide(a, b); }
inline Tensor operator/(double a, const Tensor& b) { return divide(a, b); }

Tensor negate(const Tensor& x);
inline Tensor operator-(const Tensor& x) { return negate(x); }
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);         ///< natural; -inf at 0, NaN below
Tensor log1p(const Tensor& x);       ///< log(1 + x), exact where x is small
Tensor expm1(const Tensor& x);       ///< exp(x) - 1, exact where x is small
Tensor erf(const Tensor& x);         ///< 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x
Tensor sqrt(const Tensor& x);        ///< NaN below 0
Tensor reciprocal(const Tensor& x);  ///< 1 / x
/// x to a constant power; the gradient at 0 is 0 for exponent 0, as it must be.
Tensor pow(const Tensor& x, double exponent);
/// base to the power exponent, with broadcasting.
Tensor pow(const Tensor& base, const Tensor& exponent);
Tensor abs(const Tensor& x);  ///< gradient 0 at 0
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor relu(const Tensor& x);  ///< gradient 0 at 0

/// Hendrycks and Gimpel 2016 (arXiv:1606.08415): x Phi(x), or its approximation with tanh that GPT-2 uses.
enum class Gelu { exact, tanh };
Tensor gelu(const Tensor& x, Gelu form = Gelu::exact);

/// x sigmoid(x), also called swish (arXiv:1606.08415, arXiv:1710.05941); 0 at -inf.
Tensor silu(const Tensor& x);
/// log(1 + exp(beta x)) / beta, and x itself where beta x is above the threshold. Throws ValueError unless beta > 0.
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20);
/// x above 0, negative_slope x elsewhere; the gradient at 0 is negative_slope, as in PyTorch.
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
/// Clevert, Unterthiner and Hochreiter 2015 (arXiv:1511.07289): x above 0, alpha (exp(x) - 1) elsewhere; the gradient
/// at 0 is alpha, as in PyTorch.
Tensor elu(const Tensor& x, double alpha = 1);

/// The larger or smaller of a and b, with broadcasting; a NaN in either wins. Where both are equal each gets half
/// of the gradient.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
/// x limited to [low, high]; the gradient is 1 on the limits and 0 outside. Throws ValueError if low > high.
Tensor clamp(const Tensor& x, double low, double high);
/// a where condition (bool) is true, b elsewhere; all three broadcast. Any dtype of a and b.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

/// Comparisons with broadcasting; the result is bool. f32, f64, i64 and bool operands of one type.
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);

/// The same values in another element type; recorded between f32 and f64. To bool: everything but 0 is true.
Tensor to(const Tensor& x, DType dtype);
/// A copy in memory of its own, recorded like any operation; detach() it for a snapshot.
Tensor clone(const Tensor& x);

// Reductions ---------------------------------------------------------------------------------------------------------

/// Which axes to reduce: none given means all; negative ones count from the end.
class Axes {
 public:
  Axes() = default;
  Axes(int axis) : axes_{axis} {}
  Axes(std::initializer_list<int> axes) : axes_(axes) {}
  explicit Axes(std::vector<int> axes) : axes_(std::move(axes)) {}
  std::span<const int> values() const { return axes_; }

 private:
  std::vector<int> axes_;
};

/// Sum over axes; 0 over nothing. f32, f64, i64. Summed pairwise in an order that depends on the shape alone.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
/// Mean over axes. Throws ValueError over nothing.
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
/// Extremes over axes (also of i64); NaN wins, equal winners share the gradient evenly. Throws ValueError over nothing.
Tensor max(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor min(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
/// Index (i64) of the first largest or smallest element along an axis; a NaN wins. Throws ValueError over nothing.
Tensor argmax(const Tensor& x, int axis = -1, bool keepdim = false);
Tensor argmin(const Tensor& x, int axis = -1, bool keepdim = false);
/// Product over axes; 1 over nothing. f32, f64, i64. Gradients are right beside any number of zeros.
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
/// log(sum(exp(x))) over axes, the maximum taken off first; -inf over nothing and where all elements are -inf, with
/// gradient 0 there.
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, bool keepdim = false);

/// l1: sum(|x|). l2: sqrt(sum(x^2)); f32 is squared and added up in f64.
enum class Norm { l1, l2 };
/// Norm of the vectors along axes; the gradient at 0 is 0. Throws ValueError over nothing.
Tensor norm(const Tensor& x, Norm order = Norm::l2, const Axes& axes = {}, bool keepdim = false);

struct VarianceOptions {
  double correction = 1;  ///< what is taken off the count of elements before it divides
  bool keepdim = false;
};
/// sum((x - mean(x))^2) / (count - correction) over axes: PyTorch's var. Throws ValueError unless count > correction.
Tensor variance(const Tensor& x, const Axes& axes = {}, const VarianceOptions& options = {});
/// Its square root, which others call std; the gradient is 0 where all elements are equal.
Tensor standard_deviation(const Tensor& x, const Axes& axes = {}, const VarianceOptions& options = {});
/// result[i] = x[0] + ... + x[i] along an axis. f32, f64, i64; f32 is added up in f64.
Tensor cumsum(const Tensor& x, int axis = -1);
/// Sums the axes that broadcasting `shape` to x's shape would add or stretch. Throws ShapeError if it would not.
Tensor sum_to(const Tensor& x, const Shape& shape);

// Products -----------------------------------------------------------------------------------------------------------

struct MatmulOptions {
  bool transpose_a = false;  ///< read the last two axes of a the other way round
  bool transpose_b = false;
};
/// [..., m, k] x [..., k, n] -> [..., m, n]; leading axes broadcast. A vector [k] on the left is a row, on the
/// right a column, and its axis is dropped from the result. Throws ShapeError for scalars and unequal k.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options = {});
/// x weight^T + bias. x [..., in], weight [out, in], bias [out] or an empty Tensor -> [..., out]
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/// Einstein's sum: "bij,bjk->bik" names the axes of each operand and of the result by letters; letters that the result
/// lacks are summed over, a letter twice on one operand takes the diagonal. Without "->" the result has the letters
/// that occur once, in alphabetical order. Operands are multiplied from left to right, each pair by one matmul.
/// Throws ValueError for an equation that makes no sense, ShapeError naming letter and sizes where sizes differ.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);

// Shapes (any dtype) -------------------------------------------------------------------------------------------------

/// The same elements under another shape; one size may be -1. Shares storage. Throws ShapeError on another count.
Tensor reshape(const Tensor& x, std::initializer_list<Index> shape);
Tensor reshape(const Tensor& x, const Shape& shape);
/// Axes in a new order: result axis i is x's axis axes[i]. Throws ShapeError or IndexError unless each occurs once.
Tensor permute(const Tensor& x, const std::vector<int>& axes);
/// Two axes swapped.
Tensor transpose(const Tensor& x, int axis_a, int axis_b);
/// An axis of size 1 put in before `axis`, or taken out (ShapeError unless its size is 1).
Tensor unsqueeze(const Tensor& x, int axis);
Tensor squeeze(const Tensor& x, int axis);

/// Python's start:stop:step along one axis. Negative positions count from the end, positions beyond are clipped,
/// a negative step walks backwards. Throws ValueError for step 0.
struct Slice {
  std::optional<Index> start = std::nullopt;
  std::optional<Index> stop = std::nullopt;
  Index step = 1;
};
Tensor slice(const Tensor& x, int axis, const Slice& range);
/// One slice for each of the first axes.
Tensor slice(const Tensor& x, std::initializer_list<Slice> ranges);
/// The part at one index of an axis, without that axis. Throws IndexError.
Tensor select(const Tensor& x, int axis, Index index);
/// Tensors joined along an axis; other sizes must agree. Throws ValueError for an empty list, ShapeError, DTypeError.
Tensor concat(const std::vector<Tensor>& tensors, int axis = 0);
/// Tensors of one shape joined along a new axis.
Tensor stack(const std::vector<Tensor>& tensors, int axis = 0);
/// x repeated along axes of size 1 and new leading axes until it has this shape. Throws ShapeError.
Tensor broadcast_to(const Tensor& x, const Shape& shape);
/// The elements on and below (tril) or above (triu) the given diagonal of the last two axes, 0 elsewhere.
Tensor tril(const Tensor& x, Index diagonal = 0);
Tensor triu(const Tensor& x, Index diagonal = 0);

/// The order of elements along axes (none given means all) turned round.
Tensor flip(const Tensor& x, const Axes& axes = {});
/// Elements moved by `shift` places along an axis; what leaves at one end comes back at the other.
Tensor roll(const Tensor& x, Index shift, int axis = -1);

/// How many elements are put in before and after an axis.
struct Padding {
  Index before = 0;
  Index after = 0;
};
/// x with `value` around it; one padding for each of the last axes, in their order. Throws ShapeError for more
/// paddings than axes, ValueError for a negative one: slice() takes away.
Tensor pad(const Tensor& x, const std::vector<Padding>& paddings, double value = 0);
/// NumPy's tile: copies of x side by side, as many along each of the last axes as `repeats` says; more repeats than
/// axes add axes in front. Throws ValueError for a negative number.
Tensor tile(const Tensor& x, const std::vector<Index>& repeats);
/// Each element along an axis `repeats` times in a row. Throws ValueError for a negative number.
Tensor repeat_interleave(const Tensor& x, Index repeats, int axis = -1);

// Order (any dtype) --------------------------------------------------------------------------------------------------

struct SortResult {
  Tensor values;   ///< recorded; gradients go back to where the values were
  Tensor indices;  ///< i64: where along the axis each value was
};
/// Elements along an axis in order; equal ones stay in theirs, and a NaN counts as largest.
SortResult sort(const Tensor& x, int axis = -1, bool descending = false);
/// The first k of sort(x, axis, largest). Throws ValueError for k outside [0, size].
SortResult topk(const Tensor& x, Index k, int axis = -1, bool largest = true);

// Lookups ------------------------------------------------------------------------------------------------------------

/// Rows of weight by number. weight [count, width], ids i64 [...] -> [..., width]. Throws DTypeError for other ids,
/// IndexError with value, place and limit for an id outside [0, count).
Tensor embedding(const Tensor& weight, const Tensor& ids);
/// result[..., i, ...] = x[..., index[..., i, ...], ...] along axis. index i64, of x's rank, and no longer than x on
/// the other axes. Throws IndexError as embedding does.
Tensor gather(const Tensor& x, int axis, const Tensor& index);
/// ids i64 [...] -> [..., classes] with 1 at the id and 0 elsewhere. Throws IndexError.
Tensor one_hot(const Tensor& ids, Index classes, DType dtype = DType::f32);

// Networks -----------------------------------------------------------------------------------------------------------

/// exp(x) / sum(exp(x)) along an axis, the maximum taken off first. A row of -inf alone, or with +inf, is NaN.
Tensor softmax(const Tensor& x, int axis = -1);
/// log(softmax(x)) without forming the quotient.
Tensor log_softmax(const Tensor& x, int axis = -1);

/// Ba, Kiros and Hinton 2016 (arXiv:1607.06450): (x - mean) / sqrt(variance + eps) * weight + bias over the last
/// axis. x [..., width], weight and bias [width] or empty. Throws ValueError unless eps > 0.
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
/// Zhang and Sennrich 2019 (arXiv:1910.07467): x / sqrt(mean(x^2) + eps) * weight over the last axis. x [..., width],
/// weight [width] or empty; eps: the element type's machine epsilon unless given, as in PyTorch. Throws ValueError
/// unless eps > 0.
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, std::optional<double> eps = {});
/// Each element is 0 with probability p, and else divided by 1 - p. Throws ValueError for p outside [0, 1).
Tensor dropout(const Tensor& x, double p, Generator& generator = default_generator());

namespace detail {
/// a += b for equal shapes and types, off the tape.
void add_in_place(Tensor& a, const Tensor& b);
}  // namespace detail

}  // namespace tapehead
