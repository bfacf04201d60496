#pragma once
// Pseudo-terminals for commands that people run inside tasks.

#include <cstdint>
#include <string>

#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::agent {

struct WindowSize {
  uint16_t rows = 24;
  uint16_t columns = 80;
};

struct Terminal {
  Fd master;  // does not block
  Fd slave;   // belongs to the job's user
};

// A terminal of the file system that `ptmx` is the door of: a container's own, so that its
// programs find their terminal by name.
// Errors: kSystem, also for what is no door of terminals.
[[nodiscard]] Result<Terminal> OpenTerminal(const std::string& ptmx,
                                            uint32_t uid,
                                            uint32_t gid,
                                            WindowSize size);

// Tells the foreground programs, too (SIGWINCH).
void SetWindowSize(int terminal, WindowSize size);

}  // namespace tide::agent
