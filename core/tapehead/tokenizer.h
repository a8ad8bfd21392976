// SPDX-License-Identifier: MIT
// Between text (UTF-8) and token numbers.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <tapehead/dtype.h>

namespace tapehead {

/// One token for each character (code point) of a text, numbered in the order of their code points, as in Python's
/// sorted(set(text)).
class CharTokenizer {
 public:
  /// Throws FormatError for text that is empty, not UTF-8 or holds a zero byte.
  explicit CharTokenizer(std::string_view text);
  /// The vocabulary that save() wrote. Throws IoError and FormatError.
  static CharTokenizer load(const std::string& path);
  /// Writes characters(), whole or not at all. Throws IoError.
  void save(const std::string& path) const;

  Index vocab_size() const { return static_cast<Index>(tokens_.size()); }
  /// All characters in the order of their numbers; CharTokenizer(characters()) has the same vocabulary.
  std::string characters() const;

  /// Throws ValueError naming a character that is not in the vocabulary and its place, FormatError where the text is
  /// not UTF-8.
  std::vector<Index> encode(std::string_view text) const;
  /// Throws IndexError naming a token outside the vocabulary and its place.
  std::string decode(std::span<const Index> tokens) const;
  /// The character of one token. Throws IndexError.
  const std::string& token(Index number) const;

 private:
  std::vector<std::string> tokens_;
  std::array<Index, 128> ascii_;  // numbers, -1 for none
  std::unordered_map<char32_t, Index> others_;
};

}  // namespace tapehead
