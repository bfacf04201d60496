#pragma once
// Reading /proc: who is whose child, who belongs to a task, and what state a process is in.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace tide::agent {

// This start of the machine; "unknown" where the kernel does not say.
[[nodiscard]] std::string BootId();

struct ProcessInfo {
  int32_t pid = 0;
  int32_t parent = 0;
  char state = '?';
  bool exiting = false;  // it runs none of its own code any more
  uint64_t start_ticks = 0;
  std::string name;

  // A zombie is dead: it holds nothing and only waits to be reaped.
  [[nodiscard]] bool dead() const { return state == 'Z' || state == 'X' || state == 'x'; }
};

// Errors: kNotFound when there is no such process.
[[nodiscard]] Result<ProcessInfo> ReadProcess(int32_t pid);
[[nodiscard]] std::vector<ProcessInfo> AllProcesses();
// Living processes below `ancestor`, without itself. Cost: one scan of /proc.
[[nodiscard]] std::vector<int32_t> DescendantsOf(int32_t ancestor);
// Living processes started with TIDE_TASK=`tag`. Those of other users are seen by root only.
[[nodiscard]] std::vector<int32_t> ProcessesWithTag(std::string_view tag);
// Whether this process has a child, dead ones that nobody waited for included. Of a subreaper that
// has none nothing below it lives.
[[nodiscard]] bool HasChildren();
// "pid 12 (python3, state D)"
[[nodiscard]] std::string DescribeProcess(int32_t pid);

}  // namespace tide::agent
