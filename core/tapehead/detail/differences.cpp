// SPDX-License-Identifier: MIT
#include <tapehead/detail/differences.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include <tapehead/detail/kernel.h>
#include <tapehead/error.h>

namespace tapehead::detail {
namespace {

constexpr double kRefinement = 8;  // each step size is this much smaller than the one before
constexpr int kRefinements = 6;
constexpr int kKinkScale = 3;        // the refinement at which slopes left and right are told apart: 2e-6 by default
constexpr double kKinkFactor = 100;  // slopes that differ by this many tolerances are different slopes

double change(double from, double to) { return from == to ? 0 : to - from; }  // also for infinities

std::vector<Index> place(Index flat, const Shape& shape) {
  std::vector<Index> out(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    out[static_cast<std::size_t>(axis)] = flat % shape[axis];
    flat /= shape[axis];
  }
  return out;
}

}  // namespace

Values values_of(const Tensor& x) {
  const double* first = data<double>(x);
  return Values(first, first + x.numel());
}

// Moves a target along one element's axis or along a direction, and puts it back in the end.
class Line {
 public:
  Line(Tensor target, std::size_t element) : target_(std::move(target)), start_(values_of(target_)), element_(element) {
    size_ = std::abs(start_[element]);
  }
  Line(Tensor target, Values direction)
      : target_(std::move(target)), start_(values_of(target_)), direction_(std::move(direction)) {
    for (const double value : start_) size_ += value * value;
    size_ = std::sqrt(size_ / static_cast<double>(start_.size()));
  }
  ~Line() { move(0); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  double size() const { return size_; }
  void move(double distance) {
    double* elements = fresh<double>(target_);
    if (direction_.empty()) {
      elements[element_] = start_[element_] + distance;
    } else {
      for (std::size_t i = 0; i < start_.size(); ++i) elements[i] = start_[i] + distance * direction_[i];
    }
  }

 private:
  Tensor target_;
  Values start_;
  Values direction_;
  std::size_t element_ = 0;
  double size_ = 0;
};

// Differences are taken output by output before they are weighted: outputs that stand still cancel exactly.
struct Stencil {
  double step = 0;
  double derivative = 0;
  double left = 0;  // one-sided slopes of second order
  double right = 0;
  double bend = 0;  // difference of the first-order slopes over one step, and over two
  double wide_bend = 0;
};

Differences::Differences(const char* caller, std::function<Values()> evaluate, const GradcheckOptions& options)
    : caller_(caller), evaluate_(std::move(evaluate)), options_(options), generator_(options.seed) {
  start_ = evaluate_();
  const Values again = evaluate_();
  for (std::size_t i = 0; i < std::min(start_.size(), again.size()); ++i) {
    if (std::memcmp(&start_[i], &again[i], sizeof(double)) != 0) {
      throw StateError(
          fmt::format("{}: the function gives {} and then {} at output element {} for the same inputs; "
                      "take randomness out or seed it in the function",
                      caller_, start_[i], again[i], i));
    }
  }
  check_size(again);
  // A single output keeps its own scale, so that the reported numbers are its derivatives.
  weights_.assign(start_.size(), 1);
  if (weights_.size() > 1) {
    for (double& weight : weights_) weight = uneven();
  }
}

GradcheckRow Differences::check(const NamedTensor& target, const Tensor& gradient) {
  GradcheckRow row;
  row.name = target.name;
  row.shape = target.tensor.shape();
  const Values analytic = values_of(gradient);
  const Index n = target.tensor.numel();
  double worst = -1;
  for (Index i = 0; n > 0 && i < (options_.directions > 0 ? options_.directions : n); ++i) {
    if (options_.directions > 0) {
      const Values direction = random_direction(analytic.size());
      double along = 0;
      for (std::size_t k = 0; k < analytic.size(); ++k) along += direction[k] * analytic[k];
      Line line(target.tensor, direction);
      compare(row, worst, line, along, {i});
    } else {
      Line line(target.tensor, static_cast<std::size_t>(i));
      compare(row, worst, line, analytic[static_cast<std::size_t>(i)], place(i, row.shape));
    }
  }
  row.passed = row.failed == 0;
  return row;
}

// Between a half and one and a half, of either sign.
double Differences::uneven() { return (generator_.uniform() + 0.5) * (generator_.uniform() < 0.5 ? -1 : 1); }

Values Differences::random_direction(std::size_t n) {
  Values direction(n);
  double squares = 0;
  for (double& value : direction) {
    value = uneven();
    squares += value * value;
  }
  for (double& value : direction) value /= std::sqrt(squares);
  return direction;
}

void Differences::check_size(const Values& values) const {
  if (values.size() != start_.size()) {
    throw StateError(
        fmt::format("{}: the function gives {} and then {} output elements", caller_, start_.size(), values.size()));
  }
}

Values Differences::at(Line& line, double distance) const {
  line.move(distance);
  Values values = evaluate_();
  check_size(values);
  return values;
}

Stencil Differences::measure(Line& line, double h) const {
  const Values far_left = at(line, -2 * h);
  const Values near_left = at(line, -h);
  const Values near_right = at(line, h);
  const Values far_right = at(line, 2 * h);
  Stencil out;
  out.step = h;
  for (std::size_t i = 0; i < start_.size(); ++i) {
    const double w = weights_[i] / h;
    const double right = change(start_[i], near_right[i]);
    const double left = change(near_left[i], start_[i]);
    const double wide_right = change(start_[i], far_right[i]);
    const double wide_left = change(far_left[i], start_[i]);
    out.derivative += w * (8 * (right + left) - (wide_right + wide_left)) / 12;
    out.right += w * (4 * right - wide_right) / 2;
    out.left += w * (4 * left - wide_left) / 2;
    out.bend += w * (right - left);
    out.wide_bend += w * (wide_right - wide_left) / 2;
  }
  return out;
}

// A smooth function's bend halves with the step; that of a kink stays.
bool Differences::may_be_kink(const Stencil& stencil) const {
  return std::abs(stencil.bend) > kKinkFactor * tolerance(stencil.derivative) &&
         std::abs(stencil.bend) > 0.75 * std::abs(stencil.wide_bend);
}

bool Differences::is_kink(const Stencil& fine, const Stencil& coarse) const {
  const double gap = std::abs(fine.right - fine.left);
  const double coarse_gap = std::abs(coarse.right - coarse.left);
  const double noise = kKinkFactor * tolerance(std::max(std::abs(fine.left), std::abs(fine.right)));
  return gap > noise && gap > 0.5 * coarse_gap && std::isfinite(fine.left) && std::isfinite(fine.right);
}

// Takes the derivative between the two step sizes that agree best; false if the function has a kink here.
bool Differences::choose(Stencil& chosen, Line& line) const {
  std::vector<Stencil> tried = {chosen};
  double closest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRefinements; ++i) {
    tried.push_back(measure(line, tried.back().step / kRefinement));
    const double moved = std::abs(tried.back().derivative - tried[tried.size() - 2].derivative);
    if (moved < closest) {
      closest = moved;
      chosen = tried.back();
    }
  }
  return !is_kink(tried[kKinkScale], tried[kKinkScale - 1]);
}

void Differences::compare(GradcheckRow& row, double& worst, Line& line, double analytic,
                          const std::vector<Index>& where) const {
  Stencil chosen = measure(line, options_.step * std::max(1.0, line.size()));
  const auto agrees = [&] { return std::abs(analytic - chosen.derivative) <= tolerance(chosen.derivative); };
  if ((!agrees() || may_be_kink(chosen)) && !choose(chosen, line)) {
    ++row.kinks;
    return;
  }
  ++row.checked;
  const double error = std::abs(analytic - chosen.derivative);
  if (!agrees()) ++row.failed;
  const double units = std::isnan(error) ? std::numeric_limits<double>::infinity()
                                         : error / std::max(tolerance(chosen.derivative), 1e-300);
  if (!(units > worst)) return;
  worst = units;
  row.worst_index = where;
  row.analytic = analytic;
  row.numeric = chosen.derivative;
  row.error = error;
}

}  // namespace tapehead::detail
