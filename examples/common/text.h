// SPDX-License-Identifier: MIT
// Numbers as people read them.
#pragma once

#include <string>

#include <tapehead/dtype.h>

namespace examples {

/// 1234567 -> "1,234,567".
std::string with_commas(tapehead::Index number);

/// part / whole with four decimals, cut off instead of rounded, so that 1.0000 means every single one.
std::string share(tapehead::Index part, tapehead::Index whole);

/// "0:07", "12:34", "3:05:00"; whole seconds, rounded up.
std::string clock_time(double seconds);

}  // namespace examples
