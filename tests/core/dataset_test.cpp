// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>
#include <numeric>

#include <doctest/doctest.h>

#include <tapehead/dataset.h>
#include <tapehead/error.h>
#include <tapehead/indexing.h>

#include "scratch.h"

using namespace tapehead;
using namespace std::string_literals;

namespace {

TokenData counted(Index n) {
  std::vector<Index> tokens(static_cast<std::size_t>(n));
  std::iota(tokens.begin(), tokens.end(), 0);
  return TokenData(tokens);
}

std::vector<Index> values(const Tensor& x) { return {x.read<Index>().begin(), x.read<Index>().end()}; }

}  // namespace

TEST_CASE("TextFile shows a file's text") {
  const Scratch scratch;
  const TextFile file(scratch.file("x.txt", "héllo\n"));
  CHECK(file.text() == "héllo\n");
  const TextFile copy = file;
  CHECK(copy.text() == file.text());
  CHECK_THROWS_WITH_AS(TextFile(scratch.file("empty", "")), doctest::Contains("empty is empty"), FormatError);
  CHECK_THROWS_WITH_AS(TextFile(scratch.file("binary", "ab\xfe")), doctest::Contains("binary: byte 2 is 0xfe"),
                       FormatError);
  CHECK_THROWS_WITH_AS(TextFile(scratch.file("zero", "a\0b"s)), doctest::Contains("byte 1 is 0x00"), FormatError);
  CHECK_THROWS_WITH_AS(TextFile(scratch.path("missing")), doctest::Contains("No such file"), IoError);
  CHECK_THROWS_WITH_AS(TextFile(scratch.path("")), doctest::Contains("Is a directory"), IoError);
}

TEST_CASE("TokenData reads files of u16 and i64 tokens") {
  const Scratch scratch;
  const TokenData small(scratch.file("train.bin", "\x01\x00\xff\xff\x00\x80"s), TokenType::u16);
  CHECK(small.size() == 3);
  CHECK(small.at(0) == 1);
  CHECK(small.at(1) == 65535);
  CHECK(small.at(2) == 32768);
  const TokenData large(scratch.file("large.bin", "\x07\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0"s), TokenType::i64);
  CHECK(large.size() == 2);
  CHECK(large.at(1) == Index{1} << 32);
  CHECK_THROWS_WITH_AS(TokenData(scratch.file("odd", "abc"), TokenType::u16),
                       doctest::Contains("odd has 3 bytes, which is no multiple of the 2"), FormatError);
  CHECK_THROWS_AS(TokenData(scratch.file("odd8", "abcdefghi"), TokenType::i64), FormatError);
  CHECK_THROWS_WITH_AS(TokenData(scratch.file("none", ""), TokenType::u16), doctest::Contains("is empty"), FormatError);
  CHECK_THROWS_AS(TokenData(scratch.path("missing"), TokenType::u16), IoError);
  CHECK_THROWS_AS(TokenData(std::vector<Index>{}), ValueError);
  CHECK_THROWS_WITH_AS(small.at(3), "TokenData.at: place 3 is out of range for 3 tokens", IndexError);
}

