// Nodes that are gone for good, and leave all counts.

#include <catch2/catch.hpp>

#include "scheduler/core/testing/compare.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

// Node 1 of two is out of the cluster.
World WithOneRemoved() {
  World world(Cluster().Leaf(2));
  world.Lose(1);
  REQUIRE(world.Remove(1));
  return world;
}

TEST_CASE("a removed node is counted nowhere") {
  World world = WithOneRemoved();
  CHECK(world.NodeIs(1) == NodeState::kRemoved);
  CHECK(world.state.fabric.CountNodes() == 1);
  CHECK(world.state.open_incidents.On(NodeId(1)).empty());
  CHECK_FALSE(world.Do(JobSubmitted{JobId(1), AJob().Nodes(2).Spec(), "ada", ""}));
  const JobId fits = world.Submit(AJob());
  const JobId waits = world.Submit(AJob());
  CHECK(world.Is(fits) == JobState::kRunning);
  for (const std::string& code : world.Why(waits)) {
    CHECK(code != "nodes.unhealthy");
  }
}

TEST_CASE("a node is removed only when its agent is silent and nothing may run there") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob());
  const uint32_t busy = world.NodesOf(job).front();
  Status refused = world.Remove(busy);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, Catch::Contains("its agent answers"));
  world.Lose(busy);
  refused = world.Remove(busy);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, Catch::Contains("may still run there"));
  world.Pass(world.policy.isolation_timeout + world.policy.isolation_margin);
  CHECK(world.Remove(busy));
}

TEST_CASE("the last node of a group takes the group with it") {
  World world(Cluster().Leaf(1));
  world.Lose(0);
  REQUIRE(world.Remove(0));
  CHECK(world.state.fabric.groups.empty());
  const auto submitted = world.Do(JobSubmitted{JobId(1), AJob().Spec(), "ada", ""});
  REQUIRE_FALSE(submitted);
  CHECK(submitted.error().code == ErrorCode::kUnavailable);
}

TEST_CASE("what was silence before stays without meaning, and a Hello makes a new node") {
  World world = WithOneRemoved();
  REQUIRE(world.Do(NodeHeard{NodeId(1)}));
  CHECK(world.NodeIs(1) == NodeState::kRemoved);
  world.Rejoin(1);
  CHECK(world.NodeIs(1) == NodeState::kReady);
  CHECK(world.state.fabric.CountNodes() == 2);
  CHECK(world.Is(world.Submit(AJob().Nodes(2))) == JobState::kRunning);
}

TEST_CASE("a job whose former node was removed starts elsewhere") {
  World world(Cluster().Leaf(3));
  const JobId job = world.Submit(AJob().Nodes(2));
  const uint32_t first = world.NodesOf(job).front();
  world.Hold(job);
  world.Lose(first);
  REQUIRE(world.Remove(first));
  world.Release(job);
  CHECK(world.Is(job) == JobState::kRunning);
}

}  // namespace
}  // namespace tide::testing
