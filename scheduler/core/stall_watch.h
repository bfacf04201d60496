#pragma once
// Which running jobs stand still: their ranks get on no more, and hold their nodes for nothing. Of
// one that does it is told at which step and which rank is the odd one; after a while it begins
// again from its checkpoint (Policy::faults.stall_restart). Pure.
//
// Threads: the loop thread only.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/health/rank_check.h"
#include "scheduler/core/model/event.h"
#include "scheduler/core/model/state.h"
#include "scheduler/core/policy/policy.h"

namespace tide {

// All ranks of a job, as their agents reported them within the last seconds.
struct SeenRanks {
  JobId job;
  Epoch epoch;
  std::vector<health::RankTick> ranks;  // numbered over all tasks
  int64_t total_steps = -1;             // that it wants to make; -1 = not known
};

// Returns "rank 5 on a-n3".
[[nodiscard]] std::string RankName(const ClusterState& state, const Job& job, uint32_t rank);

class StallWatch {
 public:
  // Agents report what ranks are at each second. Two looks lie between the silence of a job and the
  // name of its odd rank.
  [[nodiscard]] static Duration check_interval() { return Duration::Seconds(1); }

  // Returns the jobs that were told to stand still: their ranks are to be among those of the next
  // look, whatever they are at.
  [[nodiscard]] const std::set<JobId>& stalled(const ClusterState& state);

  // Returns an event for each job that stands still, gets on again, or has stood still for too
  // long.
  //   seen: jobs of whose ranks none has come to the end of a step for health::kStallLeast, and
  //   those of stalled().
  [[nodiscard]] std::vector<EventBody> Check(const ClusterState& state,
                                             const Policy& policy,
                                             const std::vector<SeenRanks>& seen,
                                             Instant now);

 private:
  [[nodiscard]] std::optional<EventBody> Judge(const ClusterState& state,
                                               const Policy& policy,
                                               const SeenRanks& seen,
                                               Instant now);
  [[nodiscard]] bool MayRestart(const ClusterState& state,
                                const FaultPolicy& policy,
                                const Job& job,
                                const health::RanksVerdict& verdict,
                                Instant now) const;
  // Ranks that people were told of, and when.
  struct Told {
    Instant at;
    std::string odd;
  };

  bool begun_ = false;
  std::set<JobId> stalled_;
  std::map<JobId, Told> told_;
  std::map<JobId, Duration> longest_;  // that a job stood still and then got on by itself
};

}  // namespace tide
