// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <tapehead/detail/pre_tokenize.h>
#include <tapehead/error.h>
#include <tapehead/tokenizer.h>

#include "scratch.h"

using namespace tapehead;
using namespace std::string_literals;

namespace {

const std::string kText =
    "The tape remembers what the head has read. It's there, they're there; we'll see 12 tapes, 120 heads and 2012 "
    "others.\n\n  Ein Band merkt sich, was der Kopf gelesen hat: größer, schöner, schöner!\tЛента помнит, лента "
    "помнит. "
    "磁带记得,磁带记得。 aaaaaaaa bbbb 😀😀\n";
const std::string kSentence = "  The tape's heads, they'll read größer tapes\n\n 2012 лента 磁带 aaaaaaa 😀!";

std::vector<std::string> pieces(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = detail::piece_end(text, at);
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

using Pieces = std::vector<std::string>;

// Files with the 256 bytes and what a test adds to them.
struct Files {
  Scratch scratch;
  std::string vocab = scratch.path("vocab.json"), merges = scratch.path("merges.txt");
  Files() { BytePairTokenizer::train("ab", 256).save(vocab, merges); }
  std::string bytes() const { return scratch.bytes("vocab.json"); }
  void write_vocab(const std::string& text) const { scratch.file("vocab.json", text); }
  void write_merges(const std::string& text) const { scratch.file("merges.txt", text); }
  BytePairTokenizer load() const { return BytePairTokenizer::load(vocab, merges); }
  std::string error() const {
    try {
      load();
    } catch (const FormatError& error) {
      return error.what();
    }
    return "nothing was thrown";
  }
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

// The cuts that the pattern makes with Python's regex module.
TEST_CASE("text is cut into GPT-2's pieces") {
  CHECK(pieces("Hello world's 12 o'clock") == Pieces{"Hello", " world", "'s", " 12", " o", "'", "clock"});
  CHECK(pieces("they'll we've I'm he'd can't you're 's 'S") == Pieces{"they", "'ll", " we", "'ve", " I", "'m", " he",
                                                                      "'d", " can", "'t", " you", "'re", " '", "s",
                                                                      " '", "S"});
  CHECK(pieces("a  b   c\n\nd \n e") == Pieces{"a", " ", " b", "  ", " c", "\n", "\n", "d", " \n", " e"});
  CHECK(pieces("x  ") == Pieces{"x", "  "});
  CHECK(pieces(" ") == Pieces{" "});
  CHECK(pieces("\t\tx") == Pieces{"\t", "\t", "x"});
  CHECK(pieces("...!? --a1b22") == Pieces{"...!?", " --", "a", "1", "b", "22"});
  CHECK(pieces("größe Лента 磁带。٣½ x²") == Pieces{"größe", " Лента", " 磁带", "。", "٣½", " x", "²"});
  CHECK(pieces("a\u00a0\u3000b") == Pieces{"a", "\u00a0", "\u3000", "b"});
  CHECK(pieces("a\xff\xfe b") == Pieces{"a", "\xff\xfe", " b"});
  CHECK(pieces("").empty());
}

// Merges and numbers printed by the tokenizers library 0.23.3: BPE, ByteLevel(add_prefix_space=False), min_frequency 2.
TEST_CASE("training and encoding agree with an independent implementation") {
  const BytePairTokenizer tokenizer = BytePairTokenizer::train(kText, 300);
  CHECK(tokenizer.vocab_size() == 300);
  const Scratch scratch;
  tokenizer.save(scratch.path("vocab.json"), scratch.path("merges.txt"));
  CHECK(scratch.bytes("merges.txt") ==
        "#version: 0.2\ne r\na a\nĠ t\nh e\nÐ ½\nÑ Ĥ\nĠ s\n1 2\na d\nb b\nc h\nh a\nh er\nr e\nÃ ¶\nĠ w\nĠ Ð\naa aa\na "
        "n\n"
        "a p\ne s\nn er\n£ ģ\n¦ è\n® °\nµ Ð½\n¸ ÑĤ\n¸ ¦è\n¼ Ð½\n¾ Ð\n¾ Ĺ\n¿ Ð\nÐ °\nÐ µÐ½\nÐ ¸ÑĤ\nå ¸¦è\nå ¾Ĺ\nç £ģ\nð "
        "Ł\n"
        "Ġ g\nĠ he\nĠ 12\nĠ ha\nĠ re\n");
  const std::vector<Index> tokens = {220, 220, 51,  259, 258, 275, 68,  6,   82,  296, 264, 82,  11,  258,
                                     259, 88,  6,   75,  75,  299, 264, 295, 81,  270, 127, 253, 256, 258,
                                     275, 276, 198, 198, 220, 17,  15,  263, 272, 119, 289, 261, 288, 220,
                                     293, 161, 116, 99,  220, 273, 257, 64,  220, 294, 246, 222, 0};
  CHECK(tokenizer.encode(kSentence) == tokens);
  CHECK(tokenizer.decode(tokens) == kSentence);
  CHECK(tokenizer.token(258) == " t");
  CHECK(tokenizer.find(" t") == 258);
  CHECK_FALSE(tokenizer.find("no such token").has_value());
  const BytePairTokenizer loaded = BytePairTokenizer::load(scratch.path("vocab.json"), scratch.path("merges.txt"));
  CHECK(loaded.encode(kSentence) == tokens);
  loaded.save(scratch.path("vocab2.json"), scratch.path("merges2.txt"));
  CHECK(scratch.bytes("vocab2.json") == scratch.bytes("vocab.json"));
  CHECK(scratch.bytes("merges2.txt") == scratch.bytes("merges.txt"));
}

TEST_CASE("every text comes back, whatever its bytes") {
  const BytePairTokenizer tokenizer = BytePairTokenizer::train(kText, 280);
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  for (const std::string& text : {bytes, std::string(), "\xf0\x9f\x98"s, std::string(3, '\0'), kText}) {
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  }
  const std::string long_word(300'000, 'a');  // its pairs are merged in the time that many short words take
  CHECK(tokenizer.encode(long_word).size() == 75'000);
  CHECK(tokenizer.token(0) == "!");
  CHECK(tokenizer.token(188) == "\0"s);
}

TEST_CASE("training ends where no pair occurs twice") {
  CHECK(BytePairTokenizer::train("abcd", 300).vocab_size() == 256);
  CHECK(BytePairTokenizer::train("ab ab", 300).vocab_size() == 257);
  CHECK_THROWS_WITH_AS(BytePairTokenizer::train("ab", 255), doctest::Contains("at least 256, for the bytes"),
                       ValueError);
  CHECK_THROWS_AS(BytePairTokenizer::train("ab", Index{1} << 40), ValueError);
  CHECK_THROWS_AS(BytePairTokenizer::train("", 300), FormatError);
  CHECK_THROWS_WITH_AS(BytePairTokenizer::train("ab\xff", 300), doctest::Contains("byte 2 is 0xff"), FormatError);
  CHECK_THROWS_AS(BytePairTokenizer::train("a\0b"s, 300), FormatError);
}

TEST_CASE("tokens outside the vocabulary are named") {
  const BytePairTokenizer tokenizer = BytePairTokenizer::train("ab ab", 257);
  CHECK_THROWS_WITH_AS(tokenizer.decode(std::vector<Index>{1, 257}),
                       "BytePairTokenizer.decode: token 257 at place 1 is outside the vocabulary of 257", IndexError);
  CHECK_THROWS_AS(tokenizer.decode(std::vector<Index>{-1}), IndexError);
  CHECK_THROWS_AS(tokenizer.token(257), IndexError);
}

TEST_CASE("files with special tokens and other line ends are read") {
  const Files files;
  std::string vocab = files.bytes();
  vocab.pop_back();
  files.write_vocab(vocab + ", \"ab\": 256, \"<|endoftext|>\": 257}");
  files.write_merges("#version: 0.2\r\na b\r\n\n");
  const BytePairTokenizer tokenizer = files.load();
  CHECK(tokenizer.vocab_size() == 258);
  CHECK(tokenizer.find("<|endoftext|>") == 257);
  CHECK(tokenizer.decode(std::vector<Index>{256, 257}) == "ab<|endoftext|>");
  const std::vector<Index> tokens = tokenizer.encode("ab<|endoftext|>");
  CHECK(tokens.size() == 14);  // text makes no special tokens
  CHECK(tokens[0] == 256);
}

TEST_CASE("damaged vocabularies are refused with the token or the place") {
  const Files files;
  const std::string sound = files.bytes(), open = sound.substr(0, sound.size() - 1);
  const auto error_of = [&](const std::string& vocab) {
    files.write_vocab(vocab);
    return files.error();
  };
  CHECK(contains(error_of(""), "vocab.json: the text is empty"));
  CHECK(contains(error_of("\xff"), "byte 0 is 0xff"));
  CHECK(contains(error_of("[]"), "expected an object with the number of each token, got a list"));
  CHECK(contains(error_of("7"), "expected an object"));
  CHECK(contains(error_of(sound + "x"), "not JSON at byte"));
  CHECK(contains(error_of(open), "not JSON at byte"));
  CHECK(contains(error_of(open + ", \"ab\": -1}"), "expected a number for the token \"ab\", got -1"));
  CHECK(contains(error_of(open + ", \"ab\": 1.5}"), "got 1.5"));
  CHECK(contains(error_of(open + ", \"ab\": \"1\"}"), "got \"1\""));
  CHECK(contains(error_of(open + ", \"ab\": " + std::string(100'000, '[')), "got a list"));
  CHECK(contains(error_of("{\"a\": " + std::string(100'000, '{')), "got an object"));
  CHECK(contains(error_of(open + ", \"ab\": 257}"),
                 "the token \"ab\" has the number 257; 257 tokens are numbered from 0 to 256"));
  CHECK(contains(error_of(open + ", \"ab\": 0}"), "have one number, 0"));
  CHECK(contains(error_of(open + ", \"a\": 256}"), "the token \"a\" comes twice"));
  CHECK(contains(error_of(open + ", \"a b\": 256}"), "the token \"a b\" is not written in GPT-2's characters"));
  CHECK(contains(error_of(open + ", \"\": 256}"), "is not written in GPT-2's characters"));
  CHECK(contains(error_of("{\"a\": 0}"), "the byte 0x00 has no token"));
  CHECK(contains(error_of("{}"), "has no token"));
}

TEST_CASE("damaged merges are refused with their line") {
  const Files files;
  const std::string vocab = files.bytes();
  files.write_vocab(vocab.substr(0, vocab.size() - 1) + ", \"ab\": 256}");
  const auto error_of = [&](const std::string& merges) {
    files.write_merges(merges);
    return files.error();
  };
  CHECK(error_of("#version: 0.2\na b\n") == "nothing was thrown");
  CHECK(contains(error_of("#version: 0.2\nab\n"), "merges.txt: line 2, \"ab\", is not two tokens"));
  CHECK(contains(error_of("a b c\n"), "line 1, \"a b c\", is not two tokens"));
  CHECK(contains(error_of(" b\n"), "is not two tokens"));
  CHECK(contains(error_of("a \n"), "is not two tokens"));
  CHECK(contains(error_of("a b\nb c\n"), "line 2, \"b c\", takes a token that"));
  CHECK(contains(error_of("a b\na b\n"), "line 2, \"a b\", comes twice"));
  CHECK(contains(error_of("a \xe7\xa3\x81\n"), "is not written in GPT-2's characters"));
  CHECK(contains(error_of("\xff b\n"), "is not written in GPT-2's characters"));
}

TEST_CASE("tokenizer files that the system refuses are named with its reason") {
  const Files files;
  CHECK_THROWS_WITH_AS(BytePairTokenizer::load(files.scratch.path("none"), files.merges),
                       doctest::Contains("none: No such file"), IoError);
  CHECK_THROWS_AS(BytePairTokenizer::load(files.vocab, files.scratch.path("none")), IoError);
  CHECK_THROWS_AS(files.load().save(files.scratch.path("no/vocab"), files.merges), IoError);
  CHECK(files.scratch.names() == std::vector<std::string>{"merges.txt", "vocab.json"});
}
