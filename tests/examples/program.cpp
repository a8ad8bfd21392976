// SPDX-License-Identifier: MIT
#include "program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include <doctest/doctest.h>

ProgramResult run_program(const std::string& command, const std::string& interrupt_after) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const std::string line = std::string("exec ") + EXAMPLES_FOLDER + "/" + command;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGINT, SIG_DFL);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  ProgramResult result;
  std::array<char, 4096> buffer;
  bool pressed = interrupt_after.empty();
  for (ssize_t got; (got = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    result.output.append(buffer.data(), static_cast<std::size_t>(got));
    if (!pressed && contains(result.output, interrupt_after)) pressed = kill(child, SIGINT) == 0;
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string last_lines(const std::string& text, int lines) {
  std::size_t at = text.size() - 1;
  for (int i = 0; i < lines; ++i) at = text.rfind('\n', at - 1);
  return text.substr(at + 1);
}
