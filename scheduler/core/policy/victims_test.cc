#include "scheduler/core/policy/victims.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "common/base/prng.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

struct VictimCandidate {
  const Job* job = nullptr;
  std::vector<NodeId> nodes;
};

PlacementResult Place(const World& world,
                      const PlacementRequest& request,
                      const std::vector<NodeId>& usable) {
  FreeNodes free(world.state.fabric);
  for (const NodeId node : usable) {
    free.Add(node);
  }
  return tide::Place(free, request);
}

PlacementRequest Wants(uint32_t nodes, const std::string& zone = "single") {
  PlacementRequest request;
  request.nodes = nodes;
  request.group = "default";
  request.zone = zone;
  return request;
}

// For a job of a class above all others.
VictimPlan Choose(const World& world, const PlacementRequest& request) {
  Job waiting;
  waiting.id = JobId(999);
  waiting.spec = AJob().Nodes(request.nodes).Zone(request.zone).Priority(50).Spec();
  const Shares shares(world.state, world.policy, world.now);
  const Capacity capacity(world.state, world.state.fabric);
  const Quotas quotas(world.state, world.state.fabric, world.policy, world.now);
  const Runners runners(world.state, world.policy, shares, quotas, world.now);
  const Contender contender{.job = &waiting, .priority = 50, .footing = {}};
  const TakeRules rules{[](NodeId) { return true; },
                        [](const Runner&) { return false; },
                        [&](const Runner& runner) { return runners.MayTake(contender, runner); }};
  return ChooseVictims(
      world.state, capacity, {contender, request}, capacity.idle(), runners, rules);
}

// A part of a node, for a job of a class above all others; `leaver` leaves anyway.
std::vector<JobId> ChoosePart(const World& world, uint32_t gpus, JobId leaver = JobId()) {
  Job waiting;
  waiting.id = JobId(999);
  waiting.spec = AJob().Gpus(gpus).Priority(50).Spec();
  const Shares shares(world.state, world.policy, world.now);
  const Capacity capacity(world.state, world.state.fabric);
  const Quotas quotas(world.state, world.state.fabric, world.policy, world.now);
  const Runners runners(world.state, world.policy, shares, quotas, world.now);
  const TakeRules rules{[](NodeId) { return true; },
                        [&](const Runner& runner) { return runner.job->id == leaver; },
                        [](const Runner&) { return true; }};
  const Contender contender{.job = &waiting, .priority = 50, .footing = {}};
  const VictimPlan plan =
      ChoosePartVictims(world.state, capacity, {contender, Wants(1)}, runners, rules);
  REQUIRE(plan.nodes.size() == 1);
  return plan.victims;
}

// It was suspended before, and that took a second more than is assumed.
void CostMore(World& world, JobId job) {
  Attempt left;
  left.end_cause = StopCause::kPreempted;
  left.notice_at = world.now;
  left.released_at = left.notice_at + world.policy.assumed_cost + Duration::Seconds(1);
  std::vector<Attempt>& attempts = world.state.jobs.at(job).attempts;
  attempts.insert(attempts.begin(), left);
  RebuildDerived(world.state);  // what has ended never changes otherwise
}

std::vector<VictimCandidate> RunningJobs(const World& world) {
  std::vector<VictimCandidate> candidates;
  for (const JobId id : world.state.live) {
    const Job& job = world.At(id);
    candidates.push_back({&job, AllocationOf(job)->nodes});
  }
  return candidates;
}

bool Suffices(const World& world,
              const PlacementRequest& request,
              const std::vector<NodeId>& idle,
              const std::vector<VictimCandidate>& candidates,
              uint32_t chosen) {
  std::vector<NodeId> pool = idle;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if ((chosen >> i & 1U) != 0) {
      pool.insert(pool.end(), candidates[i].nodes.begin(), candidates[i].nodes.end());
    }
  }
  return !Place(world, request, pool).nodes.empty();
}

uint32_t MaskOf(const std::vector<VictimCandidate>& candidates, const std::vector<JobId>& ids) {
  uint32_t mask = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (std::find(ids.begin(), ids.end(), candidates[i].job->id) != ids.end()) {
      mask |= 1U << i;
    }
  }
  return mask;
}

int32_t HighestClass(const std::vector<VictimCandidate>& candidates, uint32_t chosen) {
  int32_t highest = -100;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if ((chosen >> i & 1U) != 0) {
      highest = std::max(highest, candidates[i].job->spec->priority);
    }
  }
  return highest;
}

}  // namespace

TEST_CASE("the lowest class goes first, then who started last") {
  World world(Cluster().Leaf(3));
  const JobId normal = world.Submit(AJob().Priority(10));
  const JobId older = world.Submit(AJob().Priority(0));
  world.Pass(Duration::Seconds(1));
  const JobId younger = world.Submit(AJob().Priority(0));
  CHECK(Choose(world, Wants(1)).victims == std::vector<JobId>{younger});
  CHECK(Choose(world, Wants(2)).victims == std::vector<JobId>{older, younger});
  CHECK(Choose(world, Wants(3)).victims == std::vector<JobId>{normal, older, younger});
  CHECK(Choose(world, Wants(4)).nodes.empty());
}

