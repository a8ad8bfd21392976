// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>
#include <queue>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <tapehead/detail/byte_pair.h>
#include <tapehead/detail/pre_tokenize.h>
#include <tapehead/detail/utf8.h>
#include <tapehead/error.h>
#include <tapehead/tokenizer.h>

namespace tapehead {
namespace {

using detail::pair_key;

struct Word {
  std::vector<Index> tokens;
  Index count;
};

// The bytes in the order of the characters that stand for them.
std::vector<std::string> single_bytes() {
  std::vector<std::string> out;
  for (int byte = 0; byte < 256; ++byte) out.emplace_back(1, static_cast<char>(byte));
  std::ranges::sort(out, {},
                    [](const std::string& s) { return detail::character_of(static_cast<unsigned char>(s[0])); });
  return out;
}

// How often each pair of neighbours occurs, kept up to date while pairs are merged.
class PairCounts {
 public:
  explicit PairCounts(std::vector<Word> words) : words_(std::move(words)) {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      const std::vector<Index>& tokens = words_[w].tokens;
      for (std::size_t i = 0; i + 1 < tokens.size(); ++i) add(tokens[i], tokens[i + 1], w);
    }
    push_grown();
  }

  /// The most frequent pair that occurs at least twice, the smallest among equals; its count is 0 if there is none.
  std::pair<Index, std::uint64_t> best() {
    while (!queue_.empty()) {
      const auto [count, inverse] = queue_.top();
      const std::uint64_t key = ~inverse;
      const Index now = counts_[key];
      if (count == now) return {count >= 2 ? count : 0, key};
      queue_.pop();
      if (now > 0) queue_.push({now, inverse});
    }
    return {0, 0};
  }

  void merge(Index left, Index right, Index result) {
    const std::set<std::size_t> places = std::exchange(places_[pair_key(left, right)], {});
    for (const std::size_t w : places) merge_in(w, left, right, result);
    counts_[pair_key(left, right)] = 0;
    push_grown();
  }

 private:
  void add(Index left, Index right, std::size_t word) {
    const std::uint64_t key = pair_key(left, right);
    counts_[key] += words_[word].count;
    places_[key].insert(word);
    grown_.insert(key);
  }

  void merge_in(std::size_t w, Index left, Index right, Index result) {
    std::vector<Index>& tokens = words_[w].tokens;
    std::size_t to = 0;
    for (std::size_t from = 0; from < tokens.size(); ++from, ++to) {
      const bool here = tokens[from] == left && from + 1 < tokens.size() && tokens[from + 1] == right;
      if (!here) {
        tokens[to] = tokens[from];
        continue;
      }
      if (to > 0) {
        counts_[pair_key(tokens[to - 1], left)] -= words_[w].count;
        add(tokens[to - 1], result, w);
      }
      if (from + 2 < tokens.size()) {
        counts_[pair_key(right, tokens[from + 2])] -= words_[w].count;
        add(result, tokens[from + 2], w);
      }
      tokens[to] = result;
      ++from;
    }
    tokens.resize(to);
  }

  void push_grown() {
    for (const std::uint64_t key : std::exchange(grown_, {})) queue_.push({counts_[key], ~key});
  }

  std::vector<Word> words_;
  std::unordered_map<std::uint64_t, Index> counts_;
  std::unordered_map<std::uint64_t, std::set<std::size_t>> places_;  // words that have or had the pair
  std::set<std::uint64_t> grown_;
  // Counts when pushed, and the inverted keys, so that the smaller key wins.
  std::priority_queue<std::pair<Index, std::uint64_t>> queue_;
};

}  // namespace

BytePairTokenizer BytePairTokenizer::train(std::string_view text, Index vocab_size) {
  constexpr Index kMost = std::numeric_limits<std::int32_t>::max();
  if (vocab_size < 256 || vocab_size > kMost) {
    throw ValueError(fmt::format(
        "BytePairTokenizer: vocab_size must be at least 256, for the bytes, and at most {}; is {}", kMost, vocab_size));
  }
  detail::check_text("BytePairTokenizer", text);
  BytePairTokenizer out(single_bytes());
  std::unordered_map<std::string_view, Index> pieces;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = detail::piece_end(text, at);
    ++pieces[text.substr(at, end - at)];
    at = end;
  }
  std::vector<Word> words;
  for (const auto& [piece, count] : pieces) {
    words.push_back({out.merge(piece), count});  // bytes: there are no merges yet
  }
  PairCounts counts(std::move(words));
  while (out.vocab_size() < vocab_size) {
    const auto [count, key] = counts.best();
    if (count == 0) break;
    const Pair pair{static_cast<Index>(key >> 32), static_cast<Index>(key & 0xffffffff)};
    const std::string merged = out.token(pair.left) + out.token(pair.right);
    if (out.numbers_.insert({merged, out.vocab_size()}).second) out.tokens_.push_back(merged);
    out.add_merge(pair);
    counts.merge(pair.left, pair.right, out.numbers_.at(merged));
  }
  return out;
}

}  // namespace tapehead
