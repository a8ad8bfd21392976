// SPDX-License-Identifier: MIT
#include "common/interrupt.h"

#include <doctest/doctest.h>

using examples::Interrupt;

TEST_CASE("interrupt: the first Ctrl-C is a question, and the old handling comes back") {
  std::signal(SIGINT, SIG_DFL);
  {
    const Interrupt interrupt;
    CHECK_FALSE(interrupt.requested());
    std::raise(SIGINT);
    CHECK(interrupt.requested());
  }
  {
    const Interrupt again;
    CHECK_FALSE(again.requested());
  }
  CHECK((std::signal(SIGINT, SIG_IGN) == SIG_DFL));
}

TEST_CASE("interrupt: a process that ignores Ctrl-C goes on ignoring it") {
  std::signal(SIGINT, SIG_IGN);
  {
    const Interrupt interrupt;
    std::raise(SIGINT);
    CHECK_FALSE(interrupt.requested());
  }
  CHECK((std::signal(SIGINT, SIG_DFL) == SIG_IGN));
}
