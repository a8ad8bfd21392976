// SPDX-License-Identifier: MIT
#include "common/text.h"

#include <cmath>

#include <fmt/format.h>

namespace examples {

using tapehead::Index;

std::string with_commas(Index number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t left = digits.size() - i;
    if (left % 3 == 0 && i > 0 && digits[i - 1] != '-') text += ',';
    text += digits[i];
  }
  return text;
}

std::string share(Index part, Index whole) {
  const Index places = part * 10000 / whole;
  return fmt::format("{}.{:04}", places / 10000, places % 10000);
}

std::string clock_time(double seconds) {
  const auto whole = static_cast<Index>(std::ceil(seconds));
  const Index hours = whole / 3600, minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

}  // namespace examples
