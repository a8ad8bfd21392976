// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <tapehead/detail/utf8.h>
#include <tapehead/error.h>
#include <tapehead/tokenizer.h>

#include "scratch.h"

using namespace tapehead;
using namespace std::string_literals;

TEST_CASE("UTF-8: every code point there and back, and nothing else") {
  int count = 0;
  for (char32_t value = 0; value < 0x110000; ++value) {
    if (value >= 0xd800 && value < 0xe000) continue;
    const std::string text = detail::utf8(value);
    const detail::CodePoint back = detail::code_point_at(text, 0);
    if (back.value == value && back.bytes == text.size()) ++count;
  }
  CHECK(count == 0x110000 - 0x800);
  for (const std::string bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe2\x82",
                                "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3("}) {
    CHECK(detail::code_point_at(bad, 0).bytes == 0);
  }
}

TEST_CASE("CharTokenizer numbers characters as Python's sorted(set(text)) does") {
  const CharTokenizer tokenizer("hello, wörld!\n€ 😀 ee");
  // Python 3: "".join(sorted(set("hello, wörld!\n€ 😀 ee")))
  CHECK(tokenizer.characters() == "\n !,dehlorwö€😀");
  CHECK(tokenizer.vocab_size() == 14);
  const std::vector<Index> tokens = tokenizer.encode("hö 😀\n");
  CHECK(tokens == std::vector<Index>{6, 11, 1, 13, 0});
  CHECK(tokenizer.decode(tokens) == "hö 😀\n");
  CHECK(tokenizer.token(12) == "€");
  CHECK(tokenizer.encode("").empty());
  CHECK(CharTokenizer(tokenizer.characters()).characters() == tokenizer.characters());
}

TEST_CASE("CharTokenizer names what it does not know, and its place") {
  const CharTokenizer tokenizer("abc");
  CHECK_THROWS_WITH_AS(tokenizer.encode("abéc"),
                       "CharTokenizer.encode: the character \"é\" (U+00E9) at byte 2 is not in the vocabulary of 3 "
                       "characters",
                       ValueError);
  CHECK_THROWS_WITH_AS(tokenizer.encode("a\nb"), doctest::Contains("\"?\" (U+000A) at byte 1"), ValueError);
  CHECK_THROWS_WITH_AS(tokenizer.encode("ab\xff"), doctest::Contains("byte 2 is 0xff"), FormatError);
  CHECK_THROWS_WITH_AS(tokenizer.decode(std::vector<Index>{0, 3}),
                       "CharTokenizer.decode: token 3 at place 1 is outside the vocabulary of 3", IndexError);
  CHECK_THROWS_AS(tokenizer.decode(std::vector<Index>{-1}), IndexError);
  CHECK_THROWS_AS(tokenizer.token(3), IndexError);
  CHECK_THROWS_WITH_AS(CharTokenizer(""), "CharTokenizer: the text is empty", FormatError);
  CHECK_THROWS_WITH_AS(CharTokenizer("ab\0c"s), doctest::Contains("byte 2 is 0x00"), FormatError);
  CHECK_THROWS_WITH_AS(CharTokenizer("ab\xe2\x82"), doctest::Contains("byte 2 is 0xe2"), FormatError);
}

TEST_CASE("CharTokenizer comes back from its file") {
  const Scratch scratch;
  const CharTokenizer tokenizer("wörld\n\"quoted\" \\ \t€");
  tokenizer.save(scratch.path("characters.txt"));
  CHECK(CharTokenizer::load(scratch.path("characters.txt")).characters() == tokenizer.characters());
  CHECK_THROWS_WITH_AS(CharTokenizer::load(scratch.file("unsorted", "ba")), doctest::Contains("is no vocabulary"),
                       FormatError);
  CHECK_THROWS_AS(CharTokenizer::load(scratch.file("twice", "aa")), FormatError);
  CHECK_THROWS_AS(CharTokenizer::load(scratch.file("empty", "")), FormatError);
  CHECK_THROWS_AS(CharTokenizer::load(scratch.file("binary", "a\xff")), FormatError);
  CHECK_THROWS_AS(CharTokenizer::load(scratch.path("missing")), IoError);
  CHECK_THROWS_AS(tokenizer.save(scratch.path("no/folder")), IoError);
}
