// SPDX-License-Identifier: MIT
// How many threads work on one operation. Results do not depend on it: work is cut by shapes alone.
#pragma once

namespace tapehead {

/// Threads that take part in an operation, the caller included. Starts as TAPEHEAD_NUM_THREADS, or else the
/// processors this process may use (affinity mask and container quota).
int num_threads();

/// Throws ValueError below 1. Call it between operations.
void set_num_threads(int threads);

}  // namespace tapehead
