#include "scheduler/core/liveness.h"

#include <catch2/catch.hpp>

#include "scheduler/core/testing/world.h"

namespace tide {
namespace {

using testing::Cluster;
using testing::World;

constexpr int64_t kStart = 1'000'000'000'000;

int64_t At(double seconds) {
  return kStart + static_cast<int64_t>(seconds * 1e9);
}

std::vector<std::string> NamesOf(const std::vector<EventBody>& events) {
  std::vector<std::string> names;
  for (const EventBody& event : events) {
    names.emplace_back(EventName(event));
  }
  return names;
}

using EventNames = std::vector<std::string>;

// Looks every half second, as the loop does, and applies what it finds.
EventNames Watch(World& world,
                 Liveness& liveness,
                 const std::map<NodeId, int64_t>& heard,
                 double from,
                 double to) {
  EventNames names;
  for (double at = from; at <= to; at += 0.5) {
    const auto events = liveness.Check(world.state, heard, At(at));
    for (const std::string& name : NamesOf(events)) {
      names.push_back(name);
    }
    world.Turn(events);
  }
  return names;
}

TEST_CASE("a node is silent after three seconds and lost after ten, each said once") {
  World world(Cluster().Zone("A").Leaf(1));
  Liveness liveness({}, kStart);
  const std::map<NodeId, int64_t> heard = {{NodeId(0), At(0)}};
  CHECK(Watch(world, liveness, heard, 0, 2.5).empty());
  CHECK(Watch(world, liveness, heard, 3, 9.5) == EventNames{"node_silent"});
  CHECK(Watch(world, liveness, heard, 10, 20) == EventNames{"node_silent", "node_lost"});
  CHECK(world.NodeIs(0) == NodeState::kLost);
}

TEST_CASE("a lost node whose stream outlived the silence takes work again") {
  World world(Cluster().Zone("A").Leaf(1));
  Liveness liveness({}, kStart);
  CHECK(Watch(world, liveness, {{NodeId(0), At(0)}}, 0, 12).size() == 3);
  CHECK(Watch(world, liveness, {{NodeId(0), At(12.2)}}, 12.5, 14) == EventNames{"node_heard"});
  CHECK(world.NodeIs(0) == NodeState::kReady);
  CHECK_FALSE(world.state.nodes[0].lost_at.is_set());
}

TEST_CASE("after a restart of the scheduler nobody is lost before it had time to connect") {
  World world(Cluster().Zone("A").Leaf(1));
  Liveness liveness({}, kStart);
  CHECK(Watch(world, liveness, {}, 0, 2.5).empty());
}

TEST_CASE("the scheduler's own absence is nobody's silence") {
  World world(Cluster().Zone("A").Leaf(2));
  Liveness liveness({}, kStart);
  const std::map<NodeId, int64_t> heard = {{NodeId(0), At(0)}, {NodeId(1), At(0)}};
  CHECK(Watch(world, liveness, heard, 0, 1).empty());
  // Stopped for an hour; the agents' beats wait in the sockets.
  CHECK(Watch(world, liveness, heard, 3600, 3602.5).empty());
  // The first comes through, the second does not.
  const std::map<NodeId, int64_t> later = {{NodeId(0), At(3602.6)}, {NodeId(1), At(0)}};
  CHECK(Watch(world, liveness, later, 3603, 3603) == EventNames{"node_silent"});
  CHECK(world.NodeIs(0) == NodeState::kReady);
  CHECK(world.NodeIs(1) == NodeState::kSuspect);
}

TEST_CASE("who was answered while the loop hung is not given up for the silence before") {
  World world(Cluster().Zone("A").Leaf(2));
  Liveness liveness({}, kStart);
  const std::map<NodeId, int64_t> before = {{NodeId(0), At(0)}, {NodeId(1), At(0)}};
  CHECK(Watch(world, liveness, before, 0, 12).size() == 6);
  // Until 20 s other threads take heartbeats and answer them. One node's come until 14 s.
  const std::map<NodeId, int64_t> meanwhile = {{NodeId(0), At(14)}, {NodeId(1), At(0)}};
  CHECK(Watch(world, liveness, meanwhile, 20, 22.5) == EventNames{"node_heard"});
  CHECK_FALSE(world.state.nodes[0].lost_at.is_set());
  CHECK(world.NodeIs(1) == NodeState::kLost);
  // Its tasks go on from that answer: it is lost anew, and waited for from then on.
  CHECK(Watch(world, liveness, meanwhile, 23, 30) ==
        EventNames{"node_silent", "node_silent", "node_lost"});
  CHECK(world.NodeIs(0) == NodeState::kLost);
}

TEST_CASE("a slow heartbeat needs a longer silence") {
  World world(Cluster().Zone("A").Leaf(1));
  Liveness liveness({.heartbeat = Duration::Seconds(5)}, kStart);
  const std::map<NodeId, int64_t> heard = {{NodeId(0), At(0)}};
  CHECK(Watch(world, liveness, heard, 0, 14.5).empty());
  CHECK(Watch(world, liveness, heard, 15, 16) == EventNames{"node_silent"});
}

}  // namespace
}  // namespace tide
