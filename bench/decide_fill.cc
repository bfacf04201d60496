// decide-fill: an empty cluster and a queue longer than it can hold, as after an outage. `decide`
// is the first decision alone, `step` goes on until nothing more can start and includes the state's
// changes and the commands to agents.

#include "bench/benches.h"
#include "bench/worlds.h"
#include "common/base/check.h"
#include "scheduler/core/step.h"

namespace tide::bench {

void RunDecideFill(Run& run) {
  const World empty = WaitingWorld(run.quick() ? 64 : kNodes, run.quick() ? 60 : kPending);
  const TimeTargets targets{.p50_ms = {}, .p99_ms = 50, .max_ms = {}};
  if (run.Wants("decide")) {
    const Samples samples = Measure(run.Times(100), [&] {
      Decision decision = Decide(empty.state, empty.policy, empty.now);
      TIDE_CHECK(!decision.proposals.empty(), "something starts on an empty cluster");
      return decision;
    });
    run.AddTimes("decide", samples, targets);
  }
  if (run.Wants("step")) {
    const Samples samples = Measure(
        run.Times(30),
        [&] { return empty.state; },
        [&](ClusterState& state) {
          StepResult result = Step(state, {}, empty.policy, empty.now);
          TIDE_CHECK(!result.commands.empty(), "agents are told to start what was placed");
          return result;
        });
    run.AddTimes("step", samples, targets);
  }
}

}  // namespace tide::bench
