// SPDX-License-Identifier: MIT
// Files that appear whole or not at all.
#pragma once

#include <string>
#include <string_view>

namespace examples {

/// Writes the text beside `path` and then gives it that name, so that a reader finds the old file or the new one, never
/// half of one. What is no regular file (a device, a pipe) is written to directly. Throws tapehead::IoError with the
/// path and the reason: a missing folder, no right to write, a full disk.
void write_file(const std::string& path, std::string_view text);

}  // namespace examples
