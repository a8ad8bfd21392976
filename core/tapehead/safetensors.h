// SPDX-License-Identifier: MIT
// Tensors by name in one file: safetensors (https://huggingface.co/docs/safetensors), which Python's libraries read.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <tapehead/named_tensor.h>

namespace tapehead {

struct Safetensors {
  std::vector<NamedTensor> tensors;             ///< in the order of their data
  std::map<std::string, std::string> metadata;  ///< free text by name
};

/// Reads everything. f32, f64, i64 and bool come as they are, f16 and bf16 as f32, other integers as i64. The header is
/// checked before a tensor is made: data must fill the file without holes or overlaps, and nothing in a header makes
/// this take more memory than the file has data (times 8 for bytes that become i64). Throws IoError with the path and
/// the system's reason, and FormatError with the place and the tensor's name for a damaged file, for other element
/// types, more than 8 axes, and a header above 100 MB.
Safetensors load_safetensors(const std::string& path);

/// Writes the file that Python's library writes for these tensors, whole or not at all: beside the old one, synced to
/// the disk, then renamed. Throws IoError (and the old file is as it was), ValueError for a name that comes twice or is
/// "__metadata__", and for text that is not UTF-8, StateError for an empty tensor.
void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace tapehead
