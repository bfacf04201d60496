#include "scheduler/core/model/slowdown_bound.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "common/base/prng.h"

namespace tide {
namespace {

constexpr Instant kBoundNow = Instant::FromUnixNanos(1'900'000'000'000'000'000);
constexpr Duration kBoundRun = Duration::Minutes(30);

Duration DrawMinutes(Prng& prng, uint64_t most) {
  return Duration::Seconds(static_cast<int64_t>(prng.Below(most * 60)));
}

// One that ran and waited by turns, and has waited since.
Slowdown DrawHistory(Prng& prng) {
  Duration waits = DrawMinutes(prng, 600);
  Instant at = kBoundNow - waits;
  std::vector<Duration> spans;
  for (uint64_t turns = 1 + prng.Below(4); turns > 0; --turns) {
    spans.push_back(DrawMinutes(prng, prng.Below(2) == 0 ? 30 : 2000));
    spans.push_back(DrawMinutes(prng, 300));
    at = at - spans[spans.size() - 1] - spans[spans.size() - 2];
  }
  Slowdown slowdown;
  for (size_t i = 0; i < spans.size(); i += 2) {
    slowdown.waited.Change(1, at, kSlowdownHalfLife);
    at = at + spans[i];
    slowdown.waited.Change(-1, at, kSlowdownHalfLife);
    slowdown.ran.Change(1, at, kSlowdownHalfLife);
    at = at + spans[i + 1];
    slowdown.ran.Change(-1, at, kSlowdownHalfLife);
  }
  slowdown.waited.Change(1, at, kSlowdownHalfLife);
  return slowdown;
}

SlowdownBound BoundOf(const std::vector<Slowdown>& jobs) {
  SlowdownBound bound;
  for (const Slowdown& job : jobs) {
    bound.Add(job);
  }
  return bound;
}

int64_t SlowestAt(const std::vector<Slowdown>& jobs, Instant at, Duration minimum_run) {
  int64_t most = 0;
  for (const Slowdown& job : jobs) {
    most = std::max(most, job.At(at, minimum_run));
  }
  return most;
}

}  // namespace

TEST_CASE("property: a bound of slowdowns is that of the slowest, at any later time") {
  Prng prng(7);
  double excess = 0;
  int bounds = 0;
  for (int world = 0; world < 2000; ++world) {
    CAPTURE(world);
    std::vector<Slowdown> jobs(1 + prng.Below(64));
    for (Slowdown& job : jobs) {
      job = DrawHistory(prng);
    }
    const SlowdownBound bound = BoundOf(jobs);
    for (const int64_t minutes : {0, 1, 30, 600, 4000}) {
      const Instant at = kBoundNow + Duration::Minutes(minutes);
      for (const Duration run : {kBoundRun, Duration::Seconds(60)}) {
        const int64_t slowest = SlowestAt(jobs, at, run);
        const int64_t most = bound.At(at, run);
        REQUIRE(most >= slowest);
        REQUIRE(most <= slowest + 2 + slowest / (jobs.size() <= 6 ? 100 : 4));
        excess += static_cast<double>(most - slowest) / static_cast<double>(slowest);
        ++bounds;
      }
    }
  }
  CHECK(excess / bounds < 0.01);
}

TEST_CASE("a bound of slowdowns holds where what was run is forgotten") {
  Prng prng(8);
  const std::vector<Slowdown> jobs{DrawHistory(prng), DrawHistory(prng)};
  const SlowdownBound bound = BoundOf(jobs);
  const Instant later = kBoundNow + kSlowdownHalfLife * (kHalfLivesKept + 1);
  CHECK(bound.At(later, kBoundRun) >= SlowestAt(jobs, later, kBoundRun));
}

TEST_CASE("a bound of slowdowns holds for jobs that came weeks apart") {
  Prng prng(9);
  Slowdown late = DrawHistory(prng);
  constexpr Duration kWeeks = Duration::Minutes(60 * 24 * 40);
  late.ran.as_of = late.ran.as_of + kWeeks;
  late.waited.as_of = late.waited.as_of + kWeeks;
  const std::vector<Slowdown> jobs{DrawHistory(prng), late, DrawHistory(prng)};
  const int64_t slowest = SlowestAt(jobs, kBoundNow + kWeeks, kBoundRun);
  const int64_t most = BoundOf(jobs).At(kBoundNow + kWeeks, kBoundRun);
  CHECK(most >= slowest);
  CHECK(most <= slowest + 2 + slowest / 100);
}

TEST_CASE("a bound of no jobs is that of one which never waited") {
  CHECK(SlowdownBound().At(kBoundNow, kBoundRun) == kNotSlowed);
}

TEST_CASE("only jobs that wait and do not run are bounded together") {
  CHECK(SlowdownBound::Holds(Slowdown::WaitingSince(kBoundNow)));
  CHECK_FALSE(SlowdownBound::Holds(Slowdown()));
  CHECK_FALSE(SlowdownBound::Holds(Slowdown::WaitingSince(kBoundNow).StartedAt(kBoundNow)));
}

}  // namespace tide
