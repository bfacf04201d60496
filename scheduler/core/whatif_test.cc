// What the plan of a job says, and that a submission then does just that.

#include "scheduler/core/whatif.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <map>

#include "common/base/prng.h"
#include "scheduler/core/testing/world.h"

using namespace tide;
using namespace tide::testing;

namespace {

Result<JobPlan> Ask(const World& world, const AJob& job, const std::string& user = "ada") {
  return PlanJob(CopyForPlan(world.state), world.policy, job.Spec(), user, world.now);
}

std::vector<std::string> Codes(const JobPlan& plan) {
  std::vector<std::string> codes;
  for (const PlannedReason& reason : plan.reasons) {
    codes.push_back(reason.code);
  }
  return codes;
}

std::vector<std::string> NodesOf(const JobPlan& plan) {
  std::vector<std::string> nodes;
  for (const PlannedLeaf& leaf : plan.layout) {
    nodes.insert(nodes.end(), leaf.nodes.begin(), leaf.nodes.end());
  }
  return nodes;
}

}  // namespace

TEST_CASE("a plan shows the nodes of a job that starts, leaf by leaf") {
  World world(Cluster().Zone("A").Leaf(2).Leaf(2));
  const auto plan = Ask(world, AJob().Nodes(3));
  REQUIRE(plan);
  CHECK(plan->verdict == PlanVerdict::kStarts);
  CHECK(plan->layout == std::vector<PlannedLeaf>{{"A", "A-l1", {"A-l1-n1", "A-l1-n2"}},
                                                 {"A", "A-l2", {"A-l2-n1"}}});
  CHECK_FALSE(plan->part);
  CHECK_FALSE(plan->opportunistic);
  CHECK_FALSE(plan->cross_zone_pairs);
  CHECK(plan->victims.empty());
  CHECK(plan->reasons.empty());
}

TEST_CASE("a plan prefers the nodes that have the image, as a submission does") {
  World world(Cluster().Leaf(3));
  world.state.warm.Set(NodeId(2), {"train:1"});
  const auto plan = Ask(world, AJob().Image("train:1"));
  REQUIRE(plan);
  CHECK(NodesOf(*plan) == std::vector<std::string>{world.state.nodes[2].identity.name});
  CHECK(world.NodesOf(world.Submit(AJob().Image("train:1"))) == std::vector<uint32_t>{2});
}

TEST_CASE("a plan counts what crosses zones") {
  World world(Cluster().Zone("A").Leaf(2).Zone("B").Leaf(2));
  const auto plan = Ask(world, AJob().Nodes(3).Zone("cross-ok"));
  REQUIRE(plan);
  CHECK(plan->verdict == PlanVerdict::kStarts);
  REQUIRE(plan->cross_zone_pairs);
  CHECK(plan->cross_zone_pairs->plan == 1);
}

