#pragma once
// What the losses of running jobs show that people should read. Pure.

#include <vector>

#include "common/health/loss_news.h"
#include "scheduler/core/model/event.h"
#include "scheduler/core/model/state.h"

namespace tide {

// What agents saw in the losses of a job's newest attempt, over all of its tasks.
struct SeenLoss {
  JobId job;
  Epoch epoch;
  health::LossNews news;
};

// Returns an event for each thing that the jobs' attempts have no note of yet.
[[nodiscard]] std::vector<EventBody> NoteLosses(const ClusterState& state,
                                                const std::vector<SeenLoss>& seen);

}  // namespace tide
