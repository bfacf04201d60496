// Nodes that look idle and healthy, but cannot start a task: a full disk, a port in use.

#include <catch2/catch.hpp>

#include "scheduler/core/testing/world.h"

namespace tide::testing {

TEST_CASE("a job that its node cannot start remembers the node until it runs") {
  World world(Cluster().Leaf(1));
  world.agents.unfit = {NodeId(0)};
  const JobId job = world.Submit(AJob());
  CHECK(world.At(job).avoid == std::vector<NodeId>{NodeId(0)});
  CHECK(world.CauseOf(job) == "fault");
  CHECK(world.At(job).detail == "A-l1-n1 could not start it: no space left on device");
  world.agents.unfit.clear();
  world.Pass(Duration::Seconds(5));
  REQUIRE(world.Is(job) == JobState::kRunning);
  CHECK(world.At(job).avoid.empty());
  CHECK(world.state.nodes[0].failed_starts == 0);
}

TEST_CASE("a job whose user is not known on a node goes elsewhere, and nobody blames the node") {
  World world(Cluster().Leaf(3));
  world.agents.strangers = {NodeId(0), NodeId(1)};
  for (int i = 0; i < 4; ++i) {
    const JobId job = world.Submit(AJob());
    CHECK(world.At(job).failure_restarts == 0);
    world.Pass(Duration::Minutes(5));
    REQUIRE(world.Is(job) == JobState::kRunning);
    CHECK(world.NodesOf(job) == std::vector<uint32_t>{2});
    world.Cancel(job);
  }
  CHECK(world.state.nodes[0].failed_starts == 0);
  CHECK(world.NodeIs(0) == NodeState::kReady);
  CHECK(world.state.incidents.empty());
}

TEST_CASE("the first failed start costs no time, each further one twice as much") {
  World world(Cluster().Leaf(20));
  for (uint32_t node = 0; node < 20; ++node) {
    world.agents.unfit.insert(NodeId(node));
  }
  const JobId job = world.Submit(AJob());
  for (const int64_t seconds : {5, 10, 20, 40, 80, 160, 300, 300}) {
    INFO(world.At(job).attempts.size());
    REQUIRE(world.Is(job) == JobState::kQueued);
    CHECK(FailedStarts(world.At(job)) == world.At(job).attempts.size());
    CHECK(std::get<Queued>(world.At(job).phase).not_before ==
          world.now + Duration::Seconds(seconds));
    world.Pass(Duration::Seconds(seconds));
  }
  CHECK(world.At(job).attempts.size() == 10);
}

TEST_CASE("a fault while the job ran is followed by a start at once") {
  World world(Cluster().Leaf(4));
  const JobId job = world.Submit(AJob());
  for (const uint32_t node : {0U, 1U, 2U}) {
    REQUIRE(world.NodesOf(job) == std::vector<uint32_t>{node});
    world.Xid(node, 79);
  }
  CHECK(FailedStarts(world.At(job)) == 0);
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("a node that fails three starts in a row is drained, whosever they were") {
  World world(Cluster().Leaf(1));
  world.agents.unfit = {NodeId(0)};
  const JobId first = world.Submit(AJob());  // twice
  CHECK(world.NodeIs(0) == NodeState::kReady);
  world.Cancel(first);
  const JobId second = world.Submit(AJob());
  CHECK(world.NodeIs(0) == NodeState::kDrained);
  CHECK(world.state.nodes[0].actor == "tide");
  CHECK(world.state.nodes[0].reason == "3 starts in a row failed: no space left on device");
  CHECK(world.At(second).attempts.size() == 1);
  CHECK(world.Is(second) == JobState::kQueued);
  world.agents.unfit.clear();
  world.Undrain(0);
  CHECK(world.state.nodes[0].failed_starts == 0);
  CHECK(world.Is(second) == JobState::kRunning);
}

TEST_CASE("a validation that passes gives a node its starts back") {
  World world(Cluster().Leaf(1));
  world.agents.unfit = {NodeId(0)};
  const JobId job = world.Submit(AJob());
  world.Pass(Duration::Seconds(5));
  REQUIRE(world.NodeIs(0) == NodeState::kDrained);
  world.Cancel(job);
  world.Validate(0);
  CHECK(world.NodeIs(0) == NodeState::kProbation);
  CHECK(world.state.nodes[0].failed_starts == 0);
}

TEST_CASE("starts that fail by the job's fault, or that were stopped, are not the node's") {
  World world(Cluster().Leaf(1));
  world.agents.starts = false;
  for (int i = 0; i < 4; ++i) {
    world.Exit(world.Submit(AJob()), 0, ExitReason::kStartFailed);
    world.Cancel(world.Submit(AJob()));
  }
  CHECK(world.NodeIs(0) == NodeState::kReady);
  CHECK(world.state.nodes[0].failed_starts == 0);
}

TEST_CASE("a job remembers the newest nodes that could not start it, and not too many") {
  World world(Cluster().Leaf(20));
  for (uint32_t node = 0; node < 20; ++node) {
    world.agents.unfit.insert(NodeId(node));
  }
  const JobId job = world.Submit(AJob().Nodes(20));
  REQUIRE(world.At(job).avoid.size() == kAvoidMax);
  CHECK(world.At(job).avoid.back() == NodeId(19));
  CHECK(world.At(job).avoid.front() == NodeId(4));
}

TEST_CASE("a job starts elsewhere than where it could not, if it can") {
  World world(Cluster().Leaf(4));
  world.agents.unfit = {NodeId(0)};
  const JobId job = world.Submit(AJob());
  CHECK(world.NodesOf(job) == std::vector<uint32_t>{1});
  CHECK(world.At(job).attempts.size() == 2);
  const JobId gang = world.Submit(AJob().Nodes(3));  // 0, 2 and 3 are left: it has no choice
  CHECK(world.At(gang).attempts.size() == 2);
  CHECK(world.NodeIs(0) == NodeState::kDrained);  // the third start that failed there
  world.agents.unfit.clear();
  world.Undrain(0);
  world.Pass(Duration::Seconds(10));
  CHECK(world.NodesOf(gang) == std::vector<uint32_t>{0, 2, 3});
}

}  // namespace tide::testing
