#pragma once
// Finds running jobs that became slower, and ranks that make all others of their job wait. Both are
// only told: a slow rank ends nothing. Pure.
//
// Threads: the loop thread only.

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "scheduler/core/model/event.h"
#include "scheduler/core/model/state.h"

namespace tide {

// How fast a rank is, as its agent reported it last.
struct RankPace {
  int64_t step = -1;
  Duration pace = {};     // median of the last few steps; 0 = not known
  Duration compute = {};  // median of what it computed in them before it waited; 0 = not known
};

struct SeenPaces {
  JobId job;
  Epoch epoch;
  std::vector<RankPace> ranks;  // by number, over all tasks
};

// Looks at windows of time in each of which every rank has made a step. A rank is slow that
// computes for 7 % longer than the median of its job in three of the last five. A job is slow whose
// steps took 10 % longer than before in each of the last five.
class SlowWatch {
 public:
  [[nodiscard]] static Duration window() { return Duration::Seconds(10); }
  static constexpr size_t kWindowsBefore = 60;  // that say how long steps took before
  static constexpr size_t kWindowsLeast = 6;    // of these, before anything is said of a job

  // Returns an event for each thing that the jobs' attempts have no note of yet. To be called at
  // the end of each window.   Cost: O(ranks).
  [[nodiscard]] std::vector<EventBody> Check(const ClusterState& state,
                                             const std::vector<SeenPaces>& seen);

 private:
  struct Known {
    Epoch epoch;
    std::vector<int64_t> steps;  // of the ranks, at the end of the last window
    std::vector<uint8_t> slow;   // windows in which each was slow, the last one in the lowest bit
    std::deque<Duration> paces;  // of the job, a window each, oldest first
  };
  static void AddWindow(Known& known, const std::vector<RankPace>& ranks);

  std::map<JobId, Known> known_;
};

}  // namespace tide
