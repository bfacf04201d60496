#pragma once
// What an observed fault means for its node and the job on it.

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

// Judges an incident by the rules.   gpu_model: of its node; "" = not known.
[[nodiscard]] FaultJudgement JudgeFault(const health::FaultRules& rules,
                                        const Incident& incident,
                                        const std::string& gpu_model);

}  // namespace tide
