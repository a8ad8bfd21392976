// SPDX-License-Identifier: MIT
// Ctrl-C as a question that a loop asks.
#pragma once

#include <csignal>

namespace examples {

/// While it lives, the first Ctrl-C only makes requested() true; a second one ends the program at once. A process
/// that was started with Ctrl-C ignored goes on ignoring it.
class Interrupt {
 public:
  /// What a program ends with after Ctrl-C: 128 + SIGINT, as shells report it.
  static constexpr int kExitCode = 128 + SIGINT;

  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool requested() const;

 private:
  struct sigaction before_ {};
};

}  // namespace examples
