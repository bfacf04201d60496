#pragma once
// Ending everything a killed agent left behind, for `tide dev` and for a node that is given up.

#include <cstddef>
#include <string>

#include "common/base/result.h"

namespace tide::agent {

// Kills every task in <state_dir>/tasks with its supervisor and removes its folder but the logs.
// No Runtime may be in use on the folder. Returns how many tasks there were.
// Errors: kSystem naming tasks with processes that do not die. Cost: at most 2 s for each of these.
[[nodiscard]] Result<size_t> CleanLeftovers(const std::string& state_dir);

}  // namespace tide::agent
