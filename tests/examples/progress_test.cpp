// SPDX-License-Identifier: MIT
#include "common/progress.h"

#include <cstdio>
#include <memory>

#include <doctest/doctest.h>

#include "common/text.h"

using namespace examples;
using namespace std::chrono_literals;

namespace {

// Runs `steps` steps of 10 ms each and returns all that was printed.
std::string print_steps(tapehead::Index steps, tapehead::Index total, const Terminal& terminal, int* asked = nullptr) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  Progress::Clock::time_point time{};
  {
    Progress progress({.steps = total,
                       .items_per_step = 100,
                       .items = "sequences",
                       .terminal = terminal,
                       .stream = file.get(),
                       .now = [&] { return time; }});
    for (tapehead::Index i = 0; i < steps; ++i) {
      time += 10ms;
      progress.step(i == 0 ? 2.0 : 1.0, [&] {
        if (asked != nullptr) ++*asked;
        return 0.5;
      });
    }
    CHECK(progress.steps_done() == steps);
  }
  std::string text(static_cast<std::size_t>(std::ftell(file.get())), '\0');
  std::rewind(file.get());
  REQUIRE(std::fread(text.data(), 1, text.size(), file.get()) == text.size());
  return text;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("progress: one plain line at first and ten over the run where nothing can be redrawn") {
  int asked = 0;
  const std::string text = print_steps(100, 100, {}, &asked);
  CHECK(count(text, "\n") == 11);
  CHECK(count(text, "\r") == 0);
  CHECK(count(text, "\x1b") == 0);
  CHECK(asked == 11);
  CHECK(text.rfind("step   1/100  loss 2.0000", 0) == 0);
  CHECK(count(text, "step 100/100  loss 1.0") == 1);
  CHECK(count(text, "accuracy 0.5000  10,000 sequences/s  0:01 left\n") == 10);
}

TEST_CASE("progress: the first loss shows as it is, later ones are smoothed") {
  CHECK(count(print_steps(1, 1, {}), "loss 2.0000") == 1);
  const std::string two = print_steps(2, 2, {});  // (0.95 * 2 + 1) / 1.95
  CHECK(count(two, "step 2/2  loss 1.4872") == 1);
}

TEST_CASE("progress: a terminal's line is redrawn every 50 ms and ended once") {
  const Terminal terminal{.live = true, .colors = Colors::none, .columns = 100};
  int asked = 0;
  const std::string text = print_steps(101, 101, terminal, &asked);
  CHECK(asked == 21);  // the first step and every fifth after it
  CHECK(count(text, "\r\x1b[K") == 21);
  CHECK(count(text, "\n") == 1);
  CHECK(text.back() == '\n');
  CHECK(count(text, "101/101  ##########") == 1);
  CHECK(count(text, "sequences/s  1.0 s\n") == 1);
}

TEST_CASE("progress: no line is wider than the terminal") {
  for (int columns : {20, 24, 40, 60, 80, 200}) {
    const std::string text = print_steps(101, 101, {.live = true, .colors = Colors::none, .columns = columns});
    CAPTURE(columns);
    std::size_t longest = 0;
    for (std::size_t at = text.find('\r'); at != std::string::npos;) {
      const std::size_t next = text.find('\r', at + 1);
      longest = std::max(longest, std::min(next, text.size() - 1) - at - 4);
      at = next;
    }
    CHECK(longest < static_cast<std::size_t>(columns));
  }
}

TEST_CASE("progress: the bar outlives the rate in a narrow terminal") {
  const std::string text = print_steps(101, 101, {.live = true, .colors = Colors::none, .columns = 64});
  CHECK(count(text, "####") > 0);
  CHECK(count(text, "sequences/s") == 0);
  CHECK(count(text, "0:01 left") > 0);
  const std::string usual = print_steps(101, 101, {.live = true, .colors = Colors::none, .columns = 76});
  CHECK(count(usual, "####") > 0);
  CHECK(count(usual, "10,000/s") > 0);
}

TEST_CASE("text: numbers as people read them") {
  CHECK(with_commas(0) == "0");
  CHECK(with_commas(999) == "999");
  CHECK(with_commas(1000) == "1,000");
  CHECK(with_commas(-1234567) == "-1,234,567");
  CHECK(with_commas(-123) == "-123");
  CHECK(share(159999, 160000) == "0.9999");
  CHECK(share(160000, 160000) == "1.0000");
  CHECK(share(1, 16) == "0.0625");
  CHECK(clock_time(0) == "0:00");
  CHECK(clock_time(6.2) == "0:07");
  CHECK(clock_time(754) == "12:34");
  CHECK(clock_time(11100) == "3:05:00");
}
