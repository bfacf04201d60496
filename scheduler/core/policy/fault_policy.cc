#include "scheduler/core/policy/fault_policy.h"

#include "common/health/kernel_log.h"
#include "common/health/xid_table.h"

namespace tide {
namespace {

FaultAction ActionOf(health::FaultAction action) {
  switch (action) {
    case health::FaultAction::kNone:
    case health::FaultAction::kCount:
      return FaultAction::kCount;
    case health::FaultAction::kDrainAfter:
      return FaultAction::kDrainAfter;
    case health::FaultAction::kRestartJob:
      // The GPU must be reset before its next job. Nothing resets it yet, so the node waits for a
      // validation, as after a fault that takes it out at once.
    case health::FaultAction::kDrainNow:
      return FaultAction::kDrainNow;
  }
  return FaultAction::kCount;
}

}  // namespace

FaultJudgement JudgeFault(FaultKind kind, int32_t code, const std::string& text) {
  if (kind == FaultKind::kFailedStarts) {
    return {FaultAction::kDrainAfter, "tasks cannot start here"};
  }
  if (kind == FaultKind::kLeafLinks) {
    return {FaultAction::kCount, "a leaf switch, its power or its cables"};
  }
  if (kind == FaultKind::kBreaker) {
    return {FaultAction::kCount, "too much broke at once: a person should look"};
  }
  health::KernelFault fault;
  fault.kind = kind == FaultKind::kXid ? health::FaultKind::kXid : health::FaultKind::kLinkDown;
  fault.code = code;
  if (const auto parsed = health::ParseKernelLine(text);
      parsed && parsed->kind == fault.kind && parsed->code == code) {
    fault.detail = parsed->detail;
  }
  const health::Judgement judgement = health::Judge(fault);
  return {ActionOf(judgement.action), std::string(judgement.meaning)};
}

}  // namespace tide
