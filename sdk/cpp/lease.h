#pragma once
// The lease on a folder of checkpoints: one start writes there at a time. The same file and words
// in Python: sdk/python/tide/checkpoint/lease.py.
//
// Rank 0 locks `.lease` (flock) before it reads anything, for the life of its process, and writes
// into it who it is. The kernel lets go when the process ends, however it ends. Where the file
// system has no locks there is no lease; names keep two starts from writing to one checkpoint all
// the same.

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace tide::cpp {

// A start that was ended a moment ago lets go soon; what a dead machine held, a file server keeps
// for longer.
inline constexpr int64_t kLeasePatienceNs = 10'000'000'000;

// Takes the lease for this process.
//   job, attempt: shown to whoever else wants it.
//   Errors: kConflict naming who has it; kSystem.
[[nodiscard]] Status HoldLease(const std::string& folder,
                               const std::string& job,
                               int64_t attempt,
                               int64_t patience_ns = kLeasePatienceNs);

}  // namespace tide::cpp
