// SPDX-License-Identifier: MIT
// How GPT-2 cuts text before pairs are merged, and how it writes bytes as characters.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tapehead::detail {

/// The end of the piece that begins at `at`, by GPT-2's pattern (openai/gpt-2, src/encoder.py):
///
///     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///
/// A byte that is no part of UTF-8 counts as a character that is neither letter nor number nor space.
std::size_t piece_end(std::string_view text, std::size_t at);

/// The character that stands for a byte in GPT-2's files: printable bytes of Latin-1 themselves, the other 68 those
/// from U+0100 on, in order.
char32_t character_of(unsigned char byte);
/// The bytes that such characters stand for; nothing if one stands for none.
std::optional<std::string> bytes_of(std::string_view characters);

}  // namespace tapehead::detail
