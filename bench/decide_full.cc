// decide-full: what a decision costs when nothing can start. All nodes are busy, every waiting gang
// is considered and gets its reasons. Peers (milliseconds to seconds) stop at the first blocked job
// or at a time limit.
//
// In the first case all that runs is of a class above all that waits. In the others everything is
// of one class, so that each waiting job has rights of its own: how long it has waited, how much it
// was slowed down, and what its owner holds differ from job to job, and a few may take nodes.

#include "bench/benches.h"
#include "bench/worlds.h"
#include "common/base/check.h"
#include "scheduler/core/decide.h"

namespace tide::bench {
namespace {

constexpr TimeTargets kTargets{.p50_ms = 5, .p99_ms = 20, .max_ms = {}};

uint32_t NodesOf(const Run& run) {
  return run.quick() ? 64 : kNodes;
}

uint32_t PendingOf(const Run& run) {
  return run.quick() ? 60 : kPending;
}

uint32_t PastOwnersOf(const Run& run) {
  return run.quick() ? 50 : 100'000;
}

// Measures decisions that propose at most so much.
void MeasureDecisions(Run& run, std::string_view what, const World& world, size_t most) {
  const Samples samples = Measure(run.Times(200), [&] {
    Decision decision = Decide(world.state, world.policy, world.now);
    TIDE_CHECK(decision.proposals.size() <= most, "few or none can start or leave");
    return decision;
  });
  TIDE_CHECK(Decide(world.state, world.policy, world.now).explanations.All(world.state).size() ==
                 PendingOf(run),
             "waiting jobs have their reasons");
  run.AddTimes(what, samples, kTargets);
}

void MeasureCrowd(Run& run, std::string_view what, const Crowd& crowd) {
  constexpr size_t kMostProposals = 1000;  // some 250 of 500 that may take nodes, and who leaves
  if (run.Wants(what)) {
    MeasureDecisions(run, what, CrowdedWorld(NodesOf(run), PendingOf(run), crowd), kMostProposals);
  }
}

}  // namespace

void RunDecideFull(Run& run) {
  if (run.Wants("mixed")) {
    MeasureDecisions(run, "mixed", BusyWorld(NodesOf(run), PendingOf(run)), 0);
  }
  MeasureCrowd(run, "waits to 10 h", {});
  MeasureCrowd(run, "1,000 users", {.users = 1000});
  MeasureCrowd(run, "5,000 users", {.users = 5000});
  MeasureCrowd(run, "100,000 past owners", {.users = 1000, .past_owners = PastOwnersOf(run)});
  MeasureCrowd(run, "40 quota rows", {.users = 1000, .quota_rows = 40});
}

}  // namespace tide::bench
