#pragma once
// Runs a program that may take long, and can be called off.

#include <functional>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::agent {

struct ProgramResult {
  int status = 0;           // as of waitpid
  bool called_off = false;  // killed because somebody wanted it
  bool given_up = false;    // killed because `each_second` said so
  std::string output;       // what it wrote on stdout, at most `output_max`
  std::string errors;       // the end of what it wrote on stderr
  [[nodiscard]] bool ok() const { return !called_off && !given_up && status == 0; }
};

struct Program {
  std::vector<std::string> argv;         // argv[0]: full path
  std::vector<std::string> environment;  // "KEY=VALUE"; nothing else is inherited
  size_t output_max = 0;                 // more is an error
  std::function<bool()> each_second;     // while it runs; false = end it. May be empty
};

// Waits for the end. The program dies with the calling thread.
//   call_off: an eventfd; readable = end it.
// Errors: kSystem when it cannot be run, kExhausted when it writes too much.
[[nodiscard]] Result<ProgramResult> RunProgram(const Program& command, const Fd& call_off);

}  // namespace tide::agent
