// SPDX-License-Identifier: MIT
#include "common/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>
#include <tapehead/error.h>

namespace examples {
namespace {

[[noreturn]] void throw_io(const std::string& path, int error) {
  const char* advice = error == ENOSPC   ? "; make room or name a file on another disk"
                       : error == ENOENT ? "; make its folder first or name another file"
                                         : "; name another file";
  throw tapehead::IoError(fmt::format("cannot write {}: {}{}", path, std::strerror(error), advice));
}

// 0, or the errno of what failed. The file is closed either way.
int write_and_close(int file, std::string_view text) {
  int error = 0;
  while (!text.empty() && error == 0) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  // Some file systems report a full disk only here.
  if (::close(file) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace

void write_file(const std::string& path, std::string_view text) {
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) throw_io(path, EISDIR);
  const bool direct = exists && !S_ISREG(status.st_mode);
  const std::string target = direct ? path : fmt::format("{}.{}.part", path, ::getpid());
  const int file = ::open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) throw_io(path, errno);
  int error = write_and_close(file, text);
  if (direct) {
    if (error != 0) throw_io(path, error);
    return;
  }
  if (error == 0 && std::rename(target.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(target.c_str());
    throw_io(path, error);
  }
}

}  // namespace examples
