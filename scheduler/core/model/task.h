#pragma once
// One container on one node of one attempt.

#include <cstdint>
#include <string>

#include "common/base/ids.h"
#include "common/base/time.h"

namespace tide {

enum class TaskState : uint8_t {
  kAssigned = 1,  // the scheduler decided; the agent has not answered
  kPreparing = 2,
  kRunning = 3,
  kStopping = 4,
  kExited = 5,  // proven: nothing of it is left on the node
};

// Why a task exited. Decides what happens to the job (see core/fsm/task_outcome.h).
enum class ExitReason : uint8_t {
  kNone = 0,
  kSucceeded = 1,
  kSuspended = 2,    // every rank acknowledged a save and exited 85
  kFailed = 3,       // a rank failed by itself
  kOom = 4,          // killed for memory
  kStopped = 5,      // ended on Tide's order
  kStartFailed = 6,  // never ran, and its job is at fault: image, mount, command
  kLost = 7,         // its supervisor or node vanished
  kCutOff = 8,       // ended by its node, which had not reached the scheduler for too long
  kNodeFault = 9,    // never ran, and its node is at fault: disk full, port in use
  // Never ran: its user is not known on the node, or has his share of it; no fault of the node.
  kNoAccount = 10,
};

struct TaskExit {
  ExitReason reason = ExitReason::kNone;
  int32_t code = 0;
  int32_t signal = 0;
  int32_t rank = -1;
  std::string message;
  bool operator==(const TaskExit&) const = default;
};

struct Task {
  NodeId node;
  TaskState state = TaskState::kAssigned;
  TaskExit exit;  // set once state is kExited
  Instant started_at;
  Instant exited_at;
  Instant parked_at;        // all its ranks wait at the agreed step
  int64_t saved_step = -1;  // newest step all its ranks have saved
  uint32_t gpus = 0;        // that it holds: of a whole node all, whatever the job asked for
  bool operator==(const Task&) const = default;
};

}  // namespace tide
