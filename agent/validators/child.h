#pragma once
// Waits for a child process and for what it writes, never longer than told, never more than told.

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "common/base/file.h"
#include "common/base/time.h"

namespace tide::validators {

constexpr size_t kMaxOutput = 65536;

struct ChildResult {
  std::string output;
  bool timed_out = false;
  bool too_much = false;   // wrote more than kMaxOutput
  bool stopped = false;    // before its end, by the stop
  bool abandoned = false;  // killed, yet still there: stuck in the kernel
  int status = 0;          // as of waitpid; undefined when abandoned
};

enum class KillScope {
  kProcess,
  kGroup,  // the child leads its own process group
};

// Collects `pid`, a child of the caller whose output comes through `output`. Past the time or the
// bound it is killed, and as soon as `stop` is readable (-1 = there is none). The child's exit is
// the end even when a grandchild keeps the pipe open.
[[nodiscard]] Result<ChildResult> CollectChild(
    pid_t pid, Fd output, Duration timeout, KillScope scope, int stop = -1);

// "exited with status 3", "died of signal 9".
[[nodiscard]] std::string DescribeStatus(int status);

}  // namespace tide::validators
