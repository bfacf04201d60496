#include "common/base/time.h"

#include <catch2/catch.hpp>

namespace tide {

TEST_CASE("an instant prints as RFC 3339 with milliseconds") {
  CHECK(FormatRfc3339(Instant::FromUnixNanos(1'700'000'000'123'456'789)) ==
        "2023-11-14T22:13:20.123Z");
  CHECK(FormatRfc3339(Instant()).empty());
}

TEST_CASE("an instant is read as it is printed, and from a date alone") {
  const Instant at = Instant::FromUnixNanos(1'700'000'000'123'000'000);
  CHECK(ParseRfc3339(FormatRfc3339(at)) == at);
  CHECK(ParseRfc3339("2023-11-14T22:13:20.123Z") == at);
  CHECK(ParseRfc3339("1970-01-02") == Instant() + Duration::Minutes(24 * 60));
  CHECK(FormatRfc3339(*ParseRfc3339("2024-02-29T23:59:59Z")) == "2024-02-29T23:59:59.000Z");
  for (const char* wrong : {"",
                            "2023",
                            "2023-02-29",
                            "2023-13-01",
                            "1969-12-31",
                            "2262-01-01",
                            "2023-1-01",
                            "2023-01-01 ",
                            "2023-01-01T",
                            "2023-01-01T10:00:00",
                            "2023-01-01T24:00:00Z",
                            "2023-01-01T10:00:00.Z",
                            "2023-01-01T10:00:00.0123456789Z",
                            "2023-01-01T10:00:00+01:00",
                            "2023-01-01T10:00:00Zz"}) {
    INFO(wrong);
    CHECK_FALSE(ParseRfc3339(wrong));
  }
}

TEST_CASE("durations print in at most two units") {
  CHECK(FormatDuration(Duration::Seconds(4)) == "4s");
  CHECK(FormatDuration(Duration::Seconds(192)) == "3m12s");
  CHECK(FormatDuration(Duration::Minutes(125)) == "2h05m");
  CHECK(FormatDuration(Duration::Minutes(60 * 24 * 4 + 365)) == "4d06h");
  CHECK(FormatDuration(Duration::Nanos(-5)) == "0s");
}

}  // namespace tide
