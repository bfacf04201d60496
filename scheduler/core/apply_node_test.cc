// Nodes that join, fall silent, break, are drained and validated.

#include <catch2/catch.hpp>

#include "scheduler/core/lease.h"
#include "scheduler/core/testing/compare.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {

TEST_CASE("a node that joins without its task has lost it") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob());
  world.agents.Reboot(NodeId(0));
  world.Rejoin(0);
  CHECK(world.Is(job) == JobState::kRunning);
  CHECK(world.At(job).attempts.front().end_cause == StopCause::kFault);
  CHECK(world.At(job).hardware_restarts == 1);
}

TEST_CASE("a restarted agent that still holds its task changes nothing for the job") {
  World world(Cluster().Leaf(1));
  const JobId job = world.Submit(AJob());
  const Job before = world.At(job);
  world.Rejoin(0);
  CHECK(world.At(job) == before);
}

TEST_CASE("an order to start that never arrived is sent again at the next join") {
  World world(Cluster().Leaf(1));
  world.agents.cut.emplace(NodeId(0), world.now);
  const JobId job = world.Submit(AJob());
  REQUIRE(world.Is(job) == JobState::kStarting);
  world.Rejoin(0);
  CHECK(world.Is(job) == JobState::kRunning);
  CHECK(world.At(job).attempts.size() == 1);
}

TEST_CASE("a new leader waits anew for a lost node: the time of its loss is of another clock") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob());
  world.Lose(0);
  const Duration wait =
      kLeaseDuration + world.policy.isolation_timeout + world.policy.isolation_margin;
  world.state.led_since = world.now = world.now + wait;  // the next one's clock is ahead
  world.Turn({});
  CHECK(world.last.wake_at == world.now + wait);
  CHECK(world.Is(job) == JobState::kStopping);
  world.Pass(wait);
  CHECK(world.Is(job) == JobState::kRunning);
}

// Node 0 has a task whose rank no signal ends, and comes back after the scheduler has given it up.
struct Unkillable {
  World world{Cluster().Leaf(1)};
  JobId job = world.Submit(AJob());
  Unkillable() {
    world.Lose(0);
    world.Pass(world.policy.isolation_timeout + world.policy.isolation_margin);
    REQUIRE(world.Is(job) == JobState::kQueued);
  }
  std::vector<TaskReported> Held() {
    std::vector<TaskReported> held = world.agents.Held(NodeId(0));
    REQUIRE(held.size() == 1);
    held[0].state = TaskState::kRunning;  // neither its agent nor its supervisor could end it
    held[0].exit = {};
    return held;
  }
  std::vector<CommandKind> Kinds() {
    std::vector<CommandKind> kinds;
    for (const Command& command : world.last.commands) {
      kinds.push_back(command.kind);
    }
    return kinds;
  }
};

TEST_CASE("nothing starts beside a task that a node still holds after it was given up") {
  Unkillable node;
  const NodeIdentity identity = node.world.state.nodes[0].identity;
  // Its agent obeys, but the order to stop has not ended the task yet.
  REQUIRE(node.world.Apply(NodeJoined{NodeId(0), identity, node.Held()}));
  CHECK(node.world.NodeIs(0) == NodeState::kReady);
  CHECK(node.world.Is(node.job) == JobState::kQueued);
  CHECK(node.Kinds() == std::vector{CommandKind::kStopTask, CommandKind::kStopTask});
  CHECK_FALSE(node.world.Apply(ValidationRequested{NodeId(0), "v1", "ann"}));

  TaskReported gone = node.Held().front();
  gone.state = TaskState::kExited;
  gone.exit.reason = ExitReason::kStopped;
  REQUIRE(node.world.Apply(gone));
  CHECK(node.world.Is(node.job) == JobState::kStarting);
  CHECK(node.Kinds() == std::vector{CommandKind::kForgetTask, CommandKind::kStartTask});
}

TEST_CASE("a lost node that is heard again is asked to end what was given up") {
  Unkillable node;
  REQUIRE(node.world.Apply(NodeHeard{NodeId(0)}));  // its stream outlived the silence
  CHECK(node.world.Is(node.job) == JobState::kQueued);
  CHECK(node.Kinds() == std::vector{CommandKind::kStopTask});
}

TEST_CASE("a node that joins without what was given up there takes work at once") {
  Unkillable node;
  node.world.agents.Reboot(NodeId(0));
  node.world.Rejoin(0);
  CHECK(node.world.Is(node.job) == JobState::kRunning);
}

