// SPDX-License-Identifier: MIT
#include "common/progress.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text.h"

namespace examples {

using tapehead::Index;

namespace {

constexpr double kKept = 0.95;  // of the smoothed loss, from step to step
constexpr auto kRedraw = std::chrono::milliseconds(50);
constexpr Index kPlainLines = 10;
constexpr const char* kDarkGray = "\x1b[48;5;238m";  // in both kinds of colour terminal
constexpr int kShortestBar = 8;
constexpr int kLongestBar = 30;

std::string bar(int width, double done, Colors colors) {
  const int full = static_cast<int>(width * done);
  const std::string rest(static_cast<std::size_t>(width - full), colors == Colors::none ? '.' : ' ');
  if (colors == Colors::none) return std::string(static_cast<std::size_t>(full), '#') + rest;
  return background(0.6, colors) + std::string(static_cast<std::size_t>(full), ' ') + kDarkGray + rest + reset(colors);
}

// Four decimals as long as they say something.
std::string loss_text(double loss) { return loss < 1e-3 ? fmt::format("{:<6.0e}", loss) : fmt::format("{:.4f}", loss); }

}  // namespace

Progress::Progress(Options options) : options_(std::move(options)), start_(options_.now()), drawn_(start_) {}

Progress::~Progress() {
  if (line_open_) std::fputc('\n', options_.stream);
}

double Progress::seconds() const { return std::chrono::duration<double>(options_.now() - start_).count(); }

double Progress::items_per_second() const {
  const double elapsed = seconds();
  return elapsed > 0 ? static_cast<double>(done_ * options_.items_per_step) / elapsed : 0;
}

double Progress::seconds_left() const {
  return seconds() / static_cast<double>(done_) * static_cast<double>(options_.steps - steps_done());
}

double Progress::smoothed_loss() const { return loss_sum_ / loss_weight_; }

bool Progress::due() const {
  if (done_ == 1 || steps_done() == options_.steps) return true;
  if (options_.terminal.live) return options_.now() - drawn_ >= kRedraw;
  return steps_done() % std::max<Index>(1, options_.steps / kPlainLines) == 0;
}

std::string Progress::count() const {
  return fmt::format("{:>{}}/{}", steps_done(), std::to_string(options_.steps).size(), options_.steps);
}

std::string Progress::plain_line(double measure) const {
  return fmt::format("step {}  loss {}  {} {:.4f}  {} {}/s  {} left\n", count(), loss_text(smoothed_loss()),
                     options_.measure, measure, with_commas(static_cast<Index>(items_per_second())), options_.items,
                     clock_time(seconds_left()));
}

std::string Progress::live_line(double measure) const {
  const std::string rate = with_commas(static_cast<Index>(items_per_second()));
  std::vector<std::string> fields = {
      count(),
      "loss " + loss_text(smoothed_loss()),
      fmt::format("{} {:.4f}", options_.measure, measure),
      fmt::format("{} {}/s", rate, options_.items),
      steps_done() == options_.steps ? fmt::format("{:.1f} s", seconds()) : clock_time(seconds_left()) + " left",
  };
  const auto width_of = [&] {
    int width = 0;
    for (const std::string& field : fields) width += static_cast<int>(field.size()) + 2;
    return width;
  };
  const int room = options_.terminal.columns - 3;  // the terminal's own ^C has room behind it
  // The rate matters least: it loses its unit first, and then its place.
  if (width_of() + kShortestBar > room) fields[3] = rate + "/s";
  if (width_of() + kShortestBar > room) fields.erase(fields.begin() + 3);
  while (fields.size() > 1 && width_of() > room) fields.pop_back();
  const int bar_width = std::min(kLongestBar, room - width_of());
  if (bar_width >= kShortestBar) {
    const double done = static_cast<double>(steps_done()) / static_cast<double>(options_.steps);
    fields[0] += "  " + bar(bar_width, done, options_.terminal.colors);
  }
  return fmt::format("\r\x1b[K{}", fmt::join(fields, "  "));
}

void Progress::step(double loss, const std::function<double()>& measure) {
  ++done_;
  loss_sum_ = kKept * loss_sum_ + (1 - kKept) * loss;
  loss_weight_ = kKept * loss_weight_ + (1 - kKept);
  if (!due()) return;
  const std::string line = options_.terminal.live ? live_line(measure()) : plain_line(measure());
  std::fwrite(line.data(), 1, line.size(), options_.stream);
  std::fflush(options_.stream);
  line_open_ = options_.terminal.live;
  drawn_ = options_.now();
}

}  // namespace examples
