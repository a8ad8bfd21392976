// SPDX-License-Identifier: MIT
// Runs the example programs as a user would.
#pragma once

#include <string>

struct ProgramResult {
  std::string output;  // both streams
  int exit_code;
};

// "reverse --steps 20". Presses Ctrl-C once `interrupt_after` was printed.
ProgramResult run_program(const std::string& command, const std::string& interrupt_after = "");

bool contains(const std::string& text, const std::string& part);
// The last lines of a text that ends with a newline.
std::string last_lines(const std::string& text, int lines);
