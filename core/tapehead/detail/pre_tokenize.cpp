// SPDX-License-Identifier: MIT
#include <tapehead/detail/pre_tokenize.h>

#include <array>
#include <cstdint>

#include <tapehead/detail/utf8.h>

namespace tapehead::detail {
namespace {

enum class Kind { letter, number, space, other };

struct Character {
  Kind kind;
  std::size_t bytes;
};

Character character_at(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) {
    const bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
    const bool space = byte == ' ' || (byte >= 9 && byte <= 13);
    return {letter ? Kind::letter : byte >= '0' && byte <= '9' ? Kind::number : space ? Kind::space : Kind::other, 1};
  }
  const CodePoint point = code_point_at(text, at);
  if (point.bytes == 0) return {Kind::other, 1};
  return {is_letter(point.value)   ? Kind::letter
          : is_number(point.value) ? Kind::number
          : is_space(point.value)  ? Kind::space
                                   : Kind::other,
          point.bytes};
}

// The end of the characters of one kind from `at` on.
std::size_t run_end(std::string_view text, std::size_t at, Kind kind) {
  while (at < text.size()) {
    const Character next = character_at(text, at);
    if (next.kind != kind) break;
    at += next.bytes;
  }
  return at;
}

bool is_printable(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

}  // namespace

std::size_t piece_end(std::string_view text, std::size_t at) {
  if (text[at] == '\'') {
    for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
      if (text.substr(at).starts_with(ending)) return at + ending.size();
    }
  }
  const std::size_t start = text[at] == ' ' && at + 1 < text.size() ? at + 1 : at;
  const Kind kind = character_at(text, start).kind;
  if (kind != Kind::space) return run_end(text, start, kind);
  // Spaces; where something follows, the last of several belongs to it.
  std::size_t end = at, last = at;
  while (end < text.size()) {
    const Character next = character_at(text, end);
    if (next.kind != Kind::space) break;
    last = end;
    end += next.bytes;
  }
  return end < text.size() && last > at ? last : end;
}

char32_t character_of(unsigned char byte) {
  static const std::array<char32_t, 256> table = [] {
    std::array<char32_t, 256> out{};
    char32_t next = 256;
    for (unsigned b = 0; b < 256; ++b) out[b] = is_printable(b) ? b : next++;
    return out;
  }();
  return table[byte];
}

std::optional<std::string> bytes_of(std::string_view characters) {
  static const std::array<std::int16_t, 512> table = [] {
    std::array<std::int16_t, 512> out{};
    out.fill(-1);
    for (int b = 0; b < 256; ++b) out[character_of(static_cast<unsigned char>(b))] = static_cast<std::int16_t>(b);
    return out;
  }();
  std::string out;
  for (std::size_t at = 0; at < characters.size();) {
    const CodePoint next = code_point_at(characters, at);
    if (next.bytes == 0 || next.value >= table.size() || table[next.value] < 0) return {};
    out += static_cast<char>(table[next.value]);
    at += next.bytes;
  }
  return out;
}

}  // namespace tapehead::detail
