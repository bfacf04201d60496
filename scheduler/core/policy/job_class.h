#pragma once
// The class a job stands in now. It is computed, never stored: another policy gives another class.

#include "scheduler/core/model/job.h"
#include "scheduler/core/model/live_jobs.h"
#include "scheduler/core/policy/policy.h"

namespace tide {

inline constexpr int32_t kAutoPriority = -1;  // the highest class with quota left (quota.h)
inline constexpr int32_t kLowPriority = 0;

// How long the job has run, over all its attempts.
[[nodiscard]] Duration RunTimeAt(const Job& job, Instant now);
[[nodiscard]] Duration RunTimeAt(const LiveJob& job, Instant now);

// What becomes of class `priority` once the job has run for so long.
[[nodiscard]] int32_t Demote(int32_t priority, Duration ran, const Policy& policy);

// When a running job of class `priority` is next demoted; Never when it is not.
[[nodiscard]] Instant NextDemotion(int32_t priority,
                                   const LiveJob& job,
                                   const Policy& policy,
                                   Instant now);

}  // namespace tide
