// SPDX-License-Identifier: MIT
// One pool for the process. The caller works too and never waits for a worker that has not started. Whatever adds up is
// cut by shapes alone, so that the number of threads never changes a result; it may decide how independent items are
// cut.
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

/// Calls fn(begin, end) for pieces that cover [0, items), each item at `cost` simple operations. The number of threads
/// decides where pieces end, so that the bits of an item must not depend on its piece.
template <class F>
void parallel_ranges(Index items, Index cost, F&& fn) {
  const Index work = items * cost, threads = num_threads();
  const Index pieces = threads == 1 || work <= kGrain ? 1 : std::min(4 * threads, work / (kGrain / 4));
  Index size = (items + pieces - 1) / pieces;
  if (cost < 16) size = (size + 15) / 16 * 16;  // cheap items are elements: keep vectors whole
  parallel_for(size == 0 ? 0 : (items + size - 1) / size,
               [&](Index piece) { fn(piece * size, std::min(items, (piece + 1) * size)); });
}

}  // namespace tapehead::detail
