#pragma once
// The slowdown of the slowest of several waiting jobs, without a look at each: while they wait, no
// one of them but those on the edge of the set ever becomes the slowest.

#include <array>
#include <cstddef>
#include <cstdint>

#include "scheduler/core/model/slowdown.h"

namespace tide {

class SlowdownBound {
 public:
  // Reports whether the job waits and does not run, as all must that are bounded together.
  [[nodiscard]] static bool Holds(const Slowdown& slowdown);

  // Bounds one more.   Cost: O(edge).
  void Add(const Slowdown& job);
  // Returns at least Slowdown::At of each of the jobs, and little more than that of the slowest: a
  // fiftieth where the edge was too long to be kept.
  //   now: not before anything that is counted.   Cost: O(edge).
  [[nodiscard]] int64_t At(Instant now, Duration minimum_run) const;

 private:
  static constexpr size_t kEdge = 6;  // sixty jobs seldom have more

  // Milliseconds at as_of_; of a job that came later what decays and grows to what it has then.
  struct Times {
    double ran = 0;
    double waited = 0;
  };

  void MoveTo(Instant at);
  void Insert(const Times& times);
  // Takes the two on the edge for one that lie next to each other: one that ran as short as the
  // first and waited as long as the second.
  void Join();

  Instant as_of_;
  Instant forgets_at_ = Instant::Never();  // what one of them ran counts no more then
  size_t size_ = 0;                        // of the edge
  std::array<Times, kEdge + 1> edge_;      // both rise; in place: a pass waits for no more memory
};

}  // namespace tide