TEST_CASE("a victim that does not help is spared") {
  World world(Cluster().Zone("A").Leaf(1).Zone("B").Leaf(3));
  const JobId elsewhere = world.Submit(AJob().Priority(0).Zone("A"));
  const JobId gang = world.Submit(AJob().Nodes(3).Priority(5).Zone("B"));
  const VictimPlan plan = Choose(world, Wants(3));
  CHECK(plan.victims == std::vector<JobId>{gang});
  CHECK(plan.nodes.size() == 3);
  CHECK(world.Is(elsewhere) == JobState::kRunning);
}

TEST_CASE("of two choices the cheaper one leaves: least for a GPU, or least in all") {
  World few(Cluster().Leaf(8));
  for (int i = 0; i < 4; ++i) {
    (void)few.Submit(AJob().Priority(0));
  }
  const JobId gang = few.Submit(AJob().Nodes(4).Priority(0));
  CHECK(Choose(few, Wants(4)).victims == std::vector<JobId>{gang});
  World one(Cluster().Leaf(5));
  (void)one.Submit(AJob().Nodes(4).Priority(0));
  const JobId dearer = one.Submit(AJob().Priority(0));
  CostMore(one, dearer);
  CHECK(Choose(one, Wants(1)).victims == std::vector<JobId>{dearer});
}

TEST_CASE("who saved a moment before leaves rather than who has days unsaved, whoever came first") {
  for (const size_t saver : {size_t{0}, size_t{1}}) {
    World world(Cluster().Leaf(2));
    world.agents.prepares = false;
    std::vector<JobId> jobs;
    for (int i = 0; i < 2; ++i) {
      jobs.push_back(world.Submit(AJob().Priority(0)));
      world.Pass(Duration::Minutes(1));
    }
    world.Pass(Duration::Minutes(3 * 24 * 60));
    world.Saved(jobs[saver], 7);
    CHECK(Choose(world, Wants(1)).victims == std::vector<JobId>{jobs[saver]});
  }
}

TEST_CASE("for a part: who leaves anyway, then the lowest class, then one rather than many") {
  World two(Cluster().Leaf(1));
  const JobId leaver = two.Submit(AJob().Gpus(4).Priority(0));
  const JobId stays = two.Submit(AJob().Gpus(4).Priority(0));
  CHECK(ChoosePart(two, 4) == std::vector<JobId>{stays});  // started last
  CHECK(ChoosePart(two, 4, leaver).empty());
  World classes(Cluster().Leaf(2));
  (void)classes.Submit(AJob().Gpus(7));
  const JobId low = classes.Submit(AJob().Gpus(4).Priority(0));
  (void)classes.Submit(AJob().Gpus(4).Priority(30));
  (void)classes.Submit(AJob().Gpus(1).Priority(0));  // the cheapest, but beside one of normal
  CHECK(ChoosePart(classes, 4) == std::vector<JobId>{low});
  World many(Cluster().Leaf(2));
  const JobId large = many.Submit(AJob().Gpus(8).Priority(0));
  for (int i = 0; i < 4; ++i) {
    (void)many.Submit(AJob().Gpus(2).Priority(0));
  }
  CostMore(many, large);
  CHECK(ChoosePart(many, 8) == std::vector<JobId>{large});
}

TEST_CASE("who is over its quota leaves first, however dear") {
  World world(Cluster().Leaf(2));
  (void)world.Submit(AJob().Priority(0), "bob");
  const JobId over = world.Submit(AJob().Priority(0), "eve");
  CostMore(world, over);
  QuotaRow row;
  row.subject = QuotaRow::Subject::kUser;
  row.name = "eve";
  world.policy.quotas = {row};
  CHECK(Choose(world, Wants(1)).victims == std::vector<JobId>{over});
}

TEST_CASE("against all subsets: found when any set suffices, none too many, none too high") {
  Prng prng(11);
  int planned = 0;
  for (int round = 0; round < 200; ++round) {
    World world(Cluster().Zone("A").Leaf(2).Leaf(2).Zone("B").Leaf(3));
    for (int i = 0; i < 5; ++i) {
      constexpr int32_t kClasses[] = {0, 5, 10};
      (void)world.Submit(
          AJob().Nodes(static_cast<uint32_t>(1 + prng.Below(2))).Priority(kClasses[prng.Below(3)]));
      world.Pass(Duration::Seconds(1));
    }
    std::vector<NodeId> idle;
    for (const Node& node : world.state.nodes) {
      if (world.state.uses[node.id.value()].idle()) {
        idle.push_back(node.id);
      }
    }
    const PlacementRequest request =
        Wants(static_cast<uint32_t>(1 + prng.Below(6)), prng.Below(2) == 0 ? "single" : "cross-ok");
    if (!Place(world, request, idle).nodes.empty()) {
      continue;
    }
    const std::vector<VictimCandidate> candidates = RunningJobs(world);
    const VictimPlan plan = Choose(world, request);
    const uint32_t all = (1U << candidates.size()) - 1;
    REQUIRE(plan.nodes.empty() == !Suffices(world, request, idle, candidates, all));
    if (plan.nodes.empty()) {
      continue;
    }
    ++planned;
    const uint32_t chosen = MaskOf(candidates, plan.victims);
    CHECK(Suffices(world, request, idle, candidates, chosen));
    for (uint32_t subset = 0; subset <= all; ++subset) {
      if (Suffices(world, request, idle, candidates, subset)) {
        CHECK(((subset & chosen) == chosen || (subset & ~chosen) != 0));  // none too many
        CHECK(HighestClass(candidates, chosen) <= HighestClass(candidates, subset));
      }
    }
  }
  CHECK(planned > 30);
}

}  // namespace tide::testing
