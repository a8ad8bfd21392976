// SPDX-License-Identifier: MIT
// Between text (UTF-8) and token numbers.
#pragma once

#include <array>
#include <cstdint>
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

/// Byte-level byte-pair encoding, GPT-2's: text is cut into words, spaces and signs, and in each piece the pairs of
/// tokens that training found most often are merged, beginning with bytes, so that every text has tokens (Sennrich et
/// al. 2016, arXiv:1508.07909; Radford et al. 2019, "Language models are unsupervised multitask learners",
/// section 2.2).
class BytePairTokenizer {
 public:
  /// The 256 bytes, and then a token for each pair that is the most frequent one at its time, until there are
  /// `vocab_size` or no pair occurs twice. Of equally frequent ones the pair with the smaller numbers comes first.
  /// Throws ValueError for a vocab_size below 256, FormatError for text that is empty, not UTF-8 or has a zero byte.
  static BytePairTokenizer train(std::string_view text, Index vocab_size);
  /// GPT-2's files (vocab.json and merges.txt). Throws IoError and FormatError with file, line and token.
  static BytePairTokenizer load(const std::string& vocab_path, const std::string& merges_path);
  /// Writes such files, each whole or not at all. Throws IoError.
  void save(const std::string& vocab_path, const std::string& merges_path) const;

  Index vocab_size() const { return static_cast<Index>(tokens_.size()); }
  /// Never fails: what is not UTF-8 is encoded as bytes. Tokens that no merge makes, like GPT-2's "<|endoftext|>", do
  /// not come from text; find() has their numbers.
  std::vector<Index> encode(std::string_view text) const;
  /// The tokens' bytes; they may begin or end inside a character. Throws IndexError naming a token outside the
  /// vocabulary and its place.
  std::string decode(std::span<const Index> tokens) const;
  /// The bytes of one token. Throws IndexError.
  const std::string& token(Index number) const;
  /// The number of the token with these bytes.
  std::optional<Index> find(std::string_view token) const;

 private:
  struct Pair {
    Index left, right;
  };
  struct Merge {
    Index rank, result;
  };
  explicit BytePairTokenizer(std::vector<std::string> tokens);
  bool add_merge(const Pair& pair);
  std::vector<Index> merge(std::string_view piece) const;

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, Index> numbers_;
  std::array<Index, 256> bytes_;
  std::vector<Pair> pairs_;                          // in the order of their merges
  std::unordered_map<std::uint64_t, Merge> merges_;  // by pair
};

}  // namespace tapehead
