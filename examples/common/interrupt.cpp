// SPDX-License-Identifier: MIT
#include "common/interrupt.h"

namespace examples {
namespace {

volatile std::sig_atomic_t seen = 0;

}  // namespace

Interrupt::Interrupt() {
  seen = 0;
  sigaction(SIGINT, nullptr, &before_);
  if (before_.sa_handler == SIG_IGN) return;
  struct sigaction once {};
  once.sa_handler = [](int) { seen = 1; };
  once.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &once, nullptr);
}

Interrupt::~Interrupt() { sigaction(SIGINT, &before_, nullptr); }

bool Interrupt::requested() const { return seen != 0; }

}  // namespace examples
