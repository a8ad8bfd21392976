// SPDX-License-Identifier: MIT
#include "common/arguments.h"

#include <doctest/doctest.h>

using namespace examples;

namespace {

std::optional<int> parse(tapehead::Index& steps, std::vector<const char*> arguments) {
  CLI::App app("", "program");
  add_number(app, "--steps", steps, 0, 1000, "how many");
  arguments.insert(arguments.begin(), "program");
  return parse_arguments(app, static_cast<int>(arguments.size()), arguments.data());
}

}  // namespace

TEST_CASE("arguments: whole numbers in range are taken, as decimal") {
  tapehead::Index steps = 7;
  CHECK_FALSE(parse(steps, {}));
  CHECK(steps == 7);
  CHECK_FALSE(parse(steps, {"--steps", "20"}));
  CHECK(steps == 20);
  CHECK_FALSE(parse(steps, {"--steps=010"}));
  CHECK(steps == 10);
}

TEST_CASE("arguments: every mistake ends with the usage code and leaves the value") {
  tapehead::Index steps = 7;
  for (const char* bad : {"-1", "1001", "ten", "1e3", "2.5", "", " 3", "99999999999999999999"}) {
    CAPTURE(bad);
    CHECK(parse(steps, {"--steps", bad}) == kUsageExitCode);
  }
  CHECK(parse(steps, {"--steps"}) == kUsageExitCode);
  CHECK(parse(steps, {"--stpes", "3"}) == kUsageExitCode);
  CHECK(parse(steps, {"--stpes=3"}) == kUsageExitCode);
  CHECK(parse(steps, {"-x"}) == kUsageExitCode);
  CHECK(parse(steps, {"stray"}) == kUsageExitCode);
  CHECK(steps == 7);
  CHECK(parse(steps, {"--help"}) == 0);
}

TEST_CASE("arguments: the nearest option") {
  const std::vector<std::string> known = {"--learning-rate", "--seed", "--steps", "--threads"};
  CHECK(nearest("--lerning-rate", known) == "--learning-rate");
  CHECK(nearest("--stpes", known) == "--steps");
  CHECK(nearest("--step", known) == "--steps");
  CHECK(nearest("--sed", known) == "--seed");
  CHECK(nearest("--thread", known) == "--threads");
  CHECK_FALSE(nearest("--quantize", known));
  CHECK(nearest("from", {"fray", "form"}) == "form");  // two letters swapped are one error
}
