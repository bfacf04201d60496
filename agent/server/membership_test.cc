#include "agent/server/membership.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "agent/server/testing/agent_testing.h"

namespace tide::agent {
namespace {

TEST_CASE("an agent stays with the cluster that it joined first, over restarts") {
  const TestDir dir;
  auto agent = Membership::Open(dir.path(), false);
  REQUIRE(agent);
  CHECK(agent->cluster().empty());
  CHECK(agent->Check(""));
  CHECK(agent->Check("c1"));
  CHECK(agent->Check("c1"));
  CHECK(agent->Check("c2").error().code == ErrorCode::kConflict);
  auto again = Membership::Open(dir.path(), false);
  REQUIRE(again);
  CHECK(again->cluster() == "c1");
  CHECK(again->state_id() == agent->state_id());
  CHECK_THAT(again->Check("c2").error().message, Catch::Contains("--join"));
  auto joining = Membership::Open(dir.path(), true);
  REQUIRE(joining);
  CHECK(joining->Check("c2"));
  CHECK(Membership::Open(dir.path(), false)->cluster() == "c2");
}

TEST_CASE("a copied state folder has another id") {
  const TestDir dir;
  const TestDir other;
  const auto agent = Membership::Open(dir.path(), false);
  std::filesystem::copy_file(dir.File("id"), other.File("id"));
  const auto clone = Membership::Open(other.path(), false);
  REQUIRE((agent && clone));
  CHECK(clone->state_id() != agent->state_id());
  CHECK(clone->state_id().substr(0, 16) == agent->state_id().substr(0, 16));
}

}  // namespace
}  // namespace tide::agent
