#pragma once
// How much waiting for nodes has slowed a job down lately: what turns inside a class go by
// (docs/adr/0013).

#include <algorithm>
#include <cstdint>
#include <string>

#include "scheduler/core/model/account.h"
#include "scheduler/core/model/job.h"

namespace tide {

// Time after which what a job waited, and what it ran, counts half. Nobody is kept waiting for what
// was long ago.
inline constexpr Duration kSlowdownHalfLife = Duration::Minutes(12 * 60);
inline constexpr int64_t kNotSlowed = 1000;

// Returns what counts as run in any case, so that a job which has not run yet has a slowdown, too.
[[nodiscard]] inline Duration LeastRun(Duration minimum_run) {
  return std::max(minimum_run, Duration::Seconds(1));
}

struct Slowdown {
  Account ran;     // milliseconds
  Account waited;  // for nodes; not while it was held or waited for other jobs
  bool operator==(const Slowdown&) const = default;

  // Returns the time that it waited and ran over the time that it ran, in thousandths: kNotSlowed
  // if it never waited.
  //   minimum_run: counts as run in any case (LeastRun).
  //   now: not before what is counted.
  [[nodiscard]] int64_t At(Instant now, Duration minimum_run) const;
  // Returns that of a job that has waited since then and never ran.
  [[nodiscard]] static Slowdown WaitingSince(Instant since);
  // Returns it for the case that the job, which waits, starts at that moment and runs from then on.
  [[nodiscard]] Slowdown StartedAt(Instant start) const;
};

// "2.5-fold" for 2,450 thousandths: never less than it is.
[[nodiscard]] std::string FoldText(int64_t slowdown);

// Returns that of a job. Cost: O(attempts).
[[nodiscard]] Slowdown SlowdownOf(const Job& job);

}  // namespace tide
