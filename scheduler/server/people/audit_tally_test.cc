#include "scheduler/server/people/audit_tally.h"

#include <catch2/catch.hpp>

namespace tide {
namespace {

constexpr Instant kRefusedAt = Instant::FromUnixNanos(1'800'000'000'000'000'000);

AuditEntry Refused(const std::string& user, const std::string& address = "192.0.2.7") {
  AuditEntry entry;
  entry.at = kRefusedAt;
  entry.user = user;
  entry.address = address;
  entry.operation = "nodes.control";
  entry.outcome = "permission_denied";
  entry.detail = "no";
  return entry;
}

uint32_t WrittenOf(AuditTally& tally, const AuditEntry& entry, uint32_t times) {
  uint32_t written = 0;
  for (uint32_t i = 0; i < times; ++i) {
    written += tally.Take(entry) ? 1 : 0;
  }
  return written;
}

TEST_CASE("of refusals that are alike some are written, and all are counted", "[people]") {
  AuditTally tally;
  CHECK(WrittenOf(tally, Refused("mallory"), 5000) == AuditTally::kEach);
  CHECK(WrittenOf(tally, Refused("ann"), 3) == 3);
  CHECK(tally.Counted(kRefusedAt + Duration::Seconds(59)).empty());
  const auto counted = tally.Counted(kRefusedAt + Duration::Seconds(60));
  REQUIRE(counted.size() == 1);
  CHECK(counted[0].user == "mallory");
  CHECK(counted[0].address == "192.0.2.7");
  CHECK(counted[0].operation == "nodes.control");
  CHECK(counted[0].detail == "4980 more within a minute, the last: no");
  // The next minute begins anew.
  CHECK(tally.Counted(kRefusedAt + Duration::Seconds(200)).empty());
  CHECK(WrittenOf(tally, Refused("mallory"), 30) == AuditTally::kEach);
}

TEST_CASE("looks at one object that are alike are counted, at another they are others",
          "[people]") {
  AuditTally tally;
  AuditEntry look = Refused("mallory");
  look.outcome = std::string(kAuditDone);
  look.object = "j-1";
  CHECK(WrittenOf(tally, look, 500) == AuditTally::kEach);
  look.object = "j-2";
  CHECK(WrittenOf(tally, look, 1) == 1);
  // At so many objects that they are not told apart it is still said who it was.
  uint32_t written = 0;
  constexpr uint32_t kObjects = 5000;
  for (uint32_t i = 10; i < 10 + kObjects; ++i) {
    look.object = "j-" + std::to_string(i);
    written += tally.Take(look) ? 1 : 0;
  }
  CHECK(written < AuditTally::kKindsMax + AuditTally::kEach);
  const auto counted = tally.Counted(kRefusedAt + Duration::Seconds(60));
  REQUIRE(counted.size() == 2);
  CHECK(counted[0].user == "mallory");
  CHECK(counted[1].user == "mallory");
}

TEST_CASE("refusals from ever other addresses are bounded too", "[people]") {
  AuditTally tally;
  uint32_t written = 0;
  constexpr uint32_t kTries = 50'000;
  for (uint32_t i = 0; i < kTries; ++i) {
    written += tally.Take(Refused("mallory", "2001:db8::" + std::to_string(i))) ? 1 : 0;
  }
  CHECK(written == AuditTally::kKindsMax + AuditTally::kEach);
  const auto counted = tally.Counted(kRefusedAt + Duration::Seconds(60));
  REQUIRE(counted.size() == 1);
  CHECK_THAT(counted[0].detail, Catch::StartsWith(std::to_string(kTries - written) + " more"));
}

}  // namespace
}  // namespace tide