TEST_CASE("a node joins under its own name and the next free id") {
  World world(Cluster().Leaf(2));
  const ClusterState before = world.state;
  NodeJoined join = Cluster().Leaf(3).Joins().back();
  join.node = NodeId(7);
  CHECK_FALSE(world.Apply(join));
  join.node = NodeId(2);
  join.identity.name = "A-l1-n1";
  CHECK(world.Apply(join).error().code == ErrorCode::kAlreadyExists);
  join.node = NodeId(0);
  join.identity.name = "A-l1-n2";
  CHECK_FALSE(world.Apply(join));
  join.identity.name = "";
  CHECK_FALSE(world.Apply(join));
  CHECK(DifferenceOfRows(before, world.state).empty());
}

TEST_CASE("a lost node keeps its task until its agent must have stopped it") {
  World world(Cluster().Leaf(3));
  const JobId job = world.Submit(AJob().Nodes(2));
  world.Lose(1);
  CHECK(world.NodeIs(1) == NodeState::kLost);
  REQUIRE(world.Is(job) == JobState::kStopping);  // one free node would do, but a rank may live
  CHECK(world.agents.LiveTasks(job) == 1);
  const Duration wait = world.policy.isolation_timeout + world.policy.isolation_margin;
  world.Pass(wait - Duration::Nanos(1));
  CHECK(world.Is(job) == JobState::kStopping);
  world.Pass(Duration::Nanos(1));
  CHECK(world.Is(job) == JobState::kRunning);
  CHECK(world.NodesOf(job) == std::vector<uint32_t>{0, 2});
  CHECK(world.At(job).hardware_restarts == 1);
}

