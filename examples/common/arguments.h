// SPDX-License-Identifier: MIT
// Command lines: CLI11 with strict numbers, one clear line for each mistake, and the nearest option for a mistyped one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include <tapehead/dtype.h>

namespace examples {

/// What a program ends with after a mistake in its command line.
inline constexpr int kUsageExitCode = 2;

/// Adds an option that takes a whole number in [low, high]; anything else is a mistake. Shows the present value as
/// the default in --help.
CLI::Option* add_number(CLI::App& app, const std::string& name, tapehead::Index& value, tapehead::Index low,
                        tapehead::Index high, const std::string& description);

/// Reads the command line into the options. Returns the exit code if the program should end now: 0 after --help, which
/// is printed to standard output, kUsageExitCode after a mistake, which is explained on standard error.
std::optional<int> parse_arguments(CLI::App& app, int argc, const char* const* argv);

/// Runs a program's body and returns its exit code; an exception becomes a line on standard error, and 1.
int run_program(const char* name, const std::function<int()>& body);

/// The candidate that fewest typing errors (a letter left out, put in, replaced, or two swapped: Damerau 1964) turn
/// into `word`; nothing if even that needs more than half of its letters changed.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace examples
