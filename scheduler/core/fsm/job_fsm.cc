#include "scheduler/core/fsm/job_fsm.h"

namespace tide {

std::string_view JobEventName(JobEvent event) {
  switch (event) {
    case JobEvent::kPlaced:
      return "placed";
    case JobEvent::kAllTasksRunning:
      return "all tasks running";
    case JobEvent::kAllTasksSucceeded:
      return "all tasks succeeded";
    case JobEvent::kSuspendRequested:
      return "suspend requested";
    case JobEvent::kHoldRequested:
      return "suspended by its user";
    case JobEvent::kSuspended:
      return "suspended";
    case JobEvent::kDeadlinePassed:
      return "deadline passed";
    case JobEvent::kSuspendWithdrawn:
      return "suspension withdrawn";
    case JobEvent::kTaskFailed:
      return "task failed";
    case JobEvent::kNodeLost:
      return "node lost";
    case JobEvent::kCancelRequested:
      return "cancelled";
    case JobEvent::kStoppedRequeue:
      return "stopped, to run again";
    case JobEvent::kStoppedHold:
      return "stopped, held";
    case JobEvent::kStoppedFinish:
      return "stopped for good";
    case JobEvent::kReleaseRequested:
      return "resumed by its user";
    case JobEvent::kDependencyFailed:
      return "dependency failed";
  }
  return "";
}

}  // namespace tide
