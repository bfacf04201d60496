#pragma once
// Finds what people should read in the losses of running jobs. Pure.

#include <vector>

#include "common/health/loss_news.h"
#include "scheduler/core/model/event.h"
#include "scheduler/core/model/state.h"

namespace tide {

// Losses of a job's newest attempt as agents saw them, over all of its tasks.
struct SeenLoss {
  JobId job;
  Epoch epoch;
  health::LossNews news;
};

// Returns an event for each thing that the jobs' attempts have no note of yet.
[[nodiscard]] std::vector<EventBody> NoteLosses(const ClusterState& state,
                                                const std::vector<SeenLoss>& seen);

}  // namespace tide
