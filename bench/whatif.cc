// whatif: what `tide plan` costs on a live cluster. `copy` is what the scheduler's loop pays for
// it; `plan` is all of it: copy the state, submit the job there, decide until that comes to rest.

#include "scheduler/core/whatif.h"

#include "bench/benches.h"
#include "bench/worlds.h"
#include "common/base/check.h"
#include "scheduler/core/testing/builders.h"

namespace tide::bench {

void RunWhatif(Run& run) {
  const World live = BusyWorld(run.quick() ? 64 : kNodes, run.quick() ? 60 : kPending);
  if (run.Wants("copy")) {
    run.AddTimes("copy", Measure(run.Times(50), [&] { return CopyForPlan(live.state); }));
  }
  if (run.Wants("plan")) {
    const JobSpec spec = testing::AJob().Nodes(8).Spec();
    const Samples samples = Measure(run.Times(50), [&] {
      auto plan = PlanJob(CopyForPlan(live.state), live.policy, spec, "ada", live.now);
      TIDE_CHECK(plan.has_value(), "the job could run on this cluster");
      TIDE_CHECK(plan->verdict == PlanVerdict::kQueues && !plan->reasons.empty(),
                 "nothing is free and nobody can be asked to leave");
      return plan;
    });
    run.AddTimes("plan", samples, {.p50_ms = {}, .p99_ms = 100, .max_ms = {}});
  }
}

}  // namespace tide::bench
