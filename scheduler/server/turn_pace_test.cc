#include "scheduler/server/turn_pace.h"

#include <catch2/catch.hpp>

namespace tide {
namespace {

constexpr int64_t kMillis = 1'000'000;
constexpr int64_t kStart = 5'000'000 * kMillis;

// Turns within a second when each begins as soon as it may.
int TurnsInASecond(TurnPace& pace, int64_t from) {
  int turns = 0;
  for (int64_t now = from; now < from + 1000 * kMillis;) {
    if (const int64_t wait = pace.WaitNs(now); wait > 0) {
      now += wait;
    } else {
      pace.Count(now);
      ++turns;
      now += kMillis;
    }
  }
  return turns;
}

TEST_CASE("some turns begin at once, then each fifteenth millisecond has one") {
  TurnPace pace;
  for (int turn = 0; turn < 12; ++turn) {
    CHECK(pace.WaitNs(kStart) == 0);
    pace.Count(kStart);
  }
  pace.Count(kStart);
  CHECK(pace.WaitNs(kStart) == 15 * kMillis);
  CHECK(pace.WaitNs(kStart + 14 * kMillis) == kMillis);
  CHECK(pace.WaitNs(kStart + 15 * kMillis) == 0);
  const int turns = TurnsInASecond(pace, kStart + 15 * kMillis);
  CHECK(turns >= 66);
  CHECK(turns <= 68);
}

TEST_CASE("a quiet time gives the quick turns back, and no more of them") {
  TurnPace pace;
  (void)TurnsInASecond(pace, kStart);
  CHECK(TurnsInASecond(pace, kStart + 3'600'000 * kMillis) <= 12 + 1 + 67);
}

TEST_CASE("turns that do not wait put those off that do, but not for ever") {
  TurnPace pace;
  int64_t now = kStart;
  for (int turn = 0; turn < 1000; ++turn) {
    pace.Count(now);
    now += kMillis;
  }
  CHECK(pace.WaitNs(now) <= 15 * kMillis);
}

}  // namespace
}  // namespace tide
