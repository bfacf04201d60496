#pragma once
// The ledger of GPU time, summed: per job as the scheduler counted it, and by owner over all jobs,
// archived ones too.

#include <map>
#include <string>
#include <utility>

#include "api/view/view.h"
#include "common/base/time.h"
#include "scheduler/core/model/gpu_use.h"

namespace tide::api {

// Whose time is summed.
enum class UsageBy : uint8_t {
  kOwner,    // project and user
  kProject,  // under an empty user
  kUser,     // under an empty project
};
using Usage = std::map<std::pair<std::string, std::string>, HeldTime>;  // by project and user

// Returns what was counted, and what the GPUs that a job holds have done since.
//   now: not set: only what was counted.
[[nodiscard]] HeldTime HeldOf(const tide::v1::GpuLedger& ledger, Instant now = {});

// Cost: O(jobs + owners).
[[nodiscard]] Usage SumUsage(const View& view, UsageBy by, Instant now);

// Returns the time of all jobs together, as far as it was counted.
[[nodiscard]] HeldTime CountedByAll(const View& view);

}  // namespace tide::api
