#pragma once
// Watching a job to its end. Its output: log_follow.h.

#include <cstdint>
#include <string>

#include "cli/context.h"

namespace tide::cli {

// Waits until the job is finished and returns it.
[[nodiscard]] Answer<json> AwaitFinished(Context& context, const std::string& id);

// Waits before the next look at a job: longer the more looks there were.
void PauseBeforeLook(int looks);

// Waits for the end and returns the job's own exit code. kExitOwnFailure, and the reason on
// stderr, if the end cannot be learned.
[[nodiscard]] int JobExitCode(Context& context, const std::string& id);

}  // namespace tide::cli
