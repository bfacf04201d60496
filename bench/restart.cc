// restart: from the start of the process until a client has the whole view: 10,000 nodes and
// 100,000 jobs are loaded from the store, decided on and served.

#include <algorithm>
#include <string>

#include "bench/benches.h"
#include "bench/daemons/scheduler_process.h"
#include "bench/worlds.h"
#include "common/base/check.h"

namespace tide::bench {
namespace {

void RestartOn(Run& run, StoreKind kind) {
  const std::string what = CaseOn(kind, "serving");
  if (!run.Wants(what)) {
    return;
  }
  const BenchStore store(kind);
  size_t jobs = 0;
  {
    const World world = BusyWorld(run.quick() ? 64 : kNodes, run.quick() ? 60 : 10 * kPending);
    jobs = world.state.jobs.size();
    store.Fill(world.state, world.now);
  }
  Samples samples;
  int64_t resident = 0;
  for (int i = 0; i < 3; ++i) {
    const int64_t start = MonotonicNanos();
    const SchedulerProcess scheduler(store);
    scheduler.WaitUntilListening();
    SchedulerClient client(scheduler);
    const auto served = client.Jobs();
    samples.Add(MonotonicNanos() - start);
    TIDE_CHECK(served.has_value() && served->size() == jobs, "every job is served");
    resident = std::max(resident, scheduler.ResidentBytes());
  }
  run.AddTimes(what, samples, {.p50_ms = {}, .p99_ms = 2000, .max_ms = {}});
  run.Add(what, Metric::kBytes, static_cast<double>(resident), 3, AtMost(400e6));
}

}  // namespace

void RunRestart(Run& run) {
  OnEachStore(run, RestartOn);
}

}  // namespace tide::bench
