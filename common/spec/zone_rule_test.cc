#include "common/spec/zone_rule.h"

#include <catch2/catch.hpp>

namespace tide {
namespace {

TEST_CASE("a zone rule says how many zones a job may lie in", "[zone_rule]") {
  CHECK(ZonesMax("single") == 1);
  CHECK(ZonesMax("A") == 1);
  CHECK(ZonesMax("cross-okay") == 1);
  CHECK(ZonesMax("cross-ok") == kAnyZones);
  CHECK(ZonesMax("cross-ok:2") == 2);
  CHECK(ZonesMax("cross-ok:1000") == 1000);
  for (const char* wrong : {"cross-ok:",
                            "cross-ok:1",
                            "cross-ok:0",
                            "cross-ok:-2",
                            "cross-ok:2x",
                            "cross-ok: 2",
                            "cross-ok:1001",
                            "cross-ok:99999999999"}) {
    CAPTURE(wrong);
    CHECK(ZonesMax(wrong) == 0);
    CHECK_FALSE(IsNamedZone(wrong));
  }
}

TEST_CASE("other rules than the known ones name a zone", "[zone_rule]") {
  CHECK(IsNamedZone("A"));
  CHECK(IsNamedZone("cross-okay"));
  CHECK_FALSE(IsNamedZone("single"));
  CHECK_FALSE(IsNamedZone("cross-ok"));
  CHECK_FALSE(IsNamedZone("cross-ok:3"));
  CHECK(MayLieAcross("cross-ok"));
  CHECK(MayLieAcross("cross-ok:2"));
  CHECK_FALSE(MayLieAcross("single"));
  CHECK_FALSE(MayLieAcross("A"));
}

TEST_CASE("people read where a job may lie", "[zone_rule]") {
  CHECK(DescribeZones("single") == "one zone");
  CHECK(DescribeZones("A") == "zone A");
  CHECK(DescribeZones("cross-ok") == "all zones together");
  CHECK(DescribeZones("cross-ok:3") == "3 zones together");
}

}  // namespace
}  // namespace tide
