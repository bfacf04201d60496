#pragma once
// The scheduler's model as messages, and agents' messages as events.

#include "scheduler/core/model/event.h"
#include "scheduler/core/model/state.h"
#include "tide/v1/agent.pb.h"
#include "tide/v1/types.pb.h"

namespace tide::wire {

// A message of a job has its newest attempts only; `starts` counts all.
inline constexpr size_t kAttemptsShownMax = 50;

// `reasons`, `step` and the other live fields are left for the view to fill in.
[[nodiscard]] tide::v1::Job ToProto(const ClusterState& state, const Job& job);
// GPU time that all archived jobs of an owner held.
[[nodiscard]] tide::v1::OwnerGpuTime ToProto(const RunHistory::Owner& owner, const HeldTime& held);
[[nodiscard]] tide::v1::Node ToProto(const ClusterState& state, const Node& node);
[[nodiscard]] tide::v1::Incident ToProto(const ClusterState& state, const Incident& incident);

[[nodiscard]] NodeIdentity IdentityFromProto(const tide::v1::Node& message);
// Errors: kInvalidArgument for enum values this version does not know.
[[nodiscard]] Result<TaskReported> FromProto(const tide::v1::TaskReport& message, NodeId node);
[[nodiscard]] Result<FaultObserved> FromProto(const tide::v1::Fault& message, NodeId node);
[[nodiscard]] ValidationReported FromProto(const tide::v1::ValidationReport& message, NodeId node);

}  // namespace tide::wire
