// SPDX-License-Identifier: MIT
// Learning rates over time, as functions of the step, which counts from 0:
//
//     const Schedule rate = warm_up(100, cosine_schedule(1e-3, 1e-4, 1900));  // nanoGPT's for 2,000 steps
//     ...
//     optimizer.set_lr(rate(step));
//
// Any callable is a schedule; these are the common ones. All throw ValueError for numbers without sense, and for a
// negative step when called.
#pragma once

#include <functional>

#include <tapehead/dtype.h>

namespace tapehead {

using Schedule = std::function<double(Index step)>;

Schedule constant_schedule(double lr);
/// From `from` at step 0 in a straight line to `to` at `steps`, where it stays. PyTorch's LinearLR.
Schedule linear_schedule(double from, double to, Index steps);
/// Half a cosine from `from` at step 0 to `to` at `steps`, where it stays. Loshchilov and Hutter 2017
/// (arXiv:1608.03983), equation 5, without restarts.
Schedule cosine_schedule(double from, double to, Index steps);
/// Times `factor` after every `every` steps. PyTorch's StepLR.
Schedule step_schedule(double lr, Index every, double factor = 0.1);
/// factor / sqrt(width) * min(1 / sqrt(n), n / warm_up^1.5) for the n-th step (n = step + 1): rises for `warm_up`
/// steps, then falls with the root. Vaswani et al. 2017 (arXiv:1706.03762), equation 3.
Schedule noam_schedule(Index width, Index warm_up, double factor = 1);

/// Before `then`, `steps` steps that rise in a straight line to its first value: then(0) * (step + 1) / (steps + 1).
/// Step `steps` is then(0).
Schedule warm_up(Index steps, Schedule then);

}  // namespace tapehead
