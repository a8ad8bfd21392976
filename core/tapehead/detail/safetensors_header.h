// SPDX-License-Identifier: MIT
// The JSON at the start of a safetensors file.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <tapehead/dtype.h>

namespace tapehead::detail {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<Index> sizes;
  Index begin = 0, end = 0;  // of its bytes, counted from the header's end
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
};

/// Reads the text; `path` is for messages. Takes memory in proportion to the text, whatever it says. Throws FormatError
/// for everything that is no header by its form; whether it fits the file is for the caller to check.
SafetensorsHeader parse_safetensors_header(const std::string& path, std::string_view text);

}  // namespace tapehead::detail
