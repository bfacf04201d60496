// plan-all: a start estimate, with a range, for every waiting job. In `full` everything runs in a
// class above all that wait, so that each waits for ends; in `shared` the same classes run and
// wait, so that it is asked of every runner who may take its nodes, and when.

#include <algorithm>
#include <utility>

#include "bench/benches.h"
#include "bench/worlds.h"
#include "common/base/check.h"
#include "scheduler/core/policy/estimate.h"

namespace tide::bench {
namespace {

World PlanAllWorld(const Run& run, const std::vector<int32_t>& classes) {
  World world(run.quick() ? 64 : kNodes);
  world.RunAndEnd(run.quick() ? 100 : 5'000);
  world.Fill({.classes = classes});
  world.SubmitMix(run.quick() ? 60 : kPending, kHigh);
  RefreshFabric(world.state);
  return world;
}

}  // namespace

void RunPlanAll(Run& run) {
  for (const auto& [what, classes] : {std::pair("full", std::vector{kVeryHigh}),
                                      std::pair("shared", std::vector{kHigh, kNormal, kLow})}) {
    if (!run.Wants(what)) {
      continue;
    }
    const World world = PlanAllWorld(run, classes);
    const Samples samples = Measure(run.Times(50), [&] {
      auto estimates = EstimateStarts(world.state, world.state.fabric, world.policy, world.now);
      TIDE_CHECK(estimates.size() == world.state.waiting.size(), "every waiting job has an answer");
      return estimates;
    });
    run.AddTimes(what, samples, {.p50_ms = 30, .p99_ms = {}, .max_ms = {}});
    const auto estimates = EstimateStarts(world.state, world.state.fabric, world.policy, world.now);
    const auto planned = std::ranges::count(estimates, NoEstimate::kNone, &StartEstimate::none);
    run.Add(what, Metric::kCount, static_cast<double>(planned), 1);
  }
}

}  // namespace tide::bench
