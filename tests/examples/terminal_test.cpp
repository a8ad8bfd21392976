// SPDX-License-Identifier: MIT
#include "common/terminal.h"

#include <map>

#include <doctest/doctest.h>

using namespace examples;

namespace {

Terminal terminal(bool is_terminal, int columns, const std::map<std::string, std::string>& variables) {
  return describe_terminal(is_terminal, columns, [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

double luminance(const Rgb& color) { return 0.2126 * color.red + 0.7152 * color.green + 0.0722 * color.blue; }

}  // namespace

TEST_CASE("terminal: colours follow COLORTERM, then TERM") {
  CHECK(terminal(true, 80, {{"TERM", "xterm-256color"}, {"COLORTERM", "truecolor"}}).colors == Colors::truecolor);
  CHECK(terminal(true, 80, {{"TERM", "xterm"}, {"COLORTERM", "24bit"}}).colors == Colors::truecolor);
  CHECK(terminal(true, 80, {{"TERM", "screen-256color"}}).colors == Colors::palette256);
  const Terminal plain = terminal(true, 80, {{"TERM", "vt100"}});
  CHECK(plain.colors == Colors::none);
  CHECK(plain.live);
}

TEST_CASE("terminal: no colours and no live line in a file, a pipe or a dumb terminal") {
  const std::map<std::string, std::string> colorful = {{"TERM", "xterm-256color"}, {"COLORTERM", "truecolor"}};
  CHECK_FALSE(terminal(false, 0, colorful).live);
  CHECK(terminal(false, 0, colorful).colors == Colors::none);
  CHECK_FALSE(terminal(true, 80, {{"TERM", "dumb"}, {"COLORTERM", "truecolor"}}).live);
  CHECK_FALSE(terminal(true, 80, {}).live);
}

TEST_CASE("terminal: NO_COLOR leaves the live line, and counts only when it is not empty") {
  const Terminal asked = terminal(true, 80, {{"TERM", "xterm-256color"}, {"NO_COLOR", "1"}});
  CHECK(asked.live);
  CHECK(asked.colors == Colors::none);
  CHECK(terminal(true, 80, {{"TERM", "xterm-256color"}, {"NO_COLOR", ""}}).colors == Colors::palette256);
}

TEST_CASE("terminal: COLUMNS goes before the reported width, 80 is the last resort") {
  CHECK(terminal(true, 120, {{"COLUMNS", "60"}}).columns == 60);
  CHECK(terminal(true, 120, {{"COLUMNS", "wide"}}).columns == 120);
  CHECK(terminal(true, 120, {{"COLUMNS", "0"}}).columns == 120);
  CHECK(terminal(true, 0, {}).columns == 80);
}

TEST_CASE("viridis: brightness rises from end to end, and values outside are clamped") {
  for (int i = 1; i <= 100; ++i) CHECK(luminance(viridis(i / 100.0)) > luminance(viridis((i - 1) / 100.0)));
  CHECK(viridis(0).blue == 84);
  CHECK(viridis(-3).blue == 84);
  CHECK(viridis(1).red == 253);
  CHECK(viridis(7).red == 253);
}

TEST_CASE("viridis: brightness never falls in the 256-colour palette either") {
  const auto level = [](int digit) { return digit == 0 ? 0 : 55 + 40 * digit; };
  double before = 0;
  for (int i = 0; i <= 100; ++i) {
    const std::string escape = background(i / 100.0, Colors::palette256);
    REQUIRE(escape.rfind("\x1b[48;5;", 0) == 0);
    const int cube = std::stoi(escape.substr(7)) - 16;
    const double now = luminance({level(cube / 36), level(cube / 6 % 6), level(cube % 6)});
    CHECK(now >= before);
    before = now;
  }
  CHECK(before > 200);
}

TEST_CASE("background: escape sequences of each palette") {
  CHECK(background(0, Colors::truecolor) == "\x1b[48;2;68;1;84m");
  CHECK(background(1, Colors::truecolor) == "\x1b[48;2;253;231;37m");
  CHECK(background(0, Colors::palette256) == "\x1b[48;5;53m");
  CHECK(background(2, Colors::palette256) == "\x1b[48;5;226m");
  CHECK(background(0.5, Colors::none).empty());
  CHECK(reset(Colors::none).empty());
}
