#pragma once
// tide show JOB --ranks.

#include <string>

#include "cli/context.h"

namespace tide::cli {

// Prints what the ranks of a job are at. Returns the exit code.
[[nodiscard]] int ShowRanks(Context& context, const std::string& job);

}  // namespace tide::cli
