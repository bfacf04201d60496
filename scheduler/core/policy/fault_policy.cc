#include "scheduler/core/policy/fault_policy.h"

#include <utility>

#include "common/health/kernel_log.h"

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

FaultJudgement JudgeFault(const health::FaultRules& rules, const FaultCase& fault) {
  const Incident& incident = fault.incident;
  std::string detail = incident.text;
  if (const auto parsed = health::ParseKernelLine(incident.text);
      parsed && parsed->kind == incident.kind && parsed->code == incident.code) {
    detail = parsed->detail;
  }
  health::Judgement found = rules.Judge({incident.kind, incident.code, detail, fault.gpu_model});
  if (found.two_users > found.action && fault.hurts_two_users()) {
    found.action = found.two_users;
    found.meaning += "; jobs of two users met it on this device alone";
  }
  FaultJudgement judgement{ActionOf(found.action),
                           std::move(found.meaning),
                           std::move(found.covers),
                           std::move(found.repair)};
  if (incident.kind == FaultKind::kFailedTest && judgement.covers.empty()) {
    judgement.covers = {incident.device};
  }
  if (found.shadow) {
    std::swap(judgement.action, judgement.shadow);
  }
  return judgement;
}

}  // namespace tide
