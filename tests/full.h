// SPDX-License-Identifier: MIT
// Whether tests take their long form, as `sh tests/run.sh --full` asks by TAPEHEAD_FULL.
#pragma once

#include <cstdlib>

inline bool full_run() { return std::getenv("TAPEHEAD_FULL") != nullptr; }
