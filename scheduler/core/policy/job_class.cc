#include "scheduler/core/policy/job_class.h"

namespace tide {

Duration RunTimeAt(const Job& job, Instant now) {
  const bool runs = AllocationOf(job) != nullptr && job.attempts.back().running_at.is_set();
  return runs ? job.run_time + (now - job.attempts.back().running_at) : job.run_time;
}

Duration RunTimeAt(const LiveJob& job, Instant now) {
  return job.running_at.is_set() ? job.run_time + (now - job.running_at) : job.run_time;
}

int32_t Demote(int32_t priority, Duration ran, const Policy& policy) {
  // Every step leads down, so this ends.
  for (auto rule = policy.demotions.find(priority); rule != policy.demotions.end();
       rule = policy.demotions.find(priority)) {
    if (ran < rule->second.after || rule->second.to >= priority) {
      break;
    }
    priority = rule->second.to;
  }
  return priority;
}

Instant NextDemotion(int32_t priority, const LiveJob& job, const Policy& policy, Instant now) {
  const Duration ran = RunTimeAt(job, now);
  const auto rule = policy.demotions.find(Demote(priority, ran, policy));
  return rule == policy.demotions.end() || !job.running_at.is_set()
             ? Instant::Never()
             : now + (rule->second.after - ran);
}

}  // namespace tide
