#pragma once
// The jobs that hold nodes as decisions read them: some words for each, side by side. A pass that
// asks who may have whose nodes does not open thousands of running jobs.

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "scheduler/core/model/job.h"
#include "scheduler/core/model/slowdown.h"

namespace tide {

struct LiveJob {
  JobId id;
  uint32_t owner = 0;    // of ClusterState::owners
  uint32_t user = 0;     // of the owner
  uint32_t group = 0;    // of ClusterState::groups
  NodeId node;           // its first one
  uint32_t nodes = 0;    // how many it holds
  int32_t priority = 0;  // the class it asked for
  bool leaving = false;  // saves or stops
  bool opportunistic = false;
  bool on_part = false;  // of a node
  bool saves = false;    // known to save when it is asked to leave
  int64_t gpus = 0;      // that its owner is charged for
  int64_t rank = 0;      // Job::queue_rank
  Instant placed_at;
  Instant running_at;                       // not set = it starts
  Duration run_time;                        // of its attempts before
  std::optional<Duration> suspension_cost;  // how long the last one took it from its work
  Slowdown slowdown;
  std::optional<bool> saved_when_asked;  // when it was asked to leave last, if it ran then
  Instant saved_at;  // end of what a checkpoint holds of this attempt; its start if none does
  // Returns the work that is lost when it leaves now.
  [[nodiscard]] Duration UnsavedAt(Instant now) const;
  bool operator==(const LiveJob&) const = default;
};

class LiveJobs {
 public:
  // `job` holds nodes. Again: something of it has changed.
  void Put(const Job& job, uint32_t owner, uint32_t user, uint32_t group);
  void Remove(JobId job);

  // In no particular order.
  [[nodiscard]] const std::vector<LiveJob>& all() const { return jobs_; }
  // nullptr: it holds none.
  [[nodiscard]] const LiveJob* Find(JobId job) const;

 private:
  std::vector<LiveJob> jobs_;
  std::map<JobId, size_t> places_;
};

// From the notice of a suspension until it left, and from its next start until it ran: of the last
// one.
[[nodiscard]] std::optional<Duration> MeasuredSuspension(const Job& job);

// Returns what decisions read of a job that holds nodes.
//   before: what they read of it until now, or null: of attempts that have ended it stays as it is.
//   Cost: O(attempts) once for each attempt.
[[nodiscard]] LiveJob LineOf(
    const Job& job, uint32_t owner, uint32_t user, uint32_t group, const LiveJob* before = nullptr);

}  // namespace tide
