// decide-full: what a decision costs when nothing can start. All nodes are busy, every waiting gang
// is considered and gets its reasons. Peers (milliseconds to seconds) stop at the first blocked job
// or at a time limit.

#include "bench/benches.h"
#include "bench/worlds.h"
#include "common/base/check.h"
#include "scheduler/core/decide.h"

namespace tide::bench {

void RunDecideFull(Run& run) {
  if (!run.Wants("mixed")) {
    return;
  }
  const uint32_t pending = run.quick() ? 60 : kPending;
  const World world = BusyWorld(run.quick() ? 64 : kNodes, pending);
  const Samples samples = Measure(run.Times(200), [&] {
    Decision decision = Decide(world.state, world.policy, world.now);
    TIDE_CHECK(decision.proposals.empty(), "nothing can start or leave");
    TIDE_CHECK(decision.explanations.size() == pending, "every waiting job has its reasons");
    return decision;
  });
  run.AddTimes("mixed", samples, {.p50_ms = 5, .p99_ms = 20, .max_ms = {}});
}

}  // namespace tide::bench
