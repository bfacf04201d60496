#pragma once
// Jobs on their way off their nodes.

#include <algorithm>

#include "scheduler/core/model/job.h"
#include "scheduler/core/policy/policy.h"

namespace tide {

[[nodiscard]] inline bool IsLeaving(const Job& job) {
  return std::holds_alternative<Saving>(job.phase) || std::holds_alternative<Stopping>(job.phase);
}

// Reports whether it may still be told to go on: a victim that does not wait at its stop step yet.
[[nodiscard]] inline bool MayGoOn(const Job& job) {
  const auto* saving = std::get_if<Saving>(&job.phase);
  return saving != nullptr && saving->cause == StopCause::kPreempted &&
         !job.attempts.back().parked_at.is_set();
}

// Returns how long a job has to save that is asked to leave.
[[nodiscard]] inline Duration NoticeOf(const Job& job, const Policy& policy) {
  return std::min(job.spec->suspend_notice, policy.suspend_notice_max);
}

// Returns the job that it leaves for; 0 = none.
[[nodiscard]] inline JobId BeneficiaryOf(const Job& job) {
  const auto* saving = std::get_if<Saving>(&job.phase);
  return saving != nullptr ? saving->beneficiary : JobId();
}

}  // namespace tide
