#pragma once
// Enums as words in stored rows. Words are for ever: a row written years ago must still load.

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "scheduler/core/model/event.h"

namespace tide {

template <typename E>
using EnumName = std::pair<E, std::string_view>;

template <typename E>
inline constexpr auto kEnumNames = nullptr;

template <>
inline constexpr auto kEnumNames<TaskState> = std::to_array<EnumName<TaskState>>({
    {TaskState::kAssigned, "assigned"},
    {TaskState::kPreparing, "preparing"},
    {TaskState::kRunning, "running"},
    {TaskState::kStopping, "stopping"},
    {TaskState::kExited, "exited"},
});

template <>
inline constexpr auto kEnumNames<ExitReason> = std::to_array<EnumName<ExitReason>>({
    {ExitReason::kNone, "none"},
    {ExitReason::kSucceeded, "succeeded"},
    {ExitReason::kSuspended, "suspended"},
    {ExitReason::kFailed, "failed"},
    {ExitReason::kOom, "oom"},
    {ExitReason::kStopped, "stopped"},
    {ExitReason::kStartFailed, "start_failed"},
    {ExitReason::kLost, "lost"},
    {ExitReason::kCutOff, "cut_off"},
    {ExitReason::kNodeFault, "node_fault"},
    {ExitReason::kNoAccount, "no_account"},
});

template <>
inline constexpr auto kEnumNames<FaultKind> = health::kFaultKindNames;

template <>
inline constexpr auto kEnumNames<IncidentStage> = std::to_array<EnumName<IncidentStage>>({
    {IncidentStage::kDecided, "decided"},
    {IncidentStage::kSeen, "seen"},
    {IncidentStage::kHeld, "held"},
});

template <>
inline constexpr auto kEnumNames<HoldReason> = std::to_array<EnumName<HoldReason>>({
    {HoldReason::kNone, "none"},
    {HoldReason::kBreaker, "breaker"},
    {HoldReason::kLeaf, "leaf"},
});

template <>
inline constexpr auto kEnumNames<FaultAction> = std::to_array<EnumName<FaultAction>>({
    {FaultAction::kCount, "count"},
    {FaultAction::kDrainAfter, "drain_after"},
    {FaultAction::kDrainNow, "drain_now"},
});

template <>
inline constexpr auto kEnumNames<StopCause> = std::to_array<EnumName<StopCause>>({
    {StopCause::kNone, "none"},
    {StopCause::kPreempted, "preempted"},
    {StopCause::kDrained, "drained"},
    {StopCause::kLeft, "left"},
    {StopCause::kFailed, "failed"},
    {StopCause::kFault, "fault"},
    {StopCause::kHeld, "held"},
    {StopCause::kTimeLimit, "time_limit"},
    {StopCause::kCancelled, "cancelled"},
});

template <>
inline constexpr auto kEnumNames<Outcome> = std::to_array<EnumName<Outcome>>({
    {Outcome::kNone, "none"},
    {Outcome::kSucceeded, "succeeded"},
    {Outcome::kFailed, "failed"},
    {Outcome::kCancelled, "cancelled"},
});

template <>
inline constexpr auto kEnumNames<AfterOutcome> = std::to_array<EnumName<AfterOutcome>>({
    {AfterOutcome::kSuccess, "success"},
    {AfterOutcome::kFailure, "failure"},
    {AfterOutcome::kAny, "any"},
});

template <>
inline constexpr auto kEnumNames<OnNan> = std::to_array<EnumName<OnNan>>({
    {OnNan::kNote, "note"},
    {OnNan::kStop, "stop"},
    {OnNan::kRollback, "rollback"},
});

template <>
inline constexpr auto kEnumNames<NoteKind> = std::to_array<EnumName<NoteKind>>({
    {NoteKind::kLossNotFinite, "loss_not_finite"},
    {NoteKind::kLossSpike, "loss_spike"},
    {NoteKind::kSlowJob, "slow_job"},
    {NoteKind::kSlowRank, "slow_rank"},
});

template <>
inline constexpr auto kEnumNames<StartReason> = std::to_array<EnumName<StartReason>>({
    {StartReason::kFirst, "first"},
    {StartReason::kResumed, "resumed"},
    {StartReason::kFault, "fault"},
    {StartReason::kRetry, "retry"},
});

template <>
inline constexpr auto kEnumNames<JobState> = std::to_array<EnumName<JobState>>({
    {JobState::kQueued, "queued"},
    {JobState::kHeld, "held"},
    {JobState::kStarting, "starting"},
    {JobState::kRunning, "running"},
    {JobState::kSaving, "saving"},
    {JobState::kStopping, "stopping"},
    {JobState::kFinished, "finished"},
});

template <>
inline constexpr auto kEnumNames<NodeState> = std::to_array<EnumName<NodeState>>({
    {NodeState::kJoining, "joining"},
    {NodeState::kValidating, "validating"},
    {NodeState::kReady, "ready"},
    {NodeState::kSuspect, "suspect"},
    {NodeState::kLost, "lost"},
    {NodeState::kDraining, "draining"},
    {NodeState::kDrained, "drained"},
    {NodeState::kQuarantined, "quarantined"},
    {NodeState::kProbation, "probation"},
    {NodeState::kRemoved, "removed"},
});

// "" for a value without a word.
template <typename E>
[[nodiscard]] constexpr std::string_view EnumText(E value) {
  for (const auto& [each, name] : kEnumNames<E>) {
    if (each == value) {
      return name;
    }
  }
  return "";
}

template <typename E>
[[nodiscard]] constexpr std::optional<E> EnumFromText(std::string_view text) {
  for (const auto& [each, name] : kEnumNames<E>) {
    if (name == text) {
      return each;
    }
  }
  return std::nullopt;
}

}  // namespace tide
