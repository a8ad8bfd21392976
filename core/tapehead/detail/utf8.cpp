// SPDX-License-Identifier: MIT
#include <tapehead/detail/utf8.h>

#include <fmt/format.h>

#include <tapehead/error.h>

namespace tapehead::detail {

// The Unicode Standard, table 3-7: shortest forms only, no surrogates, nothing above 10FFFF.
CodePoint code_point_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t bytes = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (bytes == 0 || text.size() - at < bytes) return {0, 0};
  char32_t value = first & (0xffu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {0, 0};
    value = value << 6 | (byte(i) & 0x3fu);
  }
  const bool too_long = (bytes == 3 && value < 0x800) || (bytes == 4 && value < 0x10000);
  if (too_long || (value >= 0xd800 && value < 0xe000) || value > 0x10ffff) return {0, 0};
  return {value, bytes};
}

std::string utf8(char32_t value) {
  if (value < 0x80) return {static_cast<char>(value)};
  std::string tail;
  char32_t lead = 0x3f;  // the values that fit the first byte, which loses a bit to each byte that follows
  do {
    tail.insert(tail.begin(), static_cast<char>(0x80 | (value & 0x3f)));
    value >>= 6;
    lead >>= 1;
  } while (value > lead);
  return static_cast<char>((~lead << 1 | value) & 0xff) + tail;
}

void check_text(const std::string& what, std::string_view text) {
  if (text.empty()) throw FormatError(what + ": the text is empty");
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint next = code_point_at(text, at);
    if (next.bytes == 0 || next.value == 0) {
      throw FormatError(fmt::format("{}: byte {} is 0x{:02x}, which is no part of UTF-8 text; is it a binary file?",
                                    what, at, static_cast<unsigned char>(text[at])));
    }
    at += next.bytes;
  }
}

}  // namespace tapehead::detail
