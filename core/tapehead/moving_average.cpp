// SPDX-License-Identifier: MIT
#include <tapehead/moving_average.h>

#include <algorithm>

#include <fmt/format.h>

#include <tapehead/detail/kernel.h>
#include <tapehead/detail/parallel.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/tape.h>

namespace tapehead {

MovingAverage::MovingAverage(const std::vector<NamedTensor>& parameters, double decay)
    : decay_(decay), parameters_(parameters) {
  if (!(decay >= 0 && decay < 1)) throw ValueError(fmt::format("MovingAverage: decay {} must be in [0, 1)", decay));
  if (parameters.empty()) throw ValueError("MovingAverage: the list of parameters is empty");
  const NoGrad no_grad;
  for (const NamedTensor& parameter : parameters_) {
    detail::check_floating("MovingAverage", "parameter", parameter.tensor);
    averages_.push_back({parameter.name, clone(parameter.tensor)});
  }
}

void MovingAverage::check(const char* op) const {
  if (swapped_) throw StateError(fmt::format("{}: the parameters hold their averages at the moment", op));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor &parameter = parameters_[i].tensor, &average = averages_[i].tensor;
    if (parameter.shape() != average.shape() || parameter.dtype() != average.dtype()) {
      throw StateError(fmt::format("{}: \"{}\" was {} {}, is {} {}; make a new average for a changed parameter", op,
                                   parameters_[i].name, to_string(average.shape()), name_of(average.dtype()),
                                   to_string(parameter.shape()), name_of(parameter.dtype())));
    }
  }
}

void MovingAverage::update() {
  check("MovingAverage.update");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    visit_float(parameters_[i].tensor.dtype(), "MovingAverage", [&](auto zero) {
      using T = decltype(zero);
      const T* now = detail::data<T>(parameters_[i].tensor);
      T* average = static_cast<T*>(averages_[i].tensor.mark_written("MovingAverage.update"));
      const T share = static_cast<T>(1 - decay_);
      detail::parallel_ranges(averages_[i].tensor.numel(), 1, [&](Index begin, Index end) {
        for (Index j = begin; j < end; ++j) average[j] += share * (now[j] - average[j]);
      });
    });
  }
}

void MovingAverage::load_averages(const std::vector<NamedTensor>& averages) {
  check("MovingAverage.load_averages");
  write_by_name("MovingAverage.load_averages", averages_, averages);
}

void MovingAverage::swap() noexcept {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto bytes = static_cast<std::size_t>(averages_[i].tensor.numel()) * size_of(averages_[i].tensor.dtype());
    auto* a = static_cast<std::byte*>(parameters_[i].tensor.mark_written("AveragedWeights"));
    auto* b = static_cast<std::byte*>(averages_[i].tensor.mark_written("AveragedWeights"));
    std::swap_ranges(a, a + bytes, b);
  }
  swapped_ = !swapped_;
}

AveragedWeights::AveragedWeights(MovingAverage& average) : average_(average) {
  average.check("AveragedWeights");
  average.swap();
}

AveragedWeights::~AveragedWeights() { average_.swap(); }

}  // namespace tapehead
