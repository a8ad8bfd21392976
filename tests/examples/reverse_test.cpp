// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "program.h"

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
  std::string file(const char* name) const { return (path / name).string(); }
};

ProgramResult reverse(const std::string& arguments, const std::string& interrupt_after = "") {
  return run_program("reverse " + arguments, interrupt_after);
}

}  // namespace

TEST_CASE("reverse: learns the task in half of its steps, and says so in its last lines") {
  const Folder folder;
  const ProgramResult result = reverse("--steps 250 --out " + folder.file("map.svg"));
  CAPTURE(result.output);
  CHECK(result.exit_code == 0);
  CHECK(last_lines(result.output, 2) == "test accuracy: 1.0000\nmirrored attention: 1.0000\n");
  CHECK(contains(result.output, "gradient check: passed"));
  CHECK_FALSE(contains(result.output, "\x1b"));
  CHECK_FALSE(contains(result.output, "\r"));
  std::ostringstream svg;
  svg << std::ifstream(folder.file("map.svg")).rdbuf();
  CHECK(contains(svg.str(), "before training"));
  CHECK(contains(svg.str(), "after 250 steps"));
  CHECK(contains(svg.str(), "</svg>"));
}

TEST_CASE("reverse: the same bits for any number of threads, other bits for another seed") {
  const Folder folder;
  const std::string common = "--steps 20 --digest --out " + folder.file("map.svg");
  const auto digest_of = [&](const std::string& more) {
    const std::string line = last_lines(reverse(common + more).output, 3);
    CHECK(line.rfind("digest: ", 0) == 0);
    return line.substr(0, line.find('\n'));
  };
  const std::string one = digest_of(" --threads 1");
  CHECK(digest_of(" --threads 2") == one);
  CHECK(digest_of(" --threads 3") == one);
  CHECK(digest_of(" --seed 7") != one);
}

TEST_CASE("reverse: mistakes in the command line end with 2 and one clear line") {
  const ProgramResult typo = reverse("--stesp 10");
  CHECK(typo.exit_code == 2);
  CHECK(typo.output == "reverse: unknown option --stesp, did you mean --steps? (see --help)\n");
  for (const char* bad : {"--steps -1", "--threads 0", "--seed x", "--steps", "stray"}) {
    CAPTURE(bad);
    CHECK(reverse(bad).exit_code == 2);
  }
  CHECK(reverse("--help").exit_code == 0);
}

TEST_CASE("reverse: a picture that cannot be written is told before training") {
  const Folder folder;
  fs::create_symlink("/dev/full", folder.file("full"));
  for (const std::string& out : {folder.file("missing/map.svg"), folder.path.string(), folder.file("full")}) {
    const ProgramResult result = reverse("--steps 1000000 --out " + out);
    CAPTURE(result.output);
    CHECK(result.exit_code == 1);
    CHECK(contains(result.output, "reverse: cannot write " + out));
  }
}

TEST_CASE("reverse: Ctrl-C ends training, not the program") {
  const Folder folder;
  const ProgramResult result = reverse("--steps 1000000000 --out " + folder.file("map.svg"), "1/1000000000 ");
  CAPTURE(result.output);
  CHECK(result.exit_code == 130);
  CHECK(contains(result.output, "interrupted after "));
  CHECK(contains(last_lines(result.output, 2), "test accuracy: "));
  CHECK(fs::exists(folder.file("map.svg")));
}
