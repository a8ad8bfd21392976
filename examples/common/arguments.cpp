// SPDX-License-Identifier: MIT
#include "common/arguments.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include <fmt/format.h>

namespace examples {

using tapehead::Index;

namespace {

std::size_t typing_errors(std::string_view a, std::string_view b) {
  // errors[i][j]: from the first i letters of a to the first j of b.
  std::vector<std::vector<std::size_t>> errors(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        errors[i][j] = i + j;
        continue;
      }
      const std::size_t replaced = errors[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      errors[i][j] = std::min({errors[i - 1][j] + 1, errors[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        errors[i][j] = std::min(errors[i][j], errors[i - 2][j - 2] + 1);
      }
    }
  }
  return errors[a.size()][b.size()];
}

int usage_error(const CLI::App& app, std::string_view message) {
  fmt::print(stderr, "{}: {} (see --help)\n", app.get_name(), message);
  return kUsageExitCode;
}

int unexpected_argument(const CLI::App& app, const std::string& argument) {
  if (argument.size() < 2 || argument[0] != '-')
    return usage_error(app, fmt::format("unexpected argument {}", argument));
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  const std::string written = argument.substr(0, argument.find('='));
  const std::optional<std::string> meant = nearest(written, known);
  return usage_error(app, meant ? fmt::format("unknown option {}, did you mean {}?", written, *meant)
                                : fmt::format("unknown option {}", written));
}

}  // namespace

int run_program(const char* name, const std::function<int()>& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    std::fflush(stdout);
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 1;
  }
}

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  std::size_t fewest = word.size() / 2 + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t errors = typing_errors(word, candidate);
    if (errors < fewest) {
      fewest = errors;
      best = candidate;
    }
  }
  return best;
}

CLI::Option* add_number(CLI::App& app, const std::string& name, Index& value, Index low, Index high,
                        const std::string& description) {
  const auto check = [low, high](std::string& text) -> std::string {
    Index number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc{} && end == text.data() + text.size() && low <= number && number <= high) {
      text = std::to_string(number);  // CLI11 would read 010 as eight
      return "";
    }
    return fmt::format("must be a whole number from {} to {}, is {}", low, high, text.empty() ? "empty" : text);
  };
  return app.add_option(name, value, description)
      ->capture_default_str()
      ->type_name("N")
      ->transform(CLI::Validator(check, "", ""));
}

std::optional<int> parse_arguments(CLI::App& app, int argc, const char* const* argv) {
  app.allow_extras();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    return usage_error(app, text.substr(0, text.find(':')) + " takes exactly one value");
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error.what());
  }
  const std::vector<std::string> extras = app.remaining();
  if (!extras.empty()) return unexpected_argument(app, extras.front());
  return std::nullopt;
}

}  // namespace examples
