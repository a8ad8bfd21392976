// SPDX-License-Identifier: MIT
// What the process runs on: threads, kernels, memory.
#pragma once

#include <cstddef>
#include <string>

namespace tapehead {

/// Threads that take part in an operation, the caller included. Starts as TAPEHEAD_NUM_THREADS, or else the
/// processors this process may use (affinity mask and container quota). Results do not depend on it: work is cut by
/// shapes alone.
int num_threads();
/// Throws ValueError below 1. Call it between operations.
void set_num_threads(int threads);

/// The kernel set OpenBLAS runs on, e.g. "SkylakeX", with " (repaired)" where Tapehead had to choose it. The
/// environment variable TAPEHEAD_BLAS_REPAIR=off leaves OpenBLAS's own choice.
std::string blas_core();

/// Bytes in live tensors and tape nodes, rounded up to their size classes.
std::size_t live_bytes();
/// Gives unused blocks (of this thread, and the shared ones) back to the system.
void release_cached_memory();

}  // namespace tapehead
