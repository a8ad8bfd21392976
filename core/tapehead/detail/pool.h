// SPDX-License-Identifier: MIT
// Memory for tensors and tape nodes: 64-byte aligned blocks in size classes, kept for reuse, because the first
// touch of a fresh page costs more than the arithmetic on it.
#pragma once

#include <cstddef>

namespace tapehead::detail {

/// A block of at least `bytes`, 64-byte aligned, not initialised. Throws ValueError when the system has no more.
void* allocate(std::size_t bytes);

/// Takes back a block from allocate(), with the same `bytes`.
void deallocate(void* block, std::size_t bytes) noexcept;

}  // namespace tapehead::detail
