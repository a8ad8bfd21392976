// SPDX-License-Identifier: MIT
#include <tapehead/detail/file.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include <tapehead/error.h>

namespace tapehead::detail {
namespace {

// The largest piece that every system reads or writes in one call.
constexpr std::size_t kPiece = std::size_t{1} << 30;

}  // namespace

InputFile::InputFile(const char* op, std::string path)
    : op_(op), path_(std::move(path)), descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  int error = descriptor_ < 0 ? errno : 0;
  struct stat status {};
  if (error == 0 && ::fstat(descriptor_, &status) != 0) error = errno;
  if (error == 0 && S_ISDIR(status.st_mode)) error = EISDIR;
  const bool regular = error == 0 && S_ISREG(status.st_mode);
  if (!regular) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw IoError(
        fmt::format("{}: cannot read {}: {}", op_, path_, error != 0 ? std::strerror(error) : "not a regular file"));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::uint64_t offset, void* into, std::size_t bytes) const {
  auto* at = static_cast<std::byte*>(into);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, at, std::min(bytes, kPiece), static_cast<off_t>(offset));
    if (got == 0) {
      throw FormatError(fmt::format("{}: {} ends at byte {}, {} more were expected", op_, path_, offset, bytes));
    }
    if (got < 0) {
      if (errno == EINTR) continue;
      throw IoError(fmt::format("{}: cannot read {}: {}", op_, path_, std::strerror(errno)));
    }
    at += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

std::string shown(std::string_view text) {
  std::size_t length = std::min<std::size_t>(text.size(), 80);
  while (length > 0 && length < text.size() && (text[length] & '\xc0') == '\x80') --length;  // keep UTF-8 whole
  std::string out(text.substr(0, length));
  std::ranges::replace_if(
      out, [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; }, '?');
  return length < text.size() ? out + "..." : out;
}

std::string read_file(const char* op, const std::string& path) {
  const InputFile file(op, path);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, text.data(), text.size());
  return text;
}

std::shared_ptr<const void> map_file(const InputFile& file) {
  if (file.size() == 0) throw FormatError(fmt::format("{}: {} is empty", file.op(), file.path()));
  const auto bytes = static_cast<std::size_t>(file.size());
  void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (at == MAP_FAILED) {
    throw IoError(fmt::format("{}: cannot map {}: {}", file.op(), file.path(), std::strerror(errno)));
  }
  return {at, [bytes](void* mapped) { ::munmap(mapped, bytes); }};
}

OutputFile::OutputFile(const char* op, const std::string& path) : op_(op), path_(path), target_(path) {
  std::error_code ignored;
  if (std::filesystem::is_symlink(path, ignored)) {
    const auto target = std::filesystem::canonical(path, ignored);
    if (!ignored) target_ = target.string();
  }
  struct stat there {};
  const bool exists = ::stat(target_.c_str(), &there) == 0;
  if (exists && S_ISDIR(there.st_mode)) fail(EISDIR);
  const bool direct = exists && !S_ISREG(there.st_mode);
  if (!direct) part_ = target_ + ".part";
  descriptor_ = ::open((direct ? target_ : part_).c_str(), O_WRONLY | O_CLOEXEC | (direct ? 0 : O_CREAT), 0666);
  if (descriptor_ < 0) fail(errno);
  if (!direct) lock_part();
}

// The lock tells a save that goes on from one that was killed. Whoever holds it renames the file or unlinks it, so that
// a lock on what has another name by now counts as taken.
void OutputFile::lock_part() {
  struct stat opened {};
  struct stat there {};
  const bool locked = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  if (!locked || ::fstat(descriptor_, &opened) != 0 || ::stat(part_.c_str(), &there) != 0 ||
      opened.st_ino != there.st_ino || opened.st_dev != there.st_dev) {
    ::close(descriptor_);
    throw IoError(fmt::format("{}: cannot write {}: somebody else is saving to it", op_, path_));
  }
  if (::ftruncate(descriptor_, 0) != 0) {
    const int error = errno;
    ::unlink(part_.c_str());
    ::close(descriptor_);
    fail(error);
  }
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  if (!part_.empty()) ::unlink(part_.c_str());
  ::close(descriptor_);
}

void OutputFile::write(const void* from, std::size_t bytes) {
  const auto* at = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, at, std::min(bytes, kPiece));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail(errno);
    }
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void OutputFile::commit() {
  if (part_.empty()) return close();
  if (::fsync(descriptor_) != 0) fail(errno);
  if (::rename(part_.c_str(), target_.c_str()) != 0) fail(errno);
  close();
  sync_folder();
}

void OutputFile::close() {
  const int error = ::close(descriptor_) != 0 ? errno : 0;  // some file systems report a full disk only here
  descriptor_ = -1;
  if (error != 0) fail(error);
}

// Without it a power cut may take the new name back. Some file systems cannot do it; the file itself is safe then.
void OutputFile::sync_folder() const {
  const std::size_t slash = target_.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : target_.substr(0, slash + 1);
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  const int error = ::fsync(descriptor) != 0 ? errno : 0;
  ::close(descriptor);
  if (error != 0 && error != EINVAL) fail(error);
}

void OutputFile::fail(int error) const {
  const char* advice = error == ENOSPC   ? "; make room or name a file on another disk"
                       : error == ENOENT ? "; make its folder first or name another file"
                                         : "; name another file";
  throw IoError(fmt::format("{}: cannot write {}: {}{}", op_, path_, std::strerror(error), advice));
}

}  // namespace tapehead::detail
