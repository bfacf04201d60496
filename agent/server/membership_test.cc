#include "agent/server/membership.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "agent/server/claim.h"
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
  CHECK_THAT(again->Check("").error().message, Catch::Contains("names none"));
  auto joining = Membership::Open(dir.path(), true);
  REQUIRE(joining);
  CHECK(joining->Check("c2"));
  CHECK(Membership::Open(dir.path(), false)->cluster() == "c2");
}

TEST_CASE("a copied state folder is refused") {
  const TestDir dir;
  const TestDir other;
  const auto agent = Membership::Open(dir.path(), false);
  std::filesystem::copy_file(dir.File("id"), other.File("id"));
  const auto clone = Membership::Open(other.path(), false);
  REQUIRE((agent && !clone));
  CHECK_THAT(clone.error().message, Catch::Contains("copy") && Catch::Contains(other.path()));
  std::filesystem::remove(other.File("id"));
  const auto other_agent = Membership::Open(other.path(), false);
  REQUIRE(other_agent);
  CHECK(other_agent->state_id() != agent->state_id());
}

TEST_CASE("a state folder has one agent, and so has a name on a machine") {
  const TestDir dir;
  AgentConfig config;
  config.name = "n1";
  config.state_dir = dir.File("state");
  config.run_root = dir.File("run");
  auto first = ClaimNode(config);
  REQUIRE(first);
  const auto refusal = [&] {
    const auto claimed = ClaimNode(config);
    return claimed ? "none" : claimed.error().message;
  };
  CHECK_THAT(refusal(), Catch::Contains("state folder") && Catch::Contains("--state"));
  config.state_dir = dir.File("other");
  CHECK_THAT(refusal(), Catch::Contains("the name n1") && Catch::Contains("pid"));
  config.name = "n2";
  CHECK(refusal() == "none");
  first = Fail(ErrorCode::kNotFound, "it has ended");
  config.name = "n1";
  config.state_dir = dir.File("state");
  CHECK(refusal() == "none");
}

}  // namespace
}  // namespace tide::agent
