// SPDX-License-Identifier: MIT
#include <tapehead/dataset.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

#include <tapehead/detail/file.h>
#include <tapehead/detail/kernel.h>
#include <tapehead/detail/utf8.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
TextFile::TextFile(const std::string& path) {
  const detail::InputFile file("TextFile", path);
  mapping_ = detail::map_file(file);
  text_ = {static_cast<const char*>(mapping_.get()), static_cast<std::size_t>(file.size())};
  detail::check_text("TextFile: " + path, text_);
}

TokenData::TokenData(std::vector<Index> tokens) : type_(TokenType::i64), size_(static_cast<Index>(tokens.size())) {
  if (tokens.empty()) throw ValueError("TokenData: the list of tokens is empty");
  const auto owner = std::make_shared<const std::vector<Index>>(std::move(tokens));
  tokens_ = owner->data();
  owner_ = owner;
}

TokenData::TokenData(const std::string& path, TokenType type) : type_(type) {
  const detail::InputFile file("TokenData", path);
  const std::uint64_t bytes = type == TokenType::u16 ? 2 : 8;
  owner_ = detail::map_file(file);
  if (file.size() % bytes != 0) {
    throw FormatError(fmt::format("TokenData: {} has {} bytes, which is no multiple of the {} that a token takes", path,
                                  file.size(), bytes));
  }
  tokens_ = owner_.get();
  size_ = static_cast<Index>(file.size() / bytes);
}

TokenData::TokenData(const TokenData& of, Index begin, Index size)
    : owner_(of.owner_),
      tokens_(static_cast<const std::byte*>(of.tokens_) + begin * (of.type_ == TokenType::u16 ? 2 : 8)),
      type_(of.type_),
      size_(size) {}

Index TokenData::load(Index place) const {
  if (type_ == TokenType::i64) return static_cast<const Index*>(tokens_)[place];
  return static_cast<const std::uint16_t*>(tokens_)[place];
}

Index TokenData::at(Index place) const {
  if (place < 0 || place >= size_) {
    throw IndexError(fmt::format("TokenData.at: place {} is out of range for {} tokens", place, size_));
  }
  return load(place);
}

std::pair<TokenData, TokenData> TokenData::split(double share) const {
  const Index first = share > 0 && share < 1 ? static_cast<Index>(share * static_cast<double>(size_)) : 0;
  if (first < 1 || first >= size_) {
    throw ValueError(
        fmt::format("TokenData.split: a share of {} of {} tokens leaves one side empty; it must lie between 0 and 1",
                    share, size_));
  }
  return {TokenData(*this, 0, first), TokenData(*this, first, size_ - first)};
}

void TokenData::check_window(const char* op, Index batch, Index context) const {
  detail::at_least_one(op, "batch", batch);
  detail::at_least_one(op, "context", context);
  if (context >= size_) {
    throw ValueError(fmt::format("{}: {} tokens are too few for a context of {}, which with its targets takes {}", op,
                                 size_, context, static_cast<std::uint64_t>(context) + 1));
  }
}

TokenBatch TokenData::batch_at(const std::vector<Index>& places, Index context) const {
  const Shape shape{static_cast<Index>(places.size()), context};
  TokenBatch out{empty(shape, DType::i64), empty(shape, DType::i64)};
  Index* inputs = detail::fresh<Index>(out.inputs);
  Index* targets = detail::fresh<Index>(out.targets);
  for (const Index place : places) {
    for (Index i = 0; i < context; ++i) {
      *inputs++ = load(place + i);
      *targets++ = load(place + i + 1);
    }
  }
  return out;
}

TokenBatch TokenData::random_batch(Index batch, Index context, Generator& generator) const {
  check_window("TokenData.random_batch", batch, context);
  std::vector<Index> places(static_cast<std::size_t>(batch));
  for (Index& place : places) place = generator.below(size_ - context);
  return batch_at(places, context);
}

Index TokenData::window_count(Index context) const {
  check_window("TokenData.window_count", 1, context);
  return (size_ - 1) / context;
}

TokenBatch TokenData::windows(Index first, Index batch, Index context) const {
  check_window("TokenData.windows", batch, context);
  const Index count = window_count(context);
  if (first < 0 || first >= count) {
    throw IndexError(
        fmt::format("TokenData.windows: window {} is out of range for {} windows of {}", first, count, context));
  }
  std::vector<Index> places;
  for (Index i = first; i < count && i - first < batch; ++i) places.push_back(i * context);
  return batch_at(places, context);
}

std::vector<Tensor> shuffled_batches(Index size, Index batch, Generator& generator, bool drop_last) {
  detail::at_least_one("shuffled_batches", "size", size);
  detail::at_least_one("shuffled_batches", "batch", batch);
  const Tensor order = randperm(size, generator);
  std::vector<Tensor> out;
  for (Index begin = 0; begin < size; begin += batch) {
    const Index end = begin + std::min(batch, size - begin);
    if (drop_last && end - begin < batch) break;
    out.push_back(slice(order, 0, {.start = begin, .stop = end}));
    if (end == size) break;
  }
  return out;
}

}  // namespace tapehead
