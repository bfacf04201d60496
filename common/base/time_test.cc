#include "common/base/time.h"

#include <catch2/catch.hpp>

namespace tide {

TEST_CASE("an instant prints as RFC 3339 with milliseconds") {
  CHECK(FormatRfc3339(Instant::FromUnixNanos(1'700'000'000'123'456'789)) ==
        "2023-11-14T22:13:20.123Z");
  CHECK(FormatRfc3339(Instant()).empty());
}

TEST_CASE("durations print in at most two units") {
  CHECK(FormatDuration(Duration::Seconds(4)) == "4s");
  CHECK(FormatDuration(Duration::Seconds(192)) == "3m12s");
  CHECK(FormatDuration(Duration::Minutes(125)) == "2h05m");
  CHECK(FormatDuration(Duration::Minutes(60 * 24 * 4 + 365)) == "4d06h");
  CHECK(FormatDuration(Duration::Nanos(-5)) == "0s");
}

}  // namespace tide
