#pragma once
// When a job's periodic saves are due (docs/adr/0010): at every k * period + phase of Unix time.
// The phase follows from the job's number alone, so that it is the same after any restart, and jobs
// whose numbers follow one another are spread over the period.

#include <cstdint>

#include "common/base/time.h"

namespace tide::agent {

class SaveClock {
 public:
  // every: positive.   now: the first save is due after it.
  SaveClock(Duration every, uint64_t job, Instant now);

  // True once for each time it is due; what was missed is not made up for.
  [[nodiscard]] bool IsDue(Instant now);
  [[nodiscard]] Instant next() const { return next_; }

 private:
  [[nodiscard]] Instant After(Instant now) const;

  Duration every_;
  Duration phase_;
  Instant next_;
};

}  // namespace tide::agent
