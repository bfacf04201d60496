#pragma once
// Which job events are legal in which state, folded at compile time (jobs.md section 1).
// The table decides legality and the next state; Apply fills in the data.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "scheduler/core/model/job.h"

namespace tide {

enum class JobEvent : uint8_t {
  kPlaced,
  kAllTasksRunning,
  kAllTasksSucceeded,
  kSuspendRequested,
  kHoldRequested,
  kSuspended,       // every task saved and left
  kDeadlinePassed,  // of saving, or of the grace before SIGKILL
  kSuspendWithdrawn,
  kTaskFailed,
  kNodeLost,  // or its node is broken
  kCancelRequested,
  kStoppedRequeue,  // every task stopped; the cause says: run again
  kStoppedHold,     // … stay held
  kStoppedFinish,   // … it is over
  kReleaseRequested,
  kDependencyFailed,  // what it waits for can never come
};
inline constexpr int kJobEventCount = 16;

struct JobTransition {
  JobState from;
  JobEvent event;
  JobState to;
};

inline constexpr auto kJobTransitions = std::to_array<JobTransition>({
    {JobState::kQueued, JobEvent::kPlaced, JobState::kStarting},
    {JobState::kQueued, JobEvent::kHoldRequested, JobState::kHeld},
    {JobState::kQueued, JobEvent::kCancelRequested, JobState::kFinished},
    {JobState::kQueued, JobEvent::kDependencyFailed, JobState::kFinished},

    {JobState::kHeld, JobEvent::kReleaseRequested, JobState::kQueued},
    {JobState::kHeld, JobEvent::kCancelRequested, JobState::kFinished},

    {JobState::kStarting, JobEvent::kAllTasksRunning, JobState::kRunning},
    // Nothing to save yet.
    {JobState::kStarting, JobEvent::kSuspendRequested, JobState::kStopping},
    {JobState::kStarting, JobEvent::kHoldRequested, JobState::kStopping},
    {JobState::kStarting, JobEvent::kDeadlinePassed, JobState::kStopping},
    {JobState::kStarting, JobEvent::kTaskFailed, JobState::kStopping},
    {JobState::kStarting, JobEvent::kNodeLost, JobState::kStopping},
    {JobState::kStarting, JobEvent::kCancelRequested, JobState::kStopping},

    {JobState::kRunning, JobEvent::kAllTasksSucceeded, JobState::kFinished},
    {JobState::kRunning, JobEvent::kSuspendRequested, JobState::kSaving},
    {JobState::kRunning, JobEvent::kHoldRequested, JobState::kSaving},
    // Ranks may leave on their own, or a withdrawal may come too late (docs/adr/0001).
    {JobState::kRunning, JobEvent::kSuspended, JobState::kStopping},
    {JobState::kRunning, JobEvent::kDeadlinePassed, JobState::kStopping},  // time limit
    {JobState::kRunning, JobEvent::kTaskFailed, JobState::kStopping},
    {JobState::kRunning, JobEvent::kNodeLost, JobState::kStopping},
    {JobState::kRunning, JobEvent::kCancelRequested, JobState::kStopping},

    // Finishing while being suspended is a success.
    {JobState::kSaving, JobEvent::kAllTasksSucceeded, JobState::kFinished},
    {JobState::kSaving, JobEvent::kSuspendRequested, JobState::kSaving},  // raise the cause
    {JobState::kSaving, JobEvent::kHoldRequested, JobState::kSaving},
    {JobState::kSaving, JobEvent::kSuspended, JobState::kStopping},
    {JobState::kSaving, JobEvent::kDeadlinePassed, JobState::kStopping},
    {JobState::kSaving, JobEvent::kSuspendWithdrawn, JobState::kRunning},
    {JobState::kSaving, JobEvent::kTaskFailed, JobState::kStopping},
    {JobState::kSaving, JobEvent::kNodeLost, JobState::kStopping},
    {JobState::kSaving, JobEvent::kCancelRequested, JobState::kStopping},

    {JobState::kStopping, JobEvent::kAllTasksSucceeded, JobState::kFinished},
    // Raise the reason, or escalate to SIGKILL.
    {JobState::kStopping, JobEvent::kHoldRequested, JobState::kStopping},
    {JobState::kStopping, JobEvent::kDeadlinePassed, JobState::kStopping},
    {JobState::kStopping, JobEvent::kTaskFailed, JobState::kStopping},
    {JobState::kStopping, JobEvent::kNodeLost, JobState::kStopping},
    {JobState::kStopping, JobEvent::kCancelRequested, JobState::kStopping},
    {JobState::kStopping, JobEvent::kStoppedRequeue, JobState::kQueued},
    {JobState::kStopping, JobEvent::kStoppedHold, JobState::kHeld},
    {JobState::kStopping, JobEvent::kStoppedFinish, JobState::kFinished},
});

// The state after `event`, or nothing when it is illegal in `from`.
[[nodiscard]] constexpr std::optional<JobState> NextJobState(JobState from, JobEvent event) {
  for (const JobTransition& row : kJobTransitions) {
    if (row.from == from && row.event == event) {
      return row.to;
    }
  }
  return std::nullopt;
}

[[nodiscard]] std::string_view JobEventName(JobEvent event);

namespace job_fsm_checks {

constexpr bool NoDuplicates() {
  for (size_t i = 0; i < kJobTransitions.size(); ++i) {
    for (size_t j = i + 1; j < kJobTransitions.size(); ++j) {
      if (kJobTransitions[i].from == kJobTransitions[j].from &&
          kJobTransitions[i].event == kJobTransitions[j].event) {
        return false;
      }
    }
  }
  return true;
}

constexpr bool HasExit(JobState state) {
  for (const JobTransition& row : kJobTransitions) {
    if (row.from == state && row.to != state) {
      return true;
    }
  }
  return false;
}

constexpr bool IsReachable(JobState state) {
  std::array<bool, kJobStateCount> seen{};
  seen[static_cast<size_t>(JobState::kQueued)] = true;
  for (int round = 0; round < kJobStateCount; ++round) {
    for (const JobTransition& row : kJobTransitions) {
      if (seen[static_cast<size_t>(row.from)]) {
        seen[static_cast<size_t>(row.to)] = true;
      }
    }
  }
  return seen[static_cast<size_t>(state)];
}

constexpr bool EveryStateIsSound() {
  for (int i = 0; i < kJobStateCount; ++i) {
    const auto state = static_cast<JobState>(i);
    const bool terminal = state == JobState::kFinished;
    if (!IsReachable(state) || HasExit(state) == terminal ||
        NextJobState(state, JobEvent::kCancelRequested).has_value() == terminal) {
      return false;
    }
  }
  return true;
}

}  // namespace job_fsm_checks

static_assert(job_fsm_checks::NoDuplicates(), "one row per state and event");
static_assert(job_fsm_checks::EveryStateIsSound(),
              "terminal states are closed; every live state is reachable, has an exit, and can be "
              "cancelled");

}  // namespace tide
