#pragma once
// A folder of checkpoints as a start of the job finds it. sdk/python/tide/checkpoint/store.py.

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace tide::cpp {

// An attempt number for a start outside the platform, equal on all ranks: only committed
// checkpoints count, and a new one needs a part of every rank of this start. Errors: kSystem.
[[nodiscard]] Result<int64_t> NextAttempt(const std::string& folder);

// Removes what an earlier start of this attempt wrote for `rank` and never committed.
[[nodiscard]] Status DropOwnLeftovers(const std::string& folder, int64_t attempt, int64_t rank);

// A name no earlier start of the same attempt used: its file may already be part of a commit.
[[nodiscard]] std::string FreeName(const std::string& directory, int64_t rank);

// What the saver of `rank` locks while it is saving, where no agent fences one start from the next.
[[nodiscard]] std::string LockPath(const std::string& folder, int64_t rank);

// Waits for savers whose ranks have been killed: what they commit must be there for all ranks or
// for none. deadline_ns: CLOCK_MONOTONIC; who is still there then is named on stderr.
void AwaitOrphans(const std::string& folder, int64_t deadline_ns);

}  // namespace tide::cpp
