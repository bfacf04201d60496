#include "common/base/checkpoint_id.h"

#include <catch2/catch.hpp>

namespace tide {
namespace {

TEST_CASE("a checkpoint's name comes back as it was written") {
  for (const char* name : {"s000000000010-0002",
                           "s000000000002-00ff",
                           "s999999999999-ffffffff",
                           "s000000000010-0001-d998b860",
                           "s000000000010-0001-d998b860-2"}) {
    const auto id = ParseCheckpointId(name);
    REQUIRE(id);
    CHECK(FormatCheckpointId(*id) == name);
  }
  const auto id = ParseCheckpointId("s000000000010-00ff-d998b860-12");
  REQUIRE(id);
  CHECK((id->step == 10 && id->attempt == 255 && id->start == "d998b860" && id->generation == 12));
}

TEST_CASE("other names are no checkpoint's") {
  for (const char* name : {"",
                           "s1-0001",
                           "s000000000010",
                           "s000000000010-001",
                           "s000000000010-000000001",
                           "s000000000010-0001x",
                           "s00000000001a-0001",
                           "s-00000000001-0001",
                           "s000000000010-00G1",
                           "s000000000010-0001-d998b86",
                           "s000000000010-0001-D998B860",
                           "s000000000010-0001-d998b860-0",
                           "s000000000010-0001-d998b860-02",
                           "s000000000010-0001-d998b860-2-",
                           "s000000000010-0001-2",
                           "s000000000009-0001.tar",
                           ".saver-00000"}) {
    INFO(name);
    CHECK_FALSE(ParseCheckpointId(name));
  }
}

TEST_CASE("a later start is newer, whatever its steps") {
  const char* const in_order[] = {"s000000000010-0001",
                                  "s000000000010-0002",
                                  "s000000000900-0001",
                                  "s000000000020-0001-d998b860",
                                  "s000000000030-0001-d998b860",
                                  "s000000000030-0001-d998b860-2",
                                  "s000000000010-0002-00000000"};
  for (size_t i = 1; i < std::size(in_order); ++i) {
    const auto older = ParseCheckpointId(in_order[i - 1]);
    const auto newer = ParseCheckpointId(in_order[i]);
    REQUIRE((older && newer));
    CHECK(older->IsOlderThan(*newer));
    CHECK_FALSE(newer->IsOlderThan(*older));
    CHECK_FALSE(newer->IsOlderThan(*newer));
  }
}

}  // namespace
}  // namespace tide
