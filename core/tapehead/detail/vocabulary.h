// SPDX-License-Identifier: MIT
// What every tokenizer does with a list of tokens.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tapehead/dtype.h>
#include <tapehead/error.h>

namespace tapehead::detail {

inline bool is_token(const std::vector<std::string>& tokens, Index number) {
  return number >= 0 && number < static_cast<Index>(tokens.size());
}

/// Throws IndexError, `op` first, for a number outside the list.
inline const std::string& token_at(const char* op, const std::vector<std::string>& tokens, Index number) {
  if (!is_token(tokens, number)) {
    throw IndexError(fmt::format("{}: token {} is outside the vocabulary of {}", op, number, tokens.size()));
  }
  return tokens[static_cast<std::size_t>(number)];
}

/// The tokens with these numbers, joined. Throws IndexError naming the first that is outside the list, and its place.
inline std::string decode(const char* op, const std::vector<std::string>& tokens, std::span<const Index> numbers) {
  std::string out;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!is_token(tokens, numbers[i])) {
      throw IndexError(
          fmt::format("{}: token {} at place {} is outside the vocabulary of {}", op, numbers[i], i, tokens.size()));
    }
    out += tokens[static_cast<std::size_t>(numbers[i])];
  }
  return out;
}

}  // namespace tapehead::detail
