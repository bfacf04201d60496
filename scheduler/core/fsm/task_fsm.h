#pragma once
// Task states only move forward; the agent may skip some (it reports what is, not each step).

#include "scheduler/core/model/task.h"

namespace tide {

enum class TaskStep : uint8_t {
  kForward,  // news
  kRepeat,   // said already: a legal no-op
  kStale,    // older than what is known: a legal no-op
};

[[nodiscard]] constexpr TaskStep ClassifyTaskReport(TaskState known, TaskState reported) {
  if (reported == known) {
    return TaskStep::kRepeat;
  }
  return static_cast<int>(reported) > static_cast<int>(known) ? TaskStep::kForward
                                                              : TaskStep::kStale;
}

static_assert(ClassifyTaskReport(TaskState::kAssigned, TaskState::kExited) == TaskStep::kForward);
static_assert(ClassifyTaskReport(TaskState::kExited, TaskState::kRunning) == TaskStep::kStale);

}  // namespace tide
