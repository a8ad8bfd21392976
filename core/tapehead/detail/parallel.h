// SPDX-License-Identifier: MIT
// One pool for the process. Chunks are cut by the caller from shapes alone, so that the thread count never
// changes a result. The caller works too and never waits for a worker that has not started.
#pragma once

#include <algorithm>
#include <type_traits>

#include <tapehead/dtype.h>
#include <tapehead/runtime.h>

namespace tapehead::detail {

using ChunkFunction = void (*)(void* context, Index chunk);

void run_chunks(Index chunks, ChunkFunction function, void* context);

/// Calls fn(chunk) for every chunk in [0, chunks), in any order and on any thread; rethrows the first exception.
template <class F>
void parallel_for(Index chunks, F&& fn) {
  if (chunks <= 1) {
    if (chunks == 1) fn(Index{0});
    return;
  }
  using Function = std::remove_reference_t<F>;
  run_chunks(
      chunks, [](void* context, Index chunk) { (*static_cast<Function*>(context))(chunk); },
      const_cast<void*>(static_cast<const void*>(&fn)));
}

/// Work below this many simple operations on elements is not worth waking a thread (about 20 microseconds).
inline constexpr Index kGrain = 32768;

/// Items per chunk when each item costs `cost` simple operations: at least kGrain of work, at most 64 chunks.
inline Index chunk_size(Index items, Index cost) {
  const Index by_work = std::max<Index>(1, kGrain / std::max<Index>(1, cost));
  const Index size = std::max(by_work, (items + 63) / 64);
  return cost < 16 ? (size + 15) / 16 * 16 : size;  // cheap items are elements: keep vectors whole
}

/// Cuts [0, items) into chunk_size() pieces and calls fn(begin, end) for each.
template <class F>
void parallel_ranges(Index items, Index cost, F&& fn) {
  const Index size = chunk_size(items, cost);
  parallel_for((items + size - 1) / size, [&](Index chunk) { fn(chunk * size, std::min(items, (chunk + 1) * size)); });
}

}  // namespace tapehead::detail
