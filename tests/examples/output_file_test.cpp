// SPDX-License-Identifier: MIT
#include "common/output_file.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>
#include <tapehead/error.h>

using namespace examples;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "tapehead_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  std::size_t entries() const { return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), {})); }
};

std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string complaint(const std::string& path) {
  try {
    write_file(path, "text");
  } catch (const tapehead::IoError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("write_file: writes, replaces, and leaves nothing else behind") {
  const Folder folder;
  const fs::path path = folder.path / "a.svg";
  write_file(path.string(), "first");
  CHECK(content(path) == "first");
  write_file(path.string(), "second");
  CHECK(content(path) == "second");
  CHECK(folder.entries() == 1);
}

TEST_CASE("write_file: a full disk, a missing folder and a folder are named with the reason") {
  const Folder folder;
  CHECK(complaint((folder.path / "no" / "a.svg").string()).find("No such file or directory; make its folder first") !=
        std::string::npos);
  CHECK(complaint(folder.path.string()).find("Is a directory") != std::string::npos);
  CHECK(folder.entries() == 0);
  if (fs::exists("/dev/full")) {
    // By a link, so that a write_file that replaces what it should write to replaces only the link.
    const fs::path full = folder.path / "full";
    fs::create_symlink("/dev/full", full);
    CHECK(complaint(full.string()) ==
          "cannot write " + full.string() + ": No space left on device; make room or name a file on another disk");
    CHECK(fs::is_symlink(full));
  }
}
