#pragma once
// What an observed fault means for its node and the job on it.

#include <string>

#include "scheduler/core/model/incident.h"

namespace tide {

struct FaultJudgement {
  FaultAction action = FaultAction::kCount;
  std::string meaning;
};

[[nodiscard]] FaultJudgement JudgeFault(FaultKind kind, int32_t code);

}  // namespace tide
