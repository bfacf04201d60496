// preempt: who leaves for a large gang of a higher class among thousands of small jobs, or the
// proof that no set of victims suffices. Peers search by simulation and take minutes for the proof.

#include <algorithm>

#include "bench/benches.h"
#include "bench/worlds.h"
#include "common/base/check.h"
#include "scheduler/core/decide.h"
#include "scheduler/core/testing/builders.h"

namespace tide::bench {
namespace {

// Jobs of 1 to 3 nodes: more than 5,000 of them on 10,000 nodes.
constexpr uint32_t kSmall = 3;

void MeasureDecision(Run& run, std::string_view what, World world, uint32_t gang, bool possible) {
  TIDE_CHECK(run.quick() || world.state.live.size() >= 5000, "5,000 jobs run");
  world.Submit(testing::AJob().Nodes(gang).Gpus(8).Priority(kHigh).Spec(), "ada");
  const Samples samples = Measure(run.Times(50), [&] {
    Decision decision = Decide(world.state, world.policy, world.now);
    const bool asked = std::any_of(
        decision.proposals.begin(), decision.proposals.end(), [](const EventBody& body) {
          return std::holds_alternative<SuspendRequested>(body);
        });
    TIDE_CHECK(asked == possible, "victims are asked exactly where a set of them suffices");
    return decision;
  });
  run.AddTimes(what, samples, {.p50_ms = {}, .p99_ms = 50, .max_ms = {}});
}

}  // namespace

void RunPreempt(Run& run) {
  const uint32_t nodes = run.quick() ? 64 : kNodes;
  const uint32_t gang = std::max(nodes / 20, 8U);
  if (run.Wants("victims")) {
    World world(nodes);
    world.Fill({.classes = {kLow, kNormal}, .most = kSmall});
    MeasureDecision(run, "victims", std::move(world), gang, true);
  }
  // One job in twenty may be asked to leave: half of what the gang needs in each zone.
  if (run.Wants("too few may leave")) {
    World world(nodes);
    std::vector<int32_t> classes(20, kVeryHigh);
    classes.front() = kLow;
    world.Fill({.classes = classes, .most = kSmall});
    MeasureDecision(run, "too few may leave", std::move(world), gang, false);
  }
  // Everybody may leave, but a node of each zone is out of service and the gang needs a whole zone.
  if (run.Wants("all would not do")) {
    World world(nodes);
    world.Drain(NodeId(nodes / 4));
    world.Drain(NodeId(nodes / 4 * 3));
    world.Fill({.classes = {kLow, kNormal}, .most = kSmall});
    MeasureDecision(run, "all would not do", std::move(world), nodes / 2, false);
  }
}

}  // namespace tide::bench
