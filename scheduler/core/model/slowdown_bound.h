#pragma once
// The slowdown of the slowest of several waiting jobs, without a look at each: while they wait, no
// one of them but those on the edge of the set ever becomes the slowest.

#include <vector>

#include "scheduler/core/model/slowdown.h"

namespace tide {

class SlowdownBound {
 public:
  // Reports whether the job waits and does not run, as all must that are bounded together.
  [[nodiscard]] static bool Holds(const Slowdown& slowdown);

  // Bounds one more.   Cost: O(edge), a few of sixty jobs.
  void Add(const Slowdown& job);
  // Returns at least Slowdown::At of each of the jobs, and little more than that of the slowest.
  //   now: not before anything that is counted.   Cost: O(edge).
  [[nodiscard]] int64_t At(Instant now, Duration minimum_run) const;

 private:
  // Milliseconds at as_of_; of a job that came later what decays and grows to what it has then.
  struct Times {
    double ran = 0;
    double waited = 0;
  };

  void MoveTo(Instant at);
  void Insert(const Times& times);

  Instant as_of_;
  Instant forgets_at_ = Instant::Never();  // what one of them ran counts no more then
  std::vector<Times> edge_;                // both rise
};

}  // namespace tide
