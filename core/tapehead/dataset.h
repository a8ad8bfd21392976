// SPDX-License-Identifier: MIT
// Text and tokens in files, and the batches that training takes from them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tapehead/random.h>
#include <tapehead/tensor.h>

namespace tapehead {

/// A text file mapped into memory: only what is read is loaded. The file must not be cut short meanwhile. Throws
/// IoError with the path and the system's reason, and FormatError for a file that is empty, not UTF-8 or has a zero
/// byte.
class TextFile {
 public:
  explicit TextFile(const std::string& path);
  /// Valid as long as this lives.
  std::string_view text() const { return text_; }

 private:
  std::shared_ptr<const void> mapping_;
  std::string_view text_;
};

/// Windows of a row of tokens: targets are the tokens that follow the inputs, both i64 [batch, context].
struct TokenBatch {
  Tensor inputs;
  Tensor targets;
};

/// How a file holds tokens: little-endian, nothing else in it. u16 is what nanoGPT's prepare.py writes.
enum class TokenType { u16, i64 };

/// A long row of tokens, in memory or in a file. Copies share the tokens.
class TokenData {
 public:
  /// Throws ValueError if there are none.
  explicit TokenData(std::vector<Index> tokens);
  /// A file mapped into memory; it must not be cut short meanwhile. Throws IoError with the path and the system's
  /// reason, and FormatError for an empty file and for one that ends inside a token.
  TokenData(const std::string& path, TokenType type);

  Index size() const { return size_; }
  /// Throws IndexError.
  Index at(Index place) const;
  /// The first floor(share * size()) tokens, and the others. Throws ValueError unless both have some.
  std::pair<TokenData, TokenData> split(double share) const;

  /// Windows that begin at random places, each as likely. Throws ValueError for a batch or context below 1, and with
  /// both numbers where there are fewer than context + 1 tokens; so do the others.
  TokenBatch random_batch(Index batch, Index context, Generator& generator = default_generator()) const;
  /// Windows that lie one after the other, for an evaluation on everything but the last tokens that fill no window.
  Index window_count(Index context) const;
  /// Windows [first, first + batch) of them, fewer at the end. Throws IndexError unless first is in
  /// [0, window_count(context)).
  TokenBatch windows(Index first, Index batch, Index context) const;

 private:
  TokenData(const TokenData& of, Index begin, Index size);
  void check_window(const char* op, Index batch, Index context) const;
  TokenBatch batch_at(const std::vector<Index>& places, Index context) const;
  Index load(Index place) const;

  std::shared_ptr<const void> owner_;
  const void* tokens_;
  TokenType type_;
  Index size_;
};

/// One pass over `size` examples in random order: the numbers 0 to size - 1 in batches, each i64 [batch], the last one
/// smaller (or left out if `drop_last`). `index_select(inputs, 0, batch)` fetches the examples. Throws ValueError for
/// sizes below 1.
std::vector<Tensor> shuffled_batches(Index size, Index batch, Generator& generator = default_generator(),
                                     bool drop_last = false);

}  // namespace tapehead
