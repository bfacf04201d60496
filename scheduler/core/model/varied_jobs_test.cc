#include "scheduler/core/model/varied_jobs.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "common/base/prng.h"

namespace tide {
namespace {

constexpr Instant kVariedNow = Instant::FromUnixNanos(1'900'000'000'000'000'000);
constexpr Duration kVariedRun = Duration::Minutes(30);
constexpr uint32_t kShape = 3;

Instant MinutesAgo(uint64_t minutes) {
  return kVariedNow - Duration::Minutes(static_cast<int64_t>(minutes));
}

WaitingJob AVariedJob(uint64_t id, Prng& prng) {
  WaitingJob job;
  job.id = JobId(id);
  job.since = MinutesAgo(prng.Below(600));
  job.shape = kShape;
  job.plain = true;
  job.has_run = prng.Below(4) > 0;
  job.slowdown = Slowdown::WaitingSince(job.since - Duration::Minutes(200));
  job.slowdown.waited.Change(-1, job.since - Duration::Minutes(100), kSlowdownHalfLife);
  job.slowdown.ran.Change(1, job.since - Duration::Minutes(100), kSlowdownHalfLife);
  job.slowdown.ran.Change(-1, job.since, kSlowdownHalfLife);
  job.slowdown.waited.Change(1, job.since, kSlowdownHalfLife);
  return job;
}

std::vector<WaitingJob> AllOf(const VariedJobs& jobs) {
  std::vector<WaitingJob> all;
  for (size_t place = 0; place != jobs.end(); place = jobs.Next(place)) {
    all.push_back(jobs[place]);
  }
  return all;
}

bool IsReached(const WaitingJob& job, const AnswerReach& reach) {
  return reach.first_since <= job.since && job.since <= reach.last_since &&
         job.slowdown.At(reach.now, reach.minimum_run) <= reach.slowdown;
}

AnswerReach DrawReach(Prng& prng) {
  return {.first_since = MinutesAgo(300 + prng.Below(330)),
          .last_since = prng.Below(2) == 0 ? Instant::Never() : MinutesAgo(prng.Below(30)),
          .slowdown = kNotSlowed + static_cast<int64_t>(prng.Below(7000)),
          .now = kVariedNow,
          .minimum_run = kVariedRun};
}

// Compares with a walk over a plain list of the same jobs.
void CheckReach(const VariedJobs& jobs,
                const std::vector<WaitingJob>& all,
                size_t from,
                const AnswerReach& reach) {
  size_t place = 0;
  for (size_t i = 0; i < from; ++i) {
    place = jobs.Next(place);
  }
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(from);
  const auto beyond =
      std::find_if(begin, all.end(), [&](const auto& job) { return !IsReached(job, reach); });
  const size_t found = jobs.Beyond(reach, place);
  REQUIRE((found == jobs.end()) == (beyond == all.end()));
  if (beyond != all.end()) {
    REQUIRE(jobs[found].id == beyond->id);
  }
}

void CheckAfter(const VariedJobs& jobs, const std::vector<WaitingJob>& all, JobId id) {
  const auto after = std::ranges::upper_bound(all, id, {}, &WaitingJob::id);
  const size_t place = jobs.After(0, id);
  REQUIRE((place == jobs.end()) == (after == all.end()));
  if (after != all.end()) {
    REQUIRE(jobs[place].id == after->id);
  }
  REQUIRE(jobs.After(-1, id) == 0);
  REQUIRE(jobs.After(1, id) == jobs.end());
}

}  // namespace

TEST_CASE("property: varied jobs in blocks are the same as in a plain list") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Prng prng(seed);
    VariedJobs jobs(kShape);
    std::vector<WaitingJob> all;
    for (int change = 0; change < 400; ++change) {
      const WaitingJob job = AVariedJob(1 + prng.Below(500), prng);
      const auto place = std::ranges::lower_bound(all, job.id, {}, &WaitingJob::id);
      const bool there = place != all.end() && place->id == job.id;
      REQUIRE(jobs.Has(job.id) == there);
      if (!there) {
        jobs.Insert(job);
        all.insert(place, job);
      } else {
        REQUIRE(jobs.Remove(job.id) == place->since);
        all.erase(place);
      }
      REQUIRE(jobs.empty() == all.empty());
      if (all.empty()) {
        continue;
      }
      REQUIRE(jobs.first() == all.front().id);
      CheckReach(jobs, all, prng.Below(all.size()), DrawReach(prng));
      CheckAfter(jobs, all, JobId(prng.Below(501)));
    }
    REQUIRE(AllOf(jobs) == all);
  }
}

TEST_CASE("a job that is special, or was moved by its owner, is none of the varied") {
  Prng prng(1);
  const WaitingJob job = AVariedJob(1, prng);
  CHECK(VariedJobs::Takes(job));
  for (const auto& change :
       std::vector<void (*)(WaitingJob&)>{[](WaitingJob& other) { other.plain = false; },
                                          [](WaitingJob& other) { other.after_fault = true; },
                                          [](WaitingJob& other) { other.rank = -2; },
                                          [](WaitingJob& other) { other.slowdown.ran.rate = 1; }}) {
    WaitingJob other = job;
    change(other);
    CHECK_FALSE(VariedJobs::Takes(other));
  }
}

}  // namespace tide