TEST_CASE("a lost node that comes back in time ends the wait") {
  World world(Cluster().Leaf(3));
  const JobId job = world.Submit(AJob().Nodes(2));
  world.Lose(1);
  world.Pass(Duration::Minutes(1));
  world.Rejoin(1);
  CHECK(world.NodeIs(1) == NodeState::kReady);
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("what runs on a node heard again is not given up by the old loss") {
  World world(Cluster().Leaf(1));
  world.Lose(0);
  world.agents.cut.clear();
  (void)world.Do(NodeHeard{NodeId(0)});
  const JobId job = world.Submit(AJob());
  REQUIRE(world.Is(job) == JobState::kRunning);
  world.Pass(Duration::Minutes(60));
  CHECK(world.Is(job) == JobState::kRunning);
  CHECK(world.At(job).attempts.size() == 1);
  world.Lose(0);  // and the next loss counts
  CHECK(world.NodeIs(0) == NodeState::kLost);
}

TEST_CASE("a lost node takes no work, whatever state it is in") {
  World world(Cluster().Leaf(1));
  world.Drain(0);
  world.Lose(0);
  world.Undrain(0);
  const JobId job = world.Submit(AJob());
  CHECK(world.Is(job) == JobState::kQueued);
  world.Rejoin(0);
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("silence is forgiven when the agent is heard again") {
  World world(Cluster().Leaf(1));
  const JobId job = world.Submit(AJob());
  (void)world.Do(NodeSilent{NodeId(0)});
  CHECK(world.NodeIs(0) == NodeState::kSuspect);
  CHECK(*world.Do(NodeSilent{NodeId(0)}) == Applied::kNoOp);
  CHECK(world.Is(job) == JobState::kRunning);
  const JobId next = world.Submit(AJob());
  CHECK(world.Is(next) == JobState::kQueued);
  (void)world.Do(NodeHeard{NodeId(0)});
  CHECK(world.NodeIs(0) == NodeState::kReady);
  CHECK(*world.Do(NodeHeard{NodeId(0)}) == Applied::kNoOp);
}

TEST_CASE("one cause on one device is one incident, with its repeats counted") {
  World world(Cluster().Leaf(1));
  world.Xid(0, 13);
  world.Xid(0, 13);
  world.Xid(0, 31);
  REQUIRE(world.state.incidents.size() == 2);
  CHECK(world.state.incidents.at(IncidentId(1)).count == 2);
  CHECK(world.state.nodes[0].faults == 2);
  CHECK(world.NodeIs(0) == NodeState::kReady);  // recorded, nothing else
  world.Xid(0, 79);
  world.Validate(0);
  CHECK(world.state.incidents.at(IncidentId(1)).cleared_at.is_set());
  world.Xid(0, 13);
  CHECK(world.state.incidents.size() == 4);
}

TEST_CASE("an operator's drain of a broken node neither frees it nor gets lost") {
  World world(Cluster().Leaf(1));
  world.Xid(0, 79);
  world.Drain(0);
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
  CHECK(world.Apply(UndrainRequested{NodeId(0), "op"}).error().code == ErrorCode::kConflict);
  world.agents.verdict = "fail";
  world.Validate(0);
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
  world.agents.verdict = "pass";
  world.Validate(0);
  CHECK(world.NodeIs(0) == NodeState::kDrained);
  world.Pass(Duration::Minutes(60 * 24));
  world.Undrain(0);
  CHECK(world.NodeIs(0) == NodeState::kProbation);
  CHECK(world.last.wake_at == world.now + world.policy.probation);
  world.Pass(world.policy.probation);
  CHECK(world.NodeIs(0) == NodeState::kReady);
}

TEST_CASE("a drain ends no probation") {
  World world(Cluster().Leaf(1));
  world.Xid(0, 79);
  world.Validate(0);
  REQUIRE(world.NodeIs(0) == NodeState::kProbation);
  world.Drain(0);
  REQUIRE(world.NodeIs(0) == NodeState::kDrained);
  world.Undrain(0);
  CHECK(world.NodeIs(0) == NodeState::kProbation);
}

TEST_CASE("a node that is given back while its agent is away takes work once that answers") {
  World world(Cluster().Leaf(1));
  world.Drain(0);
  world.Lose(0);
  REQUIRE(world.NodeIs(0) == NodeState::kDrained);
  world.Undrain(0);
  CHECK(world.NodeIs(0) == NodeState::kLost);
  CHECK(world.state.nodes[0].reason == "its agent does not answer");
  const JobId job = world.Submit(AJob());
  CHECK(world.Is(job) == JobState::kQueued);
  world.Rejoin(0);
  CHECK(world.NodeIs(0) == NodeState::kReady);
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("a broken node comes back through validation and probation") {
  World world(Cluster().Leaf(1));
  world.Xid(0, 79);
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
  CHECK(world.Apply(UndrainRequested{NodeId(0), "op"}).error().code == ErrorCode::kConflict);
  world.agents.verdict = "fail";
  world.Validate(0);
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
  world.agents.verdict = "pass";
  world.Validate(0);
  CHECK(world.NodeIs(0) == NodeState::kProbation);
  CHECK(world.last.wake_at == world.now + world.policy.probation);
  CHECK(world.Is(world.Submit(AJob())) == JobState::kRunning);
  world.Pass(world.policy.probation);
  CHECK(world.NodeIs(0) == NodeState::kReady);
}

TEST_CASE("a silence does not end a probation early, nor begin it anew") {
  World world(Cluster().Leaf(1));
  world.Xid(0, 79);
  world.Validate(0);
  const Instant over = world.now + world.policy.probation;
  world.Pass(Duration::Minutes(10));
  (void)world.Do(NodeSilent{NodeId(0)});
  REQUIRE(world.NodeIs(0) == NodeState::kSuspect);
  (void)world.Do(NodeHeard{NodeId(0)});
  CHECK(world.NodeIs(0) == NodeState::kProbation);
  world.Lose(0);
  world.Pass(Duration::Minutes(1));
  world.Rejoin(0);
  CHECK(world.NodeIs(0) == NodeState::kProbation);
  CHECK(world.last.wake_at == over);
  world.Pass(over - world.now);
  CHECK(world.NodeIs(0) == NodeState::kReady);
  (void)world.Do(NodeSilent{NodeId(0)});
  (void)world.Do(NodeHeard{NodeId(0)});
  CHECK(world.NodeIs(0) == NodeState::kReady);
}

TEST_CASE("an operator's hold wins over a passed validation; the machine's own does not") {
  World world(Cluster().Leaf(2));
  world.Drain(0);
  world.Validate(0);
  CHECK(world.NodeIs(0) == NodeState::kDrained);
  CHECK(world.state.nodes[0].reason == "new fan");
  world.Undrain(0);
  CHECK(world.NodeIs(0) == NodeState::kReady);
  world.Xid(1, 63);
  CHECK(world.NodeIs(1) == NodeState::kDrained);
  world.Validate(1);
  CHECK(world.NodeIs(1) == NodeState::kProbation);
}

TEST_CASE("an operator takes over a drain the machine began") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob());
  world.Xid(0, 63);
  CHECK(world.NodesOf(job) == std::vector<uint32_t>{0});
  world.Drain(0);
  CHECK(world.NodesOf(job) == std::vector<uint32_t>{1});
  CHECK(world.state.nodes[0].actor == "op");
}

TEST_CASE("a task that hangs in the kernel is given up, and its node waits until it is gone") {
  World world(Cluster().Leaf(3));
  const JobId job = world.Submit(AJob().Nodes(2));
  REQUIRE(world.NodesOf(job) == std::vector<uint32_t>{0, 1});
  TaskReported report;
  report.node = NodeId(0);
  report.job = job;
  report.epoch = Epoch(1);
  report.task = 0;
  report.state = TaskState::kStopping;
  report.stuck = "pid 812 (python3, state D) does not die";
  REQUIRE(world.Apply(report));
  const Node& node = world.state.nodes[0];
  CHECK(world.NodeIs(0) == NodeState::kSuspect);
  CHECK(node.reason == "pid 812 (python3, state D) does not die (j-1)");
  CHECK(node.leftovers == std::vector<Leftover>{{job, Epoch(1), 0}});
  // It is heard all the time, which is no reason to use it.
  REQUIRE(world.Apply(NodeHeard{NodeId(0)}));
  CHECK(world.NodeIs(0) == NodeState::kSuspect);
  REQUIRE(world.Apply(report));  // said again
  CHECK(node.leftovers.size() == 1);
  CHECK(world.Is(job) == JobState::kStopping);
  world.Run();  // here the kernel lets go, too
  CHECK(world.Is(job) == JobState::kRunning);
  CHECK(world.NodesOf(job) == std::vector<uint32_t>{2, 1});
  CHECK(world.At(job).hardware_restarts == 1);
  CHECK(node.leftovers.empty());
  REQUIRE(world.Apply(NodeHeard{NodeId(0)}));
  CHECK(world.NodeIs(0) == NodeState::kReady);
  CHECK(node.reason.empty());
}

TEST_CASE("what ranks did before a child of theirs hung counts") {
  for (const ExitReason reason : {ExitReason::kSucceeded, ExitReason::kFailed}) {
    World world(Cluster().Leaf(2));
    const JobId job = world.Submit(AJob());
    TaskReported report = world.agents.Held(NodeId(0)).front();
    report.stuck = "pid 812 (python3, state D) does not die";
    report.exit.reason = reason;
    report.exit.code = reason == ExitReason::kFailed ? 3 : 0;
    REQUIRE(world.Apply(report));
    REQUIRE(world.Is(job) == JobState::kFinished);
    CHECK(std::get<Finished>(world.At(job).phase).outcome ==
          (reason == ExitReason::kFailed ? Outcome::kFailed : Outcome::kSucceeded));
    CHECK(world.NodeIs(0) == NodeState::kSuspect);
    CHECK(world.state.nodes[0].leftovers.size() == 1);
  }
}

TEST_CASE("a validation never runs beside a job or on a node kept for one") {
  World world(Cluster().Leaf(2));
  const JobId low = world.Submit(AJob().Priority(0));
  CHECK_FALSE(world.Apply(ValidationRequested{NodeId(0), "v", "op"}));
  world.agents.saves = false;
  const JobId high = world.Submit(AJob().Nodes(2).Priority(30));
  REQUIRE(world.ClaimOf(high) != nullptr);
  REQUIRE(world.Is(low) == JobState::kSaving);
  const Result<Applied> result = world.Apply(ValidationRequested{NodeId(1), "v", "op"});
  REQUIRE_FALSE(result);
  CHECK(result.error().message.find("j-2") != std::string::npos);
}

TEST_CASE("a fault does not end an operator's hold") {
  World world(Cluster().Leaf(2));
  world.Drain(0);
  world.Xid(0, 79);
  REQUIRE(world.NodeIs(0) == NodeState::kQuarantined);
  CHECK(world.state.nodes[0].reason.find("Xid 79") != std::string::npos);
  world.Validate(0);
  CHECK(world.NodeIs(0) == NodeState::kDrained);
  world.Undrain(0);
  world.Xid(1, 79);
  world.Validate(1);
  CHECK(world.NodeIs(1) == NodeState::kProbation);
}

TEST_CASE("a validation that is over, or another one, reports into the void") {
  World world(Cluster().Leaf(1));
  CHECK(*world.Do(ValidationReported{NodeId(0), "old", {}}) == Applied::kNoOp);
  world.agents.validates = false;
  world.Validate(0);
  CHECK(world.NodeIs(0) == NodeState::kValidating);
  CHECK(*world.Do(ValidationReported{NodeId(0), "old", {}}) == Applied::kNoOp);
  world.Rejoin(0);  // a restarted agent is asked again
  world.agents.validates = true;
  world.Run();
  CHECK(world.NodeIs(0) == NodeState::kReady);
}

TEST_CASE("no verdict at all is no pass") {
  World world(Cluster().Leaf(1));
  world.agents.verdict = "skipped";
  world.Validate(0);
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
  CHECK(world.state.nodes[0].reason == "no validator could run");
}

TEST_CASE("a loss without a warning is a loss") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob());
  world.agents.cut.emplace(NodeId(0), world.now);
  (void)world.Do(NodeLost{NodeId(0)});
  CHECK(world.NodeIs(0) == NodeState::kLost);
  CHECK(*world.Do(NodeLost{NodeId(0)}) == Applied::kNoOp);
  CHECK(world.Is(job) == JobState::kStopping);
}

