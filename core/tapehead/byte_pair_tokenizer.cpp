// SPDX-License-Identifier: MIT
#include <algorithm>
#include <queue>
#include <tuple>

#include <fmt/format.h>

#include <tapehead/detail/byte_pair.h>
#include <tapehead/detail/pre_tokenize.h>
#include <tapehead/detail/vocabulary.h>
#include <tapehead/error.h>
#include <tapehead/tokenizer.h>

namespace tapehead {
namespace {

// A place where two neighbours can be merged; the earliest merge and then the leftmost place first.
struct Candidate {
  Index rank, place, left, right, result;
  bool operator<(const Candidate& other) const {  // std::priority_queue's top is the largest
    return std::tie(rank, place) > std::tie(other.rank, other.place);
  }
};

}  // namespace

BytePairTokenizer::BytePairTokenizer(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
  bytes_.fill(-1);
  for (Index number = 0; number < vocab_size(); ++number) {
    const std::string& token = tokens_[static_cast<std::size_t>(number)];
    numbers_.insert({token, number});
    if (token.size() == 1) bytes_[static_cast<unsigned char>(token[0])] = number;
  }
}

bool BytePairTokenizer::add_merge(const Pair& pair) {
  const Index result = numbers_.at(token(pair.left) + token(pair.right));
  const Merge merge{static_cast<Index>(pairs_.size()), result};
  if (!merges_.insert({detail::pair_key(pair.left, pair.right), merge}).second) return false;
  pairs_.push_back(pair);
  return true;
}

// Tokens in a list, so that a merge costs no more in a long piece than in a short one.
std::vector<Index> BytePairTokenizer::merge(std::string_view piece) const {
  const Index size = static_cast<Index>(piece.size());
  std::vector<Index> tokens, next, previous;
  for (Index i = 0; i < size; ++i) {
    tokens.push_back(bytes_[static_cast<unsigned char>(piece[static_cast<std::size_t>(i)])]);
    next.push_back(i + 1);
    previous.push_back(i - 1);
  }
  const auto at = [](auto& list, Index i) -> auto& { return list[static_cast<std::size_t>(i)]; };
  std::priority_queue<Candidate> candidates;
  const auto look_at = [&](Index place) {
    if (place < 0 || at(next, place) >= size) return;
    const Index left = at(tokens, place), right = at(tokens, at(next, place));
    const auto found = merges_.find(detail::pair_key(left, right));
    if (found != merges_.end()) candidates.push({found->second.rank, place, left, right, found->second.result});
  };
  for (Index i = 0; i < size; ++i) look_at(i);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    if (at(tokens, best.place) != best.left) continue;  // merged into something else since
    const Index gone = at(next, best.place);
    if (gone >= size || at(tokens, gone) != best.right) continue;
    at(tokens, best.place) = best.result;
    at(tokens, gone) = -1;
    at(next, best.place) = at(next, gone);
    if (at(next, gone) < size) at(previous, at(next, gone)) = best.place;
    look_at(at(previous, best.place));
    look_at(best.place);
  }
  std::erase(tokens, -1);
  return tokens;
}

std::vector<Index> BytePairTokenizer::encode(std::string_view text) const {
  std::vector<Index> out;
  std::unordered_map<std::string_view, std::vector<Index>> known;  // words come again
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = detail::piece_end(text, at);
    const std::string_view piece = text.substr(at, end - at);
    const auto [entry, fresh] = known.try_emplace(piece);
    if (fresh) entry->second = merge(piece);
    out.insert(out.end(), entry->second.begin(), entry->second.end());
    at = end;
  }
  return out;
}

std::string BytePairTokenizer::decode(std::span<const Index> tokens) const {
  return detail::decode("BytePairTokenizer.decode", tokens_, tokens);
}

const std::string& BytePairTokenizer::token(Index number) const {
  return detail::token_at("BytePairTokenizer.token", tokens_, number);
}

std::optional<Index> BytePairTokenizer::find(std::string_view token) const {
  const auto found = numbers_.find(std::string(token));
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace tapehead
