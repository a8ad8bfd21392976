// SPDX-License-Identifier: MIT
// Unicode text: code points in UTF-8, and the classes of characters that tokenizers tell apart.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tapehead::detail {

struct CodePoint {
  char32_t value;
  std::size_t bytes;  // 0 where the text is not UTF-8
};

/// The code point that begins at `at`, which is inside the text.
CodePoint code_point_at(std::string_view text, std::size_t at);
std::string utf8(char32_t value);

/// Throws FormatError for empty text, a zero byte and what is not UTF-8: "WHAT: byte 17 is 0xff, ...".
void check_text(const std::string& what, std::string_view text);

/// General categories L and N, and White_Space (Unicode 17).
bool is_letter(char32_t value);
bool is_number(char32_t value);
bool is_space(char32_t value);

}  // namespace tapehead::detail
