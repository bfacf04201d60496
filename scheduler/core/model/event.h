#pragma once
// Causes. Every change of the cluster's state is one of these, and all of them are logged.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/spec/job_spec.h"
#include "scheduler/core/model/incident.h"
#include "scheduler/core/model/job.h"
#include "scheduler/core/model/node.h"
#include "scheduler/core/model/task.h"

namespace tide {

// --- asked for by people -------------------------------------------------------------------
struct JobSubmitted {
  JobId job;
  JobSpec spec;
  std::string user;
  std::string idempotency_key;
};
struct HoldRequested {
  JobId job;
  Instant deadline;
  std::string actor;
  std::string reason;
};
struct ReleaseRequested {
  JobId job;
  std::string actor;
};
struct CancelRequested {
  JobId job;
  std::string actor;
  std::string reason;
};
struct DrainRequested {
  NodeId node;
  std::string actor;
  std::string reason;
};
struct UndrainRequested {
  NodeId node;
  std::string actor;
};
struct ValidationRequested {
  NodeId node;
  std::string request_id;
  std::string actor;
};

// --- decided by the scheduler --------------------------------------------------------------
struct JobPlaced {
  JobId job;
  Epoch epoch;
  Allocation allocation;
};
struct ClaimMade {
  JobId job;
  Claim claim;
};
struct ClaimDropped {
  JobId job;
};
struct SuspendRequested {
  JobId job;
  StopCause cause = StopCause::kPreempted;  // kPreempted or kDrained
  JobId beneficiary;
  Instant deadline;
  std::string reason;
};
struct SuspendWithdrawn {
  JobId job;
};
struct DeadlinePassed {
  JobId job;
};
struct TimeLimitReached {
  JobId job;
};

// --- reported by agents --------------------------------------------------------------------
struct TaskReported {
  NodeId node;
  JobId job;
  Epoch epoch;
  uint32_t task = 0;
  TaskState state = TaskState::kAssigned;
  TaskExit exit;
  Instant at;
  Instant parked_at;
  int64_t stop_step = -1;
  int64_t saved_step = -1;
  Instant saved_at;
};
struct NodeJoined {
  NodeId node;
  NodeIdentity identity;
  std::vector<TaskReported> tasks;  // everything the agent holds
};
struct FaultObserved {
  NodeId node;
  FaultKind kind = FaultKind::kXid;
  int32_t code = 0;
  std::string device;
  std::string text;
  Instant seen_at;
};
struct ValidationReported {
  NodeId node;
  std::string request_id;
  std::vector<Verdict> verdicts;
};

// --- noticed by the server -----------------------------------------------------------------
struct NodeSilent {
  NodeId node;
};
struct NodeHeard {
  NodeId node;
};
struct NodeLost {
  NodeId node;
};
// The agent's isolation timeout is over: it has stopped its tasks, wherever it is.
struct NodeIsolated {
  NodeId node;
};
struct ProbationOver {
  NodeId node;
};

using EventBody = std::variant<JobSubmitted,
                               HoldRequested,
                               ReleaseRequested,
                               CancelRequested,
                               DrainRequested,
                               UndrainRequested,
                               ValidationRequested,
                               JobPlaced,
                               ClaimMade,
                               ClaimDropped,
                               SuspendRequested,
                               SuspendWithdrawn,
                               DeadlinePassed,
                               TimeLimitReached,
                               TaskReported,
                               NodeJoined,
                               FaultObserved,
                               ValidationReported,
                               NodeSilent,
                               NodeHeard,
                               NodeLost,
                               NodeIsolated,
                               ProbationOver>;

struct Event {
  Instant at;
  EventBody body;
};

// "job_submitted": the `type` column of the events table.
[[nodiscard]] std::string_view EventName(const EventBody& body);

}  // namespace tide
