// scaling: how the cost of a decision grows with the nodes and with the jobs that wait. A case is
// named "decide NODES x WAITING".

#include <fmt/core.h>

#include "bench/benches.h"
#include "bench/worlds.h"
#include "common/base/check.h"
#include "scheduler/core/step.h"
#include "scheduler/core/testing/builders.h"

namespace tide::bench {
namespace {

void AddPoint(Run& run, const std::string& what, const Samples& samples) {
  run.Add(what, Metric::kP50Ms, samples.PercentileMs(50), samples.size());
  run.Add(what, Metric::kP99Ms, samples.PercentileMs(99), samples.size());
}

// A full decision, and one report into the same cluster.
void MeasureBusy(Run& run, uint32_t nodes, uint32_t pending) {
  const std::string decide = fmt::format("decide {} x {}", nodes, pending);
  const std::string report = fmt::format("report {} x {}", nodes, pending);
  if (!run.Wants(decide) && !run.Wants(report)) {
    return;
  }
  World world = BusyWorld(nodes, pending);
  if (run.Wants(decide)) {
    AddPoint(run, decide, Measure(run.Times(30), [&] {
               Decision decision = Decide(world.state, world.policy, world.now);
               TIDE_CHECK(decision.explanations.size() == pending, "every waiting job has reasons");
               return decision;
             }));
  }
  if (run.Wants(report)) {
    const Job& job = world.state.jobs.at(*world.state.live.begin());
    TaskReported saved;
    saved.node = job.attempts.back().tasks.front().node;
    saved.job = job.id;
    saved.epoch = job.attempts.back().epoch;
    saved.state = TaskState::kRunning;
    saved.saved_at = world.now;
    AddPoint(run, report, Measure(run.Times(30), [&] {
               ++saved.saved_step;
               const std::vector<Event> events = {{world.now, saved}};
               return Step(world.state, events, world.policy, world.now);
             }));
  }
}

// One gang on a half-busy cluster; nothing else waits.
void MeasurePlacement(Run& run, uint32_t nodes) {
  const std::string what = fmt::format("place {} x 1", nodes);
  if (!run.Wants(what)) {
    return;
  }
  World world = HalfBusyWorld(nodes);
  world.Submit(testing::AJob().Nodes(8).Gpus(8).Spec(), "ada");
  AddPoint(run, what, Measure(run.Times(100), [&] {
             Decision decision = Decide(world.state, world.policy, world.now);
             TIDE_CHECK(decision.proposals.size() == 1, "there is room for the gang");
             return decision;
           }));
}

}  // namespace

void RunScaling(Run& run) {
  const uint32_t nodes_fixed = run.quick() ? 64 : kNodes;
  const uint32_t pending_fixed = run.quick() ? 60 : kPending;
  const std::vector<uint32_t> nodes =
      run.quick() ? std::vector<uint32_t>{100, 200}
                  : std::vector<uint32_t>{100, 300, 1000, 3000, 10'000, 30'000};
  const std::vector<uint32_t> pending =
      run.quick() ? std::vector<uint32_t>{10, 30}
                  : std::vector<uint32_t>{100, 300, 1000, 3000, 30'000, 100'000};
  for (const uint32_t count : nodes) {
    MeasureBusy(run, count, pending_fixed);
  }
  for (const uint32_t count : pending) {
    MeasureBusy(run, nodes_fixed, count);
  }
  for (const uint32_t count : nodes) {
    MeasurePlacement(run, count);
  }
}

}  // namespace tide::bench
