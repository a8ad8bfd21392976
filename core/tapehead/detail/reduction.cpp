// SPDX-License-Identifier: MIT
#include <tapehead/detail/reduction.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tapehead/error.h>

namespace tapehead::detail {

std::string ReductionPlan::described_axes() const {
  return axes.size() == 1 ? fmt::format("axis {}", axes[0]) : fmt::format("axes [{}]", fmt::join(axes, ", "));
}

ReductionPlan plan_reduction(const char* op, const Tensor& x, const Axes& axes, bool keepdim) {
  ReductionPlan p;
  p.axes = normalize_axes(op, axes.values(), x.rank());
  p.kept = x.shape();
  std::vector<Index> sizes;
  std::size_t next = 0;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool reduced = next < p.axes.size() && p.axes[next] == axis;
    if (reduced) {
      ++next;
      p.count *= x.shape()[axis];
      p.kept = p.kept.with(axis, 1);
    }
    if (!reduced || keepdim) sizes.push_back(reduced ? 1 : x.shape()[axis]);
  }
  p.result = Shape(std::span<const Index>(sizes));
  return p;
}

void check_not_empty(const char* op, const Tensor& x, const ReductionPlan& plan) {
  if (plan.count == 0) {
    throw ValueError(fmt::format("{}: x {} has no elements along {}", op, to_string(x.shape()), plan.described_axes()));
  }
}

}  // namespace tapehead::detail
