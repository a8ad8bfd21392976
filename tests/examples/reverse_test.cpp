// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "program.h"
#include "scratch.h"

namespace fs = std::filesystem;

namespace {

ProgramResult reverse(const std::string& arguments, const std::string& interrupt_after = "") {
  return run_program("reverse " + arguments, interrupt_after);
}

}  // namespace

TEST_CASE("reverse: learns the task in half of its steps, and says so in its last lines") {
  const Scratch folder;
  const ProgramResult result = reverse("--steps 250 --out " + folder.path("map.svg"));
  CAPTURE(result.output);
  CHECK(result.exit_code == 0);
  CHECK(last_lines(result.output, 2) == "test accuracy: 1.0000\nmirrored attention: 1.0000\n");
  CHECK(contains(result.output, "gradient check: passed"));
  CHECK_FALSE(contains(result.output, "\x1b"));
  CHECK_FALSE(contains(result.output, "\r"));
  CHECK(contains(folder.bytes("map.svg"), "before training"));
  CHECK(contains(folder.bytes("map.svg"), "after 250 steps"));
  CHECK(contains(folder.bytes("map.svg"), "</svg>"));
}

TEST_CASE("reverse: the same bits for any number of threads, other bits for another seed") {
  const Scratch folder;
  const std::string common = "--steps 20 --digest --out " + folder.path("map.svg");
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
  const Scratch folder;
  fs::create_symlink("/dev/full", folder.path("full"));
  for (const std::string& out : {folder.path("missing/map.svg"), folder.path(""), folder.path("full")}) {
    const ProgramResult result = reverse("--steps 1000000 --out " + out);
    CAPTURE(result.output);
    CHECK(result.exit_code == 1);
    CHECK(contains(result.output, "cannot write " + out));
  }
}

TEST_CASE("reverse: Ctrl-C ends training, not the program") {
  const Scratch folder;
  const ProgramResult result = reverse("--steps 1000000000 --out " + folder.path("map.svg"), "1/1000000000 ");
  CAPTURE(result.output);
  CHECK(result.exit_code == 130);
  CHECK(contains(result.output, "interrupted after "));
  CHECK(contains(last_lines(result.output, 2), "test accuracy: "));
  CHECK(fs::exists(folder.path("map.svg")));
}
