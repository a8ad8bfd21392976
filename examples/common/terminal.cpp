// SPDX-License-Identifier: MIT
#include "common/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

namespace examples {
Terminal describe_terminal(bool is_terminal, int columns, const Environment& environment) {
  const auto value = [&](const char* name) {
    const char* text = environment(name);
    return std::string_view(text == nullptr ? "" : text);
  };
  Terminal terminal;
  if (columns > 0) terminal.columns = columns;
  const std::string_view wanted = value("COLUMNS");
  int parsed = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), parsed);
  if (error == std::errc{} && end == wanted.data() + wanted.size() && parsed > 0) terminal.columns = parsed;

  const std::string_view term = value("TERM");
  terminal.live = is_terminal && !term.empty() && term != "dumb";
  if (!terminal.live || !value("NO_COLOR").empty()) return terminal;
  const std::string_view color_term = value("COLORTERM");
  if (color_term == "truecolor" || color_term == "24bit") {
    terminal.colors = Colors::truecolor;
  } else if (term.find("256color") != std::string_view::npos) {
    terminal.colors = Colors::palette256;
  }
  return terminal;
}

Terminal stdout_terminal() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) size.ws_col = 0;
  return describe_terminal(isatty(STDOUT_FILENO) == 1, size.ws_col, [](const char* name) { return std::getenv(name); });
}

Rgb viridis(double share) {
  static constexpr std::array<Rgb, 11> stops = {{{68, 1, 84},
                                                 {72, 36, 117},
                                                 {65, 68, 135},
                                                 {53, 95, 141},
                                                 {42, 120, 142},
                                                 {33, 145, 140},
                                                 {34, 168, 132},
                                                 {68, 191, 112},
                                                 {122, 209, 81},
                                                 {189, 223, 38},
                                                 {253, 231, 37}}};
  const double place = std::clamp(share, 0.0, 1.0) * static_cast<double>(stops.size() - 1);
  const auto first = std::min(static_cast<std::size_t>(place), stops.size() - 2);
  const double rest = place - static_cast<double>(first);
  const auto mix = [rest](int a, int b) { return static_cast<int>(std::lround(a + rest * (b - a))); };
  const Rgb &low = stops[first], &high = stops[first + 1];
  return {mix(low.red, high.red), mix(low.green, high.green), mix(low.blue, high.blue)};
}

std::string background(double share, Colors colors) {
  // Members of the 256-colour palette in viridis's order, each brighter than the one before.
  static constexpr std::array<int, 9> palette = {53, 54, 24, 30, 36, 72, 77, 149, 226};
  switch (colors) {
    case Colors::truecolor: {
      const Rgb color = viridis(share);
      return fmt::format("\x1b[48;2;{};{};{}m", color.red, color.green, color.blue);
    }
    case Colors::palette256: {
      const double place = std::clamp(share, 0.0, 1.0) * static_cast<double>(palette.size() - 1);
      return fmt::format("\x1b[48;5;{}m", palette[static_cast<std::size_t>(std::lround(place))]);
    }
    default: return "";
  }
}

std::string reset(Colors colors) { return colors == Colors::none ? "" : "\x1b[0m"; }

}  // namespace examples