TEST_CASE("TokenData splits by share") {
  const auto [train, validation] = counted(1'115'394).split(0.9);  // tiny shakespeare's sizes
  CHECK(train.size() == 1'003'854);
  CHECK(validation.size() == 111'540);
  CHECK(train.at(train.size() - 1) + 1 == validation.at(0));
  const Scratch scratch;
  const auto [first, second] = TokenData(scratch.file("x", "\x01\0\x02\0\x03\0"s), TokenType::u16).split(0.4);
  CHECK(first.size() == 1);
  CHECK(second.at(1) == 3);
  for (const double share : {0.0, 1.0, -0.5, 0.05, std::nan("")}) {
    CHECK_THROWS_WITH_AS(counted(10).split(share), doctest::Contains("of 10 tokens leaves one side empty"), ValueError);
  }
}

TEST_CASE("random batches are windows at uniform places, with the tokens that follow as targets") {
  const TokenData data = counted(70);
  Generator generator(5), same(5);
  std::vector<int> seen(6);
  for (int i = 0; i < 600; ++i) {
    const TokenBatch batch = data.random_batch(4, 64, generator);
    REQUIRE(batch.inputs.shape() == Shape{4, 64});
    REQUIRE(batch.targets.shape() == Shape{4, 64});
    for (Index row = 0; row < 4; ++row) {
      const auto place = static_cast<Index>(batch.inputs.at({row, 0}));
      ++seen.at(static_cast<std::size_t>(place));
      for (Index j = 0; j < 64; ++j) {
        REQUIRE(batch.inputs.at({row, j}) == static_cast<double>(place + j));
        REQUIRE(batch.targets.at({row, j}) == static_cast<double>(place + j + 1));
      }
    }
    REQUIRE(values(data.random_batch(4, 64, same).inputs) == values(batch.inputs));
  }
  for (const int times : seen) CHECK(std::abs(times - 400) < 5 * std::sqrt(400.0 * 5 / 6));
}

TEST_CASE("windows follow one another over the whole split") {
  const TokenData data = counted(23);
  CHECK(data.window_count(5) == 4);
  CHECK(counted(21).window_count(5) == 4);
  CHECK(counted(20).window_count(5) == 3);
  const TokenBatch first = data.windows(0, 3, 5), last = data.windows(3, 3, 5);
  CHECK(first.inputs.shape() == Shape{3, 5});
  CHECK(last.inputs.shape() == Shape{1, 5});
  CHECK(values(first.inputs) == std::vector<Index>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14});
  CHECK(values(last.inputs) == std::vector<Index>{15, 16, 17, 18, 19});
  CHECK(values(last.targets) == std::vector<Index>{16, 17, 18, 19, 20});
  CHECK_THROWS_WITH_AS(data.windows(4, 1, 5), "TokenData.windows: window 4 is out of range for 4 windows of 5",
                       IndexError);
  CHECK_THROWS_AS(data.windows(-1, 1, 5), IndexError);
}

TEST_CASE("a row of tokens shorter than the context is refused with both numbers") {
  const TokenData data = counted(64);
  CHECK_THROWS_WITH_AS(
      data.random_batch(2, 64),
      "TokenData.random_batch: 64 tokens are too few for a context of 64, which with its targets takes 65", ValueError);
  CHECK(data.random_batch(2, 63).inputs.at({0, 0}) == 0);
  CHECK_THROWS_AS(data.windows(0, 1, 100), ValueError);
  CHECK_THROWS_AS(data.window_count(64), ValueError);
  CHECK_THROWS_AS(data.window_count(std::numeric_limits<Index>::max()), ValueError);
  CHECK_THROWS_WITH_AS(data.random_batch(0, 8), "TokenData.random_batch: batch must be at least 1, is 0", ValueError);
  CHECK_THROWS_AS(data.random_batch(1, 0), ValueError);
}

TEST_CASE("shuffled_batches takes each example once") {
  Generator generator(3);
  const std::vector<Tensor> batches = shuffled_batches(10, 4, generator);
  REQUIRE(batches.size() == 3);
  CHECK(batches[2].shape() == Shape{2});
  std::vector<Index> all;
  for (const Tensor& batch : batches) all.insert(all.end(), batch.read<Index>().begin(), batch.read<Index>().end());
  const std::vector<Index> order = all;
  std::sort(all.begin(), all.end());
  CHECK(all == std::vector<Index>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(order != all);
  CHECK(values(shuffled_batches(10, 4, generator)[0]) != values(batches[0]));
  CHECK(shuffled_batches(10, 4, generator, true).size() == 2);
  CHECK(shuffled_batches(8, 4, generator, true).size() == 2);
  CHECK(shuffled_batches(3, std::numeric_limits<Index>::max(), generator)[0].shape() == Shape{3});
  CHECK(index_select(tensor({10, 11, 12}), 0, shuffled_batches(3, 2, generator)[0]).shape() == Shape{2});
  CHECK_THROWS_AS(shuffled_batches(0, 4), ValueError);
  CHECK_THROWS_AS(shuffled_batches(4, 0), ValueError);
}
