#pragma once
// A command inside a running task, as if it ran here: input, output, terminal, signals, exit code.

#include <cstdint>
#include <string>
#include <vector>

#include "cli/context.h"

namespace tide::cli {

struct RemoteCommand {
  std::string job;
  std::vector<std::string> argv;  // empty = a shell
  uint32_t rank = 0;
  bool terminal = false;
  bool input = true;
};

// Runs it to its end and returns its exit code, 128 + N for signal N, or kExitOwnFailure.
[[nodiscard]] int RunRemote(Context& context, const RemoteCommand& command);

}  // namespace tide::cli
