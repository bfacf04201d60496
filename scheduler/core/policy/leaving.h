#pragma once
// Jobs on their way off their nodes.

#include "scheduler/core/model/job.h"

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

// Returns the job that it leaves for; 0 = none.
[[nodiscard]] inline JobId BeneficiaryOf(const Job& job) {
  const auto* saving = std::get_if<Saving>(&job.phase);
  return saving != nullptr ? saving->beneficiary : JobId();
}

}  // namespace tide
