#pragma once
// Nodes that draw job after job and fail each at once: what fails leaves them idle, so the next one
// comes. No fault is seen there; that jobs of several users end within seconds is the evidence.

#include "scheduler/core/model/state.h"

namespace tide {

// A program that ends so soon after it began never got to its work. By the scheduler's clock.
inline constexpr Duration kQuickFailure = Duration::Seconds(10);
// One task that ran for so long shows that others may, too.
inline constexpr Duration kRanWell = Duration::Minutes(1);
inline constexpr Duration kQuickFailuresCount = Duration::Minutes(10);
inline constexpr size_t kQuickFailuresKept = 4;

// Notes that a program of the job failed first on that node, if it was as soon as that.
// Returns whether the node is to be suspected: so did a job of another user lately, nothing ran
// well there meanwhile, and neither user's jobs fail like that elsewhere, where it would be their
// own doing.
[[nodiscard]] bool NoteQuickFailure(ClusterState& state, Node& node, const Job& job, Instant at);

// Notes that a task ends that ran on the node since then.
void NoteEnd(Node& node, Instant since, Instant at);

}  // namespace tide
