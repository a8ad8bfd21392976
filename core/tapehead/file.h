// SPDX-License-Identifier: MIT
// Files that appear whole or not at all.
#pragma once

#include <string>
#include <string_view>

namespace tapehead {

/// Writes the text beside `path`, syncs it to the disk and then gives it that name, as all files of this library are
/// written: a reader finds the old file or the new one, never half of one. A device or a pipe is written to directly.
/// Throws IoError with the path, the reason and what to do: a missing folder, no right to write, a full disk.
void write_file(const std::string& path, std::string_view text);

}  // namespace tapehead
