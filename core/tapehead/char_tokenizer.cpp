// SPDX-License-Identifier: MIT
#include <set>

#include <fmt/format.h>

#include <tapehead/detail/file.h>
#include <tapehead/detail/utf8.h>
#include <tapehead/detail/vocabulary.h>
#include <tapehead/error.h>
#include <tapehead/tokenizer.h>

namespace tapehead {

CharTokenizer::CharTokenizer(std::string_view text) {
  detail::check_text("CharTokenizer", text);
  std::set<char32_t> characters;
  for (std::size_t at = 0; at < text.size();) {
    const detail::CodePoint next = detail::code_point_at(text, at);
    characters.insert(next.value);
    at += next.bytes;
  }
  ascii_.fill(-1);
  for (const char32_t character : characters) {
    if (character < ascii_.size()) {
      ascii_[character] = vocab_size();
    } else {
      others_[character] = vocab_size();
    }
    tokens_.push_back(detail::utf8(character));
  }
}

CharTokenizer CharTokenizer::load(const std::string& path) {
  const std::string text = detail::read_file("CharTokenizer::load", path);
  detail::check_text("CharTokenizer::load: " + path, text);
  CharTokenizer out(text);
  if (out.characters() != text) {
    throw FormatError(
        fmt::format("CharTokenizer::load: {} is no vocabulary: expected each character once, in the order "
                    "of code points, got {} bytes of which that would be {}",
                    path, text.size(), out.characters().size()));
  }
  return out;
}

void CharTokenizer::save(const std::string& path) const {
  detail::OutputFile file("CharTokenizer.save", path);
  file.write(characters());
  file.commit();
}

std::string CharTokenizer::characters() const {
  std::string out;
  for (const std::string& token : tokens_) out += token;
  return out;
}

std::vector<Index> CharTokenizer::encode(std::string_view text) const {
  std::vector<Index> out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const detail::CodePoint next = detail::code_point_at(text, at);
    if (next.bytes == 0) {
      throw FormatError(fmt::format("CharTokenizer.encode: byte {} is 0x{:02x}, which is no part of UTF-8 text", at,
                                    static_cast<unsigned char>(text[at])));
    }
    const auto found = next.value < ascii_.size() ? others_.end() : others_.find(next.value);
    const Index number = next.value < ascii_.size() ? ascii_[next.value] : found == others_.end() ? -1 : found->second;
    if (number < 0) {
      throw ValueError(fmt::format(
          "CharTokenizer.encode: the character \"{}\" (U+{:04X}) at byte {} is not in the "
          "vocabulary of {} characters",
          detail::shown(text.substr(at, next.bytes)), static_cast<std::uint32_t>(next.value), at, vocab_size()));
    }
    out.push_back(number);
    at += next.bytes;
  }
  return out;
}

std::string CharTokenizer::decode(std::span<const Index> tokens) const {
  return detail::decode("CharTokenizer.decode", tokens_, tokens);
}

const std::string& CharTokenizer::token(Index number) const {
  return detail::token_at("CharTokenizer.token", tokens_, number);
}

}  // namespace tapehead
