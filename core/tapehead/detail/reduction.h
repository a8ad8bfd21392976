// SPDX-License-Identifier: MIT
// What a reduction over axes does to a shape.
#pragma once

#include <string>
#include <vector>

#include <tapehead/ops.h>

namespace tapehead::detail {

struct ReductionPlan {
  std::vector<int> axes;  // reduced ones, sorted, from the front
  Shape kept;             // x's shape with reduced axes of size 1
  Shape result;           // what the caller gets
  Index count = 1;        // elements that go into one of the result

  /// "axis 1" or "axes [0, 2]".
  std::string described_axes() const;
};

/// Throws IndexError, also for an axis named twice.
ReductionPlan plan_reduction(const char* op, const Tensor& x, const Axes& axes, bool keepdim);

/// Throws ValueError where a result would come from no element at all.
void check_not_empty(const char* op, const Tensor& x, const ReductionPlan& plan);

}  // namespace tapehead::detail
