#pragma once
// Ending what a killed agent left behind: everything, for `tide dev` and for a node that is given
// up, or what its state folder knows nothing of.

#include <cstddef>
#include <string>

#include "common/base/result.h"

namespace tide::agent {

// Kills every task in <state_dir>/tasks with its supervisor and removes its folder but the logs.
// No Runtime may be in use on the folder. Returns how many tasks there were.
// Errors: kSystem naming tasks with processes that do not die. Cost: at most 2 s for each of these.
[[nodiscard]] Result<size_t> CleanLeftovers(const std::string& state_dir);

// Ends what still runs of a task of which `state_dir` holds nothing: the folder was emptied, or it
// is another one than the last agent's. Not ended, the task would run beside its next start.
//   run_dir: the task's, on tmpfs: that it is there says that the task was here in this boot.
// Errors: kConflict naming the folder in which it runs; kSystem when its processes do not die.
// Cost: a few scans of /proc; at most 2 s for processes that do not die.
[[nodiscard]] Status EndForgottenTask(const std::string& state_dir,
                                      const std::string& key,
                                      const std::string& run_dir);

}  // namespace tide::agent
