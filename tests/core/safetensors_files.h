// SPDX-License-Identifier: MIT
// Safetensors files, put together by hand.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include <tapehead/safetensors.h>

#include "scratch.h"

namespace safetensors_files {

inline std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + rest;
}

inline std::string file_of(const std::string& header, const std::string& data = "") {
  return with_length(header.size(), header + data);
}

inline std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                         const std::string& at) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + at + "}";
}

inline tapehead::Safetensors load(const std::string& bytes) {
  const Scratch scratch;
  return tapehead::load_safetensors(scratch.file("x.safetensors", bytes));
}

inline const std::string kEight(8, '\x01');
inline const std::string kGood = entry("x", "F32", "[2]", "[0,8]");

}  // namespace safetensors_files
