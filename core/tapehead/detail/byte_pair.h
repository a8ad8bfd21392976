// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include <tapehead/dtype.h>

namespace tapehead::detail {

/// One number for two tokens; its order is that of the pairs.
inline std::uint64_t pair_key(Index left, Index right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint64_t>(right);
}

}  // namespace tapehead::detail
