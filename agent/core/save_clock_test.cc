#include "agent/core/save_clock.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

namespace tide::agent {
namespace {

Instant AtSecond(int64_t seconds) {
  return Instant::FromUnixNanos(1'700'000'000'000'000'000) + Duration::Seconds(seconds);
}

}  // namespace

TEST_CASE("a save is due once in each period, after a restart at the same times") {
  SaveClock clock(Duration::Seconds(100), 7, AtSecond(0));
  const Instant first = clock.next();
  CHECK(first > AtSecond(0));
  CHECK(first <= AtSecond(100));
  CHECK_FALSE(clock.IsDue(first - Duration::Millis(1)));
  CHECK(clock.IsDue(first + Duration::Millis(5)));
  CHECK_FALSE(clock.IsDue(first + Duration::Millis(6)));
  CHECK(clock.next() == first + Duration::Seconds(100));

  CHECK(clock.IsDue(first + Duration::Seconds(350)));  // what was missed is not made up for
  CHECK(clock.next() == first + Duration::Seconds(400));
  CHECK(SaveClock(Duration::Seconds(100), 7, AtSecond(330)).next() ==
        first + Duration::Seconds(first + Duration::Seconds(300) > AtSecond(330) ? 300 : 400));
}

TEST_CASE("a clock that steps back does not put saves off") {
  SaveClock clock(Duration::Seconds(100), 7, AtSecond(1'000'000));
  CHECK_FALSE(clock.IsDue(AtSecond(0)));
  CHECK(clock.next() <= AtSecond(100));
}

TEST_CASE("jobs that were submitted one after the other save far from each other") {
  for (const uint64_t first : {1, 1000, 123'456'789}) {
    for (const size_t jobs : {2, 8, 50, 400}) {
      std::vector<double> at;
      for (size_t i = 0; i < jobs; ++i) {
        const Duration every = Duration::Minutes(10);
        const Instant next = SaveClock(every, first + i, AtSecond(0)).next();
        at.push_back((next - AtSecond(0)).seconds() / every.seconds());
      }
      std::ranges::sort(at);
      double nearest = at.front() + 1 - at.back();
      double farthest = nearest;
      for (size_t i = 1; i < at.size(); ++i) {
        nearest = std::min(nearest, at[i] - at[i - 1]);
        farthest = std::max(farthest, at[i] - at[i - 1]);
      }
      INFO(jobs << " jobs from " << first);
      CHECK(nearest * static_cast<double>(jobs) > 0.35);
      CHECK(farthest * static_cast<double>(jobs) < 2);
    }
  }
}

}  // namespace tide::agent
