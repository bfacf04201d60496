// decide-replay: bursts of jobs of 1,000 users replayed on 10,000 nodes under time-sharing: how
// long steps of the scheduler take, each with its events and all that it decides. 6,000 jobs just
// fit; of 18,000 thousands wait, ask others to leave, and take their turns.

#include "bench/benches.h"
#include "bench/worlds.h"
#include "common/base/check.h"
#include "sim/simulate.h"

namespace tide::bench {
namespace {

void MeasureReplay(Run& run, std::string_view what, double mix_days, const TimeTargets& targets) {
  if (!run.Wants(what)) {
    return;
  }
  sim::SimOptions options;
  options.mix_days = mix_days;
  options.nodes = run.quick() ? 64 : kNodes;
  options.users = {.kind = sim::UserRule::Kind::kCount, .count = 1000};
  options.compress = 100;
  const Result<sim::Simulation> simulation = sim::Simulate(options);
  TIDE_CHECK(simulation.has_value(), "the mix runs on these nodes");
  Samples samples;
  const std::vector<int64_t>& steps = simulation->run.decide_ns;
  for (size_t i = 1; i < steps.size(); ++i) {  // in the first one all nodes join at once
    samples.Add(steps[i]);
  }
  run.AddTimes(what, samples, targets);
}

}  // namespace

void RunDecideReplay(Run& run) {
  const TimeTargets targets{.p50_ms = {}, .p99_ms = {}, .max_ms = 50};
  MeasureReplay(run, "6,000 jobs", 0.05, targets);
  MeasureReplay(run, "18,000 jobs", 0.15, targets);
}

}  // namespace tide::bench
