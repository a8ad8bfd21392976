// SPDX-License-Identifier: MIT
// Short forms of the programs that learn a made-up task; CTest runs them whole in the configuration Full.
#include <cstdio>
#include <string>

#include <doctest/doctest.h>

#include "program.h"

namespace {

// Answers right of those in the last line, "exact: right/all".
struct Exact {
  long right = -1, all = -1;
};

Exact exact(const std::string& output) {
  Exact result;
  CHECK(std::sscanf(last_lines(output, 1).c_str(), "exact: %ld/%ld", &result.right, &result.all) == 2);
  return result;
}

std::string digest(const std::string& command) {
  const std::string lines = last_lines(run_program(command + " --digest").output, 2);
  CHECK(lines.rfind("digest: ", 0) == 0);
  return lines.substr(0, lines.find('\n'));
}

}  // namespace

TEST_CASE("tasks: copy, sort, addition and recall learn in a short run") {
  struct {
    const char* command;
    long more_than, all;
  } const programs[] = {{"copy --steps 250", 500, 1000},
                        {"sort --steps 300", 3500, 5000},
                        {"addition --steps 200", 20, 1000},
                        {"addition --digits 3 --steps 20", -1, 1000},
                        {"recall --steps 300", 2000, 4000}};
  for (const auto& program : programs) {
    CAPTURE(program.command);
    const ProgramResult result = run_program(program.command);
    CAPTURE(result.output);
    CHECK(result.exit_code == 0);
    CHECK(exact(result.output).right > program.more_than);
    CHECK(exact(result.output).all == program.all);
    CHECK_FALSE(contains(result.output, "\x1b"));
    CHECK_FALSE(contains(result.output, "\r"));
  }
}

TEST_CASE("tasks: addition of three digits is reversed unless told otherwise") {
  const std::string reversed = "last one first";
  CHECK(contains(run_program("addition --digits 3 --steps 0").output, reversed));
  CHECK(contains(run_program("addition --digits 2 --steps 0 --reverse").output, reversed));
  CHECK_FALSE(contains(run_program("addition --digits 3 --steps 0 --plain").output, reversed));
  CHECK_FALSE(contains(run_program("addition --steps 0").output, reversed));
}

TEST_CASE("tasks: the same bits for any number of threads, other bits for another seed") {
  for (const std::string program : {"copy", "sort", "addition", "recall"}) {
    CAPTURE(program);
    const std::string one = digest(program + " --steps 3 --threads 1");
    CHECK(digest(program + " --steps 3 --threads 3") == one);
    CHECK(digest(program + " --steps 3 --seed 7") != one);
  }
}

TEST_CASE("tasks: mistakes in the command line end with 2 and one clear line") {
  for (const std::string program : {"copy", "sort", "addition", "recall"}) {
    CAPTURE(program);
    const ProgramResult typo = run_program(program + " --stesp 10");
    CHECK(typo.exit_code == 2);
    CHECK(typo.output == program + ": unknown option --stesp, did you mean --steps? (see --help)\n");
    for (const char* bad : {" --steps -1", " --threads 0", " --seed x", " stray"}) {
      CAPTURE(bad);
      CHECK(run_program(program + bad).exit_code == 2);
    }
    CHECK(run_program(program + " --help").exit_code == 0);
  }
  CHECK(run_program("addition --digits 4").exit_code == 2);
}

TEST_CASE("tasks: Ctrl-C ends training, not the program") {
  for (const std::string program : {"copy", "sort", "addition", "recall"}) {
    CAPTURE(program);
    const ProgramResult result = run_program(program + " --steps 1000000000", "1/1000000000 ");
    CAPTURE(result.output);
    CHECK(result.exit_code == 130);
    CHECK(contains(result.output, "interrupted after "));
    CHECK(exact(result.output).all >= 1000);
  }
}
