#pragma once
// Runs one program of a node's own, bounded in time and output, with all its children. No shell.

#include <string>
#include <vector>

#include "agent/validators/child.h"
#include "agent/validators/stop_signal.h"
#include "common/base/result.h"
#include "common/base/time.h"

namespace tide::validators {

enum class Errors {
  kDropped,    // standard error goes nowhere
  kCollected,  // it is part of the output
};

// Runs `path` and collects its output. Blocks. Past `timeout`, or once `stop` is raised, it is
// killed with its process group.
//   inherited: descriptor that it and what it starts keep open; -1 = none.
//   Errors: kNotFound (no such program), kSystem.
[[nodiscard]] Result<ChildResult> RunProgram(const std::string& path,
                                             const std::vector<std::string>& args,
                                             Errors errors,
                                             Duration timeout,
                                             const StopSignal* stop = nullptr,
                                             int inherited = -1);

}  // namespace tide::validators
