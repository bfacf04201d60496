#include "scheduler/core/loop_clock.h"

#include <catch2/catch.hpp>

#include "scheduler/core/policy/policy.h"

namespace tide {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
const Instant kClockStart = Instant::FromUnixNanos(1'800'000'000 * kSecond);

// The clock as its loop reads it: four times a second, beside a system clock `off` by so much.
struct Machine {
  int64_t boot_ns = 5 * kSecond;
  Duration off;
  LoopClock clock{kClockStart, boot_ns};

  Instant Pass(Duration span) {
    Instant now;
    for (int64_t left = span.nanos(); left > 0; left -= kSecond / 4) {
      boot_ns += kSecond / 4;
      const Instant before = now;
      now = clock.Read(kClockStart + off + Duration::Nanos(boot_ns - 5 * kSecond), boot_ns);
      REQUIRE(now > before);
    }
    return now;
  }
};

TEST_CASE("loop time is the system's while that is steady") {
  Machine machine;
  CHECK(machine.Pass(Duration::Minutes(60)) == kClockStart + Duration::Minutes(60));
}

TEST_CASE("a step of the system clock moves loop time by a 50th of what passes, either way") {
  Machine machine;
  const bool forward = GENERATE(true, false);
  machine.off = Duration::Seconds(forward ? 3600 : -3600);
  const Instant now = machine.Pass(Duration::Seconds(100));
  CHECK(now == kClockStart + Duration::Seconds(forward ? 102 : 98));
}

TEST_CASE("a difference is made up in the end, exactly") {
  Machine machine;
  machine.off = Duration::Seconds(10);
  CHECK(machine.Pass(Duration::Seconds(600)) == kClockStart + Duration::Seconds(610));
}

TEST_CASE("no step of the clock ends the wait for an isolated node before its agent does") {
  const Policy policy;
  Machine machine;
  machine.off = Duration::Minutes(1'000'000);
  const Instant given_up = kClockStart + policy.isolation_timeout + policy.isolation_margin;
  CHECK(machine.Pass(policy.isolation_timeout) < given_up);
}

TEST_CASE("a machine that slept wakes at the right time") {
  Machine machine;
  machine.boot_ns += 3600 * kSecond;
  CHECK(machine.Pass(Duration::Seconds(1)) == kClockStart + Duration::Seconds(3601));
}

}  // namespace
}  // namespace tide