TEST_CASE("a node whose agent does not answer is not validated: it would wait for ever") {
  World world(Cluster().Leaf(1));
  world.Drain(0);
  world.Lose(0);
  const Result<Applied> result = world.Apply(ValidationRequested{NodeId(0), "v", "op"});
  REQUIRE_FALSE(result);
  CHECK(result.error().message.find("A-l1-n1 cannot be validated") == 0);
  CHECK(world.NodeIs(0) == NodeState::kDrained);
  world.Rejoin(0);
  world.Validate(0);
  CHECK(world.NodeIs(0) == NodeState::kDrained);
  CHECK_FALSE(world.state.nodes[0].verdicts.empty());
}

TEST_CASE("a node lost during its validation is broken") {
  World world(Cluster().Leaf(1));
  world.agents.validates = false;
  world.Validate(0);
  world.Lose(0);
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
  CHECK(world.state.nodes[0].actor == "tide");
  world.agents.validates = true;
  world.Rejoin(0);
  world.Validate(0);
  CHECK(world.NodeIs(0) == NodeState::kProbation);  // not drained: no operator held it
}

TEST_CASE("agents are told to stop what should not run and to forget what is settled") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob());
  TaskReported stray = world.agents.Held(NodeId(0)).front();
  stray.epoch = Epoch(9);
  world.Turn({stray});
  REQUIRE(world.last.commands.size() == 1);
  CHECK(world.last.commands[0].kind == CommandKind::kStopTask);
  CHECK(world.last.commands[0].kill);
  stray.state = TaskState::kExited;
  stray.exit.reason = ExitReason::kStopped;
  world.Turn({stray});
  CHECK(world.last.commands[0].kind == CommandKind::kForgetTask);
  TaskReported elsewhere = world.agents.Held(NodeId(0)).front();
  elsewhere.node = NodeId(1);  // the right attempt on a node that was not given to it
  world.Turn({elsewhere});
  REQUIRE(world.last.commands.size() == 1);
  CHECK(world.last.commands[0].kind == CommandKind::kStopTask);
  CHECK(world.last.commands[0].node == NodeId(1));
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("what agents are owed can be derived again at any time") {
  World world(Cluster().Leaf(3));
  world.agents.starts = false;
  const JobId job = world.Submit(AJob().Nodes(2));
  std::vector<Command> owed = Outstanding(world.state, world.policy);
  REQUIRE(owed.size() == 2);
  CHECK(owed[0].kind == CommandKind::kStartTask);
  world.agents.starts = true;
  world.Run();
  CHECK(Outstanding(world.state, world.policy).empty());
  world.agents.saves = false;
  world.Hold(job);
  owed = Outstanding(world.state, world.policy);
  REQUIRE(owed.size() == 2);
  CHECK(owed[1].kind == CommandKind::kSuspendTask);
  CHECK(owed[1].deadline.is_set());
  world.agents.validates = false;
  world.Validate(2);
  CHECK(Outstanding(world.state, world.policy).back().kind == CommandKind::kValidate);
  ClusterState loaded = world.state;
  RebuildDerived(loaded);
  CHECK(Difference(world.state, loaded).empty());
  CHECK(Outstanding(loaded, world.policy) == Outstanding(world.state, world.policy));
}

}  // namespace tide::testing
