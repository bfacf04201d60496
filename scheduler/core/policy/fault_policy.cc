#include "scheduler/core/policy/fault_policy.h"

namespace tide {

FaultJudgement JudgeFault(FaultKind kind, int32_t code) {
  if (kind == FaultKind::kLinkDown) {
    return {FaultAction::kDrainAfter, "InfiniBand port lost its link"};
  }
  switch (code) {
    case 79:
      return {FaultAction::kDrainNow, "GPU has fallen off the bus"};
    case 63:
      return {FaultAction::kDrainAfter, "row remap recorded, GPU wants a reset"};
    default:
      return {FaultAction::kCount, "recorded"};
  }
}

}  // namespace tide
