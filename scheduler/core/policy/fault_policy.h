#pragma once
// What an observed fault means for its node and the job on it.

#include <functional>
#include <string>
#include <vector>

#include "common/health/fault_rules.h"
#include "scheduler/core/model/incident.h"

namespace tide {

struct FaultJudgement {
  FaultAction action = FaultAction::kCount;
  std::string meaning;
  std::vector<std::string> covers;
  std::string repair;
  FaultAction shadow = FaultAction::kCount;  // what would be done, were the rule in force
};

struct FaultCase {
  const Incident& incident;
  std::string gpu_model;                  // of its node; "" = not known
  std::function<bool()> hurts_two_users;  // answer, asked where the rule does
};

// Judges an incident by the rules.
[[nodiscard]] FaultJudgement JudgeFault(const health::FaultRules& rules, const FaultCase& fault);

}  // namespace tide
