// SPDX-License-Identifier: MIT
// What training looks like while it runs: one live line in a terminal, a plain line now and then anywhere else.
#pragma once

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>

#include <tapehead/dtype.h>

#include "common/terminal.h"

namespace examples {

class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    tapehead::Index steps = 0;           ///< in the whole run
    tapehead::Index first = 0;           ///< done before, in a run that goes on
    tapehead::Index items_per_step = 1;  ///< for the rate
    std::string items = "items";         ///< what they are called
    std::string measure = "accuracy";    ///< what stands beside the loss
    Terminal terminal = {};
    std::FILE* stream = stdout;
    std::function<Clock::time_point()> now = Clock::now;
  };

  explicit Progress(Options options);
  /// Ends the live line, so that what is printed next starts on one of its own.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Counts one more finished step. A terminal's line is redrawn at most every 50 ms; elsewhere a line is
  /// printed after the first step and about ten more over the whole run. `measure` is asked only when there is
  /// something to draw.
  void step(double loss, const std::function<double()>& measure);

  /// Steps of this run, those before it included.
  tapehead::Index steps_done() const { return options_.first + done_; }
  double seconds() const;

 private:
  bool due() const;
  std::string count() const;
  std::string live_line(double measure) const;
  std::string plain_line(double measure) const;
  double items_per_second() const;
  double seconds_left() const;
  double smoothed_loss() const;

  Options options_;
  Clock::time_point start_;
  Clock::time_point drawn_;
  bool line_open_ = false;
  tapehead::Index done_ = 0;
  double loss_sum_ = 0;  // exponentially weighted
  double loss_weight_ = 0;
};

}  // namespace examples
