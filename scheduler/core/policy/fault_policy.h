#pragma once
// What an observed fault means for its node and the job on it.

#include <string>

#include "scheduler/core/model/incident.h"

namespace tide {

struct FaultJudgement {
  FaultAction action = FaultAction::kCount;
  std::string meaning;
};

// text: the kernel's line without its envelope; some codes say in words how bad it is.
[[nodiscard]] FaultJudgement JudgeFault(FaultKind kind, int32_t code, const std::string& text);

}  // namespace tide
