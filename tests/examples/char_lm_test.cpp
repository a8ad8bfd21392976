// SPDX-License-Identifier: MIT
#include <string>

#include <doctest/doctest.h>
#include <tapehead/safetensors.h>

#include "program.h"
#include "scratch.h"

namespace {

// Lines whose next character is never in doubt once the first of them is known.
std::string rhyme() {
  std::string text;
  for (int i = 0; i < 400; ++i) text += i % 2 == 0 ? "one two three four\n" : "five six seven\n";
  return text;
}

std::string program(const Scratch& folder, const std::string& arguments) {
  return "char_lm --preset tiny --data " + folder.file("text", rhyme()) + " --save " + folder.path("run") + " " +
         arguments;
}

}  // namespace

TEST_CASE("char_lm: learns a text, writes it, and its last lines are for scripts") {
  const Scratch folder;
  const ProgramResult result = run_program(program(folder, "--sample 60 --temperature 0 --prompt one --digest"));
  CAPTURE(result.output);
  CHECK(result.exit_code == 0);
  CHECK(contains(result.output, "one two three four\nfive six seven\none two"));
  const std::string last = last_lines(result.output, 2);
  CHECK(last.starts_with("digest: "));
  const std::size_t at = last.find("\nvalidation loss: ");
  REQUIRE(at != std::string::npos);
  CHECK(std::stod(last.substr(at + 18)) < 0.5);
  CHECK(last.size() == at + 18 + 7);

  const ProgramResult again =
      run_program(program(folder, "--resume --sample 60 --temperature 0 --prompt one --stop seven"));
  CAPTURE(again.output);
  CHECK(contains(again.output, "one two three four\nfive six seven\n---"));
}

TEST_CASE("char_lm: a run that was stopped goes on with the same bits, on any number of threads") {
  const Scratch whole, parts;
  const std::string expected = last_lines(run_program(program(whole, "--sample 0 --digest --threads 1")).output, 2);
  const ProgramResult stopped = run_program(program(parts, "--sample 0 --digest"), "step  60/300");
  CHECK(stopped.exit_code == 130);
  CHECK(contains(stopped.output, "interrupted after"));
  CHECK(last_lines(stopped.output, 2) != expected);
  const ProgramResult rest = run_program(program(parts, "--sample 0 --digest --threads 2 --resume"));
  CAPTURE(rest.output);
  CHECK(contains(rest.output, "goes on after step"));
  CHECK(last_lines(rest.output, 2) == expected);
  const tapehead::Safetensors file = tapehead::load_safetensors(parts.path("run"));
  CHECK(file.metadata.at("done") == "300");
  CHECK(file.metadata.at("vocabulary") == "\n efhinorstuvwx");
}

TEST_CASE("char_lm: texts and files that cannot work are named") {
  const Scratch folder;
  const auto fails = [&](const std::string& arguments, const std::string& with, int code = 1) {
    const ProgramResult result =
        run_program("char_lm --steps 1 --sample 0 --save " + folder.path("x") + " " + arguments);
    CAPTURE(result.output);
    CHECK(result.exit_code == code);
    CHECK(contains(result.output, with));
  };
  const std::string text = folder.file("text", rhyme());
  fails("--data " + folder.file("empty", ""), "is empty");
  fails("--data " + folder.file("binary", std::string("a\0b", 3)), "byte 1 is 0x00");
  fails("--data " + folder.file("short", "hello you there"), "64");
  fails("--data /nonexistent", "/nonexistent: No such file");
  fails("--data " + text + " --prompt Q", "\"Q\"");
  fails("--data " + text + " --resume", "No such file");
  const ProgramResult unwritable = run_program("char_lm --steps 1 --data " + text + " --save /nonexistent/run");
  CHECK(unwritable.exit_code == 1);
  CHECK(contains(unwritable.output, "cannot write /nonexistent/run: No such file"));
  fails("--preset cpuu", "cpuu", 2);
  run_program("char_lm --preset tiny --steps 1 --sample 0 --data " + text + " --save " + folder.path("x"));
  fails("--preset tiny --seed 2 --resume --data " + text, "another seed");
  fails("--preset tiny --resume --data " + folder.file("other", rhyme() + "?"), "another vocabulary");
}
