#include "scheduler/core/model/slowdown.h"

#include <catch2/catch.hpp>

namespace tide {
namespace {

constexpr Duration kHour = Duration::Minutes(60);
constexpr Duration kQuarter = Duration::Minutes(15);
const Instant kMoment = Instant::FromUnixNanos(1'800'000'000'000'000'000);

Attempt Ran(Instant queued, Instant placed, Instant released) {
  Attempt attempt;
  attempt.queued_at = queued;
  attempt.placed_at = attempt.running_at = placed;
  attempt.released_at = released;
  return attempt;
}

Job Waits(Instant since) {
  Job job;
  job.phase = Queued{};
  job.state_since = since;
  return job;
}

// Thousandths, within one part in a hundred: short times hardly decay.
void CheckAbout(int64_t slowdown, int64_t expected) {
  CHECK(slowdown > expected * 99 / 100);
  CHECK(slowdown < expected * 101 / 100);
}

}  // namespace

TEST_CASE("slowdown: one that has just come is not slowed, then it grows with the wait") {
  const Slowdown slowdown = SlowdownOf(Waits(kMoment));
  CHECK(slowdown.At(kMoment, kQuarter) == kNotSlowed);
  CheckAbout(slowdown.At(kMoment + kQuarter, kQuarter), 2 * kNotSlowed);
  CheckAbout(slowdown.At(kMoment + kQuarter * 2, kQuarter), 3 * kNotSlowed);
  CHECK(slowdown.At(kMoment + kHour, Duration()) > 3000 * kNotSlowed);  // a second counts as run
}

TEST_CASE("slowdown: what it waited stays when it starts, and fades as it runs") {
  const Slowdown waits = SlowdownOf(Waits(kMoment));
  const Slowdown runs = waits.StartedAt(kMoment + kQuarter);
  CHECK(runs.At(kMoment + kQuarter, kQuarter) == waits.At(kMoment + kQuarter, kQuarter));
  CheckAbout(runs.At(kMoment + kQuarter * 2, kQuarter), kNotSlowed * 3 / 2);
  Job job;
  job.phase = Running{};
  job.attempts = {Ran(kMoment, kMoment + kQuarter, Instant())};
  CHECK(SlowdownOf(job) == runs);
}

TEST_CASE("slowdown: all waits of a job count, but not what it was held between them") {
  Job job = Waits(kMoment + kHour * 3);
  job.attempts = {Ran(kMoment, kMoment + kQuarter, kMoment + kQuarter * 2)};
  const Slowdown slowdown = SlowdownOf(job);
  const int64_t at_its_end = slowdown.At(kMoment + kHour * 3, kQuarter);
  CheckAbout(at_its_end, kNotSlowed * 46 / 100 + kNotSlowed);  // a quarter has faded a little
  CHECK(slowdown.At(kMoment + kHour * 4, kQuarter) > at_its_end * 2);
}

TEST_CASE("slowdown: a long run is no reason to keep a job waiting for ever") {
  Job job = Waits(kMoment + kHour * 2400);
  job.attempts = {Ran(kMoment, kMoment, kMoment + kHour * 2400)};
  CHECK(SlowdownOf(job).At(kMoment + kHour * 2412, kQuarter) > 2 * kNotSlowed - kNotSlowed / 20);
}

}  // namespace tide
