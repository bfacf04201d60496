#include "scheduler/core/policy/job_class.h"

namespace tide {

Duration RunTimeAt(const Job& job, Instant now) {
  const bool runs = AllocationOf(job) != nullptr && job.attempts.back().running_at.is_set();
  return runs ? job.run_time + (now - job.attempts.back().running_at) : job.run_time;
}

int32_t Demote(int32_t priority, const Job& job, const Policy& policy, Instant now) {
  // Every step leads down, so this ends.
  for (auto rule = policy.demotions.find(priority); rule != policy.demotions.end();
       rule = policy.demotions.find(priority)) {
    if (RunTimeAt(job, now) < rule->second.after || rule->second.to >= priority) {
      break;
    }
    priority = rule->second.to;
  }
  return priority;
}

Instant NextDemotion(int32_t priority, const Job& job, const Policy& policy, Instant now) {
  const auto rule = policy.demotions.find(Demote(priority, job, policy, now));
  if (rule == policy.demotions.end() || AllocationOf(job) == nullptr ||
      !job.attempts.back().running_at.is_set()) {
    return Instant::Never();
  }
  return now + (rule->second.after - RunTimeAt(job, now));
}

}  // namespace tide
