#pragma once
// The order in which one owner's jobs of a class are looked at: as the owner has moved them, then
// first come. `tide move` changes it by lowering ranks; nothing raises one.

#include <tuple>
#include <vector>

#include "scheduler/core/model/job.h"

namespace tide {

struct ClusterState;

[[nodiscard]] inline bool ComesFirst(const Job& a, const Job& b) {
  return std::tuple(a.queue_rank, a.id) < std::tuple(b.queue_rank, b.id);
}

// The jobs of the queue with the user, project and class of `job`, first to last, without `job`.
//   Cost: O(its jobs + blocked jobs).
[[nodiscard]] std::vector<const Job*> QueueOf(const ClusterState& state, const Job& job);

struct RankChange {
  JobId job;
  int64_t rank = 0;
};
// Ranks that bring `job` before the one at `place` of its queue, as few as do it.
//   place: below queue.size().   Cost: O(place).
[[nodiscard]] std::vector<RankChange> RanksToStandBefore(const Job& job,
                                                         const std::vector<const Job*>& queue,
                                                         size_t place);

}  // namespace tide
