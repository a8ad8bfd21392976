// SPDX-License-Identifier: MIT
// Files, with errors that name the operation, the path and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tapehead::detail {

/// A regular file, open for reading. Throws IoError.
class InputFile {
 public:
  InputFile(const char* op, std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  const char* op() const { return op_; }
  int descriptor() const { return descriptor_; }
  /// Throws FormatError if the file ends before.
  void read(std::uint64_t offset, void* into, std::size_t bytes) const;

 private:
  const char* op_;
  std::string path_;
  int descriptor_;
  std::uint64_t size_ = 0;
};

/// What the start of damaged text looks like in a message: control characters as "?".
std::string shown(std::string_view text);

/// The whole file.
std::string read_file(const char* op, const std::string& path);

/// The file in memory, read as it is used; it may be closed. Throws IoError; FormatError for an empty file.
std::shared_ptr<const void> map_file(const InputFile& file);

/// A file that appears whole or not at all: written as PATH.part beside it, synced to the disk, and then given the
/// name; whatever fails before that leaves an older file as it was and removes PATH.part. A PATH.part that a killed
/// process left is taken over by the next save. A symbolic link is followed, and what is no file (a device, a pipe) is
/// written to directly. Throws IoError, also while another process or thread is saving to the same path.
class OutputFile {
 public:
  OutputFile(const char* op, const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* from, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  [[noreturn]] void fail(int error) const;
  void lock_part();
  void close();
  void sync_folder() const;

  const char* op_;
  std::string path_;    // as given
  std::string target_;  // links followed
  std::string part_;    // empty where the target is written to directly
  int descriptor_ = -1;
};

}  // namespace tapehead::detail
