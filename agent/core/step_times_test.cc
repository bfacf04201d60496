#include "agent/core/step_times.h"

#include <catch2/catch.hpp>
#include <vector>

#include "common/base/prng.h"

namespace tide::agent {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// A rank that a look finds one step further each time.
struct Pace {
  StepTimes times;
  int64_t step = 0;

  void Seen(int64_t step_ns, int count = 1) {
    for (int i = 0; i < count; ++i) {
      times.Add({.step = ++step, .step_ns = step_ns});
    }
  }
};

}  // namespace

TEST_CASE("nothing is known of the steps before one was seen") {
  Pace pace;
  CHECK(pace.times.usual_ns() == 0);
  pace.times.Add({.step = -1, .step_ns = 0});
  CHECK(pace.times.usual_ns() == 0);
  pace.Seen(60 * kSecond);
  CHECK(pace.times.usual_ns() == 60 * kSecond);
}

TEST_CASE("the pace is that of the last steps, and so is what a rank computes in them") {
  StepTimes times;
  int64_t step = 0;
  const auto add = [&](int64_t step_ns, int64_t compute_ns, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      times.Add({.step = ++step, .step_ns = step_ns, .compute_ns = compute_ns});
    }
  };
  CHECK(times.pace_ns() == 0);
  add(kSecond, 0, 3);
  CHECK(times.pace_ns() == kSecond);
  CHECK(times.compute_ns() == 0);
  add(kSecond, kSecond / 2, StepTimes::kPaceOf);
  CHECK(times.compute_ns() == kSecond / 2);
  add(2 * kSecond, kSecond, StepTimes::kPaceOf / 2);
  CHECK(times.pace_ns() == kSecond);
  CHECK(times.compute_ns() == kSecond / 2);
  add(2 * kSecond, kSecond, 1);
  CHECK(times.pace_ns() == 2 * kSecond);
  CHECK(times.compute_ns() == kSecond);
}

TEST_CASE("one step that a hang held up does not stretch what is usual") {
  for (const int before : {2, 5, 9, 10, 31, 100}) {
    Pace pace;
    pace.Seen(kSecond, before);
    pace.Seen(75 * kSecond);
    CHECK(pace.times.usual_ns() == kSecond);
    pace.Seen(kSecond);
    CHECK(pace.times.usual_ns() == kSecond);
  }
}

TEST_CASE("a hang each few steps does not either") {
  Pace pace;
  pace.Seen(kSecond, 32);
  for (int hang = 0; hang < 20; ++hang) {
    pace.Seen(75 * kSecond);
    pace.Seen(kSecond, 10);
    CHECK(pace.times.usual_ns() == kSecond);
  }
}

TEST_CASE("a first step that compiles is forgotten with the third") {
  Pace pace;
  pace.Seen(60 * kSecond);
  pace.Seen(kSecond, 2);
  CHECK(pace.times.usual_ns() == kSecond);
}

TEST_CASE("steps that become longer are known after two of them") {
  Pace pace;
  pace.Seen(kSecond, 40);
  pace.Seen(20 * kSecond);
  CHECK(pace.times.usual_ns() == kSecond);
  pace.Seen(20 * kSecond);
  CHECK(pace.times.usual_ns() == 20 * kSecond);
  pace.Seen(kSecond, 32);
  CHECK(pace.times.usual_ns() == kSecond);
}

TEST_CASE("a long step that comes again and again is usual, after short ones too") {
  Pace pace;
  for (int i = 0; i < 8; ++i) {
    pace.Seen(20 * kSecond);
    pace.Seen(kSecond, 4);
  }
  CHECK(pace.times.usual_ns() == 20 * kSecond);
}

TEST_CASE("a step that is looked at twice counts once") {
  Pace pace;
  pace.Seen(kSecond, 3);
  pace.Seen(75 * kSecond);
  for (int i = 0; i < 40; ++i) {
    pace.times.Add({.step = pace.step, .step_ns = 75 * kSecond});
  }
  CHECK(pace.times.usual_ns() == kSecond);
}

TEST_CASE("of random steps of one length what is usual stays within them") {
  Prng prng(5);
  Pace pace;
  for (int i = 0; i < 1000; ++i) {
    pace.Seen(static_cast<int64_t>(kSecond + prng.Below(kSecond)));
    CHECK(pace.times.usual_ns() >= kSecond);
    CHECK(pace.times.usual_ns() < 2 * kSecond);
  }
}

}  // namespace tide::agent
