// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <tapehead/error.h>
#include <tapehead/file.h>

#include <filesystem>
#include <string>

#include "scratch.h"

using namespace tapehead;
namespace fs = std::filesystem;

namespace {

std::string complaint(const std::string& path) {
  try {
    write_file(path, "text");
  } catch (const IoError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("write_file: writes, replaces, and leaves nothing else behind") {
  const Scratch folder;
  write_file(folder.path("a.svg"), "first");
  CHECK(folder.bytes("a.svg") == "first");
  write_file(folder.path("a.svg"), "second");
  CHECK(folder.bytes("a.svg") == "second");
  CHECK(folder.names() == std::vector<std::string>{"a.svg"});
}

TEST_CASE("write_file: a full disk, a missing folder and a folder are named with the reason") {
  const Scratch folder;
  CHECK(complaint(folder.path("no/a.svg")) == "write_file: cannot write " + folder.path("no/a.svg") +
                                                  ": No such file or directory; make its folder first or name another "
                                                  "file");
  CHECK(complaint(folder.path("")).find("Is a directory") != std::string::npos);
  CHECK(folder.names().empty());
  if (fs::exists("/dev/full")) {
    // By a link, so that a write_file that replaces what it should write to replaces only the link.
    const std::string full = folder.path("full");
    fs::create_symlink("/dev/full", full);
    CHECK(complaint(full) ==
          "write_file: cannot write " + full + ": No space left on device; make room or name a file on another disk");
    CHECK(fs::is_symlink(full));
  }
}