TEST_CASE("a plan shows the part of a node") {
  World world(Cluster().Leaf(1));
  world.Submit(AJob().Gpus(2));
  const auto plan = Ask(world, AJob().Gpus(4));
  REQUIRE(plan);
  CHECK(plan->verdict == PlanVerdict::kStarts);
  REQUIRE(plan->part);
  CHECK(plan->part->gpus == 4);
  CHECK(plan->part->devices == 0b0011'1100);
}

TEST_CASE("a plan names those that would be asked to leave, and their notice") {
  World world(Cluster().Leaf(2));
  const JobId low = world.Submit(AJob().Nodes(2).Priority(0).Notice(Duration::Seconds(40)));
  const auto plan = Ask(world, AJob().Nodes(2).Priority(30));
  REQUIRE(plan);
  CHECK(plan->verdict == PlanVerdict::kPreempts);
  CHECK(plan->layout.size() == 1);
  CHECK(plan->victims == std::vector<PlannedVictim>{
                             {low, world.At(low).spec->name, "ada", 0, 2, Duration::Seconds(40)}});
  CHECK(Codes(*plan) == std::vector<std::string>{"preempt.in_progress"});
  CHECK(world.Is(low) == JobState::kRunning);  // nobody was asked
}

TEST_CASE("a plan gives every reason of a job that would wait, as if it waited") {
  World world(Cluster().Leaf(2));
  world.Submit(AJob().Nodes(2).Priority(30));
  world.Submit(AJob().Nodes(2).Priority(10));
  const auto plan = Ask(world, AJob().Nodes(2).Priority(10));
  REQUIRE(plan);
  CHECK(plan->verdict == PlanVerdict::kQueues);
  REQUIRE(plan->estimate);
  CHECK(plan->estimate->earliest > world.now);
  CHECK(plan->estimate->latest >= plan->estimate->likely);
  CHECK(plan->estimate->basis == "from 1 job ahead");
  CHECK(plan->layout.empty());
  const JobId job = world.Submit(AJob().Nodes(2).Priority(10));
  CHECK(Codes(*plan) == world.Why(job));
  CHECK(Codes(*plan).back() == "order.ahead");
}

TEST_CASE("a plan knows of quotas: what is borrowed, and what cannot be had") {
  World world(Cluster().Leaf(4));
  QuotaRow row;
  row.name = "default";
  row.nodes = 1;
  row.limit = 2;
  world.policy.quotas = {row};
  CHECK_FALSE(Ask(world, AJob())->borrows);
  const auto more = Ask(world, AJob().Nodes(2));
  CHECK(more->verdict == PlanVerdict::kStarts);
  CHECK(more->borrows);
  const auto most = Ask(world, AJob().Nodes(3));
  CHECK(most->verdict == PlanVerdict::kQueues);
  REQUIRE(Codes(*most) == std::vector<std::string>{"quota.project"});
  CHECK_FALSE(most->reasons.front().message.empty());
}

TEST_CASE("a plan says what the quotas that count the job have left without it") {
  World world(Cluster().Leaf(4));
  QuotaRow project;
  project.name = "default";
  project.nodes = 1;
  project.limit = 3;
  QuotaRow user = project;
  user.subject = QuotaRow::Subject::kUser;
  user.name = "ada";
  user.limit.reset();
  user.until = world.now + Duration::Minutes(60);
  QuotaRow other_class = project;
  other_class.priority = 50;
  world.policy.quotas = {user, other_class, project};
  world.Submit(AJob().Nodes(1));
  const PlannedQuota of_project{
      false, "default", "", std::nullopt, 1000, 3000, 1000, 2000, Instant()};
  const PlannedQuota of_user{
      true, "ada", "", std::nullopt, 1000, std::nullopt, 1000, 2000, user.until};
  const auto starts = Ask(world, AJob().Nodes(2));
  CHECK(starts->quotas == std::vector{of_project, of_user});
  CHECK(Ask(world, AJob().Nodes(3))->quotas.front().used == 1000);  // it would wait
  CHECK(Ask(world, AJob().Gpus(4))->quotas.front().wanted == 500);
  CHECK(Ask(world, AJob(), "bob")->quotas.size() == 1);
}

TEST_CASE("what can never run is refused as a submission would be") {
  World world(Cluster().Zone("A").Leaf(2).Zone("B").Leaf(2));
  const std::vector<AJob> jobs = {
      AJob().Nodes(3), AJob().Nodes(5).Zone("cross-ok"), AJob().Group("h100"), AJob().Gpus(9)};
  for (const AJob& job : jobs) {
    const auto plan = Ask(world, job);
    REQUIRE_FALSE(plan);
    CHECK(plan.error().code == ErrorCode::kNeverFits);
    const auto submitted =
        world.Apply(JobSubmitted{JobId(world.state.next_job_id), job.Spec(), "ada", ""});
    CHECK(plan.error() == submitted.error());
  }
  CHECK(Ask(World(Cluster()), AJob()).error().code == ErrorCode::kUnavailable);
}

TEST_CASE("the hash of a plan changes with the answer, not with the time") {
  World world(Cluster().Leaf(3));
  const auto first = Ask(world, AJob().Nodes(2));
  world.Pass(Duration::Minutes(5));
  const auto later = Ask(world, AJob().Nodes(2));
  CHECK(first->hash == later->hash);
  world.Drain(0);
  CHECK(Ask(world, AJob().Nodes(2))->hash != first->hash);
}

namespace {

AJob RandomJob(Prng& prng) {
  AJob job;
  job.Nodes(static_cast<uint32_t>(1 + prng.Below(4)));
  job.Priority(prng.Below(2) == 0 ? 10 : 30);
  job.Zone(prng.Below(3) == 0 ? "cross-ok" : "single");
  job.Gpus(static_cast<uint32_t>(prng.Below(2) == 0 ? 8 : 2));
  return job;
}

// Jobs end, are held and go on, nodes leave and come back, time passes.
void Disturb(World& world, Prng& prng) {
  if (prng.Below(3) != 0) {
    world.Run();
  }
  if (prng.Below(2) == 0 && !world.state.live.empty()) {
    const auto chosen = static_cast<int64_t>(prng.Below(world.state.live.size()));
    const JobId job = *std::next(world.state.live.begin(), chosen);
    prng.Below(2) == 0 ? world.Cancel(job) : world.Hold(job);
  }
  const auto node = static_cast<uint32_t>(prng.Below(world.state.nodes.size()));
  if (prng.Below(8) == 0) {
    world.Drain(node);
  } else if (world.NodeIs(node) == NodeState::kDrained) {
    world.Undrain(node);
  }
  const auto minutes = Duration::Minutes(static_cast<int64_t>(1 + prng.Below(30)));
  if (prng.Below(6) == 0) {
    world.Pass(minutes);
  } else if (prng.Below(4) == 0) {
    world.now = world.now + minutes;  // what is due is due in the turn of the submission
  }
}

// The nodes that it has, or that are kept for it.
std::vector<std::string> NodesGiven(const World& world, JobId job) {
  const Allocation* allocation = AllocationOf(world.At(job));
  std::vector<NodeId> nodes;
  if (allocation != nullptr) {
    nodes = allocation->nodes;
  } else if (const Claim* claim = world.ClaimOf(job)) {
    nodes = claim->nodes;
  }
  std::vector<std::string> names;
  for (const NodeId node : nodes) {
    names.push_back(world.state.nodes[node.value()].identity.name);
  }
  return names;
}

}  // namespace

TEST_CASE("in random worlds a submission does what its plan said") {
  Prng prng(20260711);
  std::map<PlanVerdict, int> given;
  for (int round = 0; round < 60; ++round) {
    World world(Cluster().Zone("A").Leaf(3).Leaf(2).Zone("B").Leaf(4));
    if (round % 3 == 0) {
      QuotaRow row;
      row.subject = QuotaRow::Subject::kUser;
      row.name = "bob";
      row.nodes = 2;
      row.limit = 4;
      world.policy.quotas = {row};
    }
    for (int step = 0; step < 25; ++step) {
      const AJob job = RandomJob(prng);
      const std::string user = prng.Below(3) == 0 ? "bob" : "ada";
      const auto plan = Ask(world, job, user);
      REQUIRE(plan);
      CHECK(Ask(world, job, user) == plan);
      const JobId id(world.state.next_job_id);
      REQUIRE(world.Apply(JobSubmitted{id, job.Spec(), user, ""}));
      const bool starts = AllocationOf(world.At(id)) != nullptr;
      const bool claims = !starts && world.ClaimOf(id) != nullptr;
      CHECK((plan->verdict == PlanVerdict::kStarts) == starts);
      CHECK((plan->verdict == PlanVerdict::kPreempts) == claims);
      CHECK(NodesOf(*plan) == NodesGiven(world, id));
      CHECK(Codes(*plan) == world.Why(id));
      CHECK(plan->victims.size() == (claims ? world.ClaimOf(id)->victims.size() : 0));
      ++given[plan->verdict];
      Disturb(world, prng);
    }
  }
  // Each answer was given often.
  CHECK(given[PlanVerdict::kStarts] > 100);
  CHECK(given[PlanVerdict::kPreempts] > 50);
  CHECK(given[PlanVerdict::kQueues] > 100);
}

TEST_CASE("the copy for a plan leaves a cluster's history out") {
  World world(Cluster().Leaf(2));
  const JobId done = world.Submit(AJob());
  world.Finish(done);
  const JobId low = world.Submit(AJob().Nodes(2).Priority(0));
  const JobId high = world.Submit(AJob().Nodes(2).Priority(30));
  world.Finish(high);
  world.Run();
  REQUIRE(world.At(low).attempts.size() == 2);
  const ClusterState copy = CopyForPlan(world.state);
  CHECK(copy.FindJob(done) == nullptr);
  CHECK(copy.FindJob(high) == nullptr);
  CHECK(copy.jobs.at(low).attempts.front().tasks.empty());
  Attempt last = world.At(low).attempts.back();
  std::ranges::for_each(last.tasks, [](Task& task) { task.gpus = 0; });  // no GPU time is counted
  CHECK(copy.jobs.at(low).attempts.back() == last);
  CHECK_FALSE(CheckInvariants(copy));
}
