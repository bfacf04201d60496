// churn: jobs that are submitted, placed, started, ended and recorded per second. A job counts when
// the scheduler has its end on disk and says so to the agent.

#include <string>

#include "bench/benches.h"
#include "bench/daemons/fake_agents.h"
#include "bench/daemons/scheduler_process.h"
#include "bench/daemons/submit_load.h"
#include "scheduler/core/testing/builders.h"

namespace tide::bench {

namespace {

void ChurnOn(Run& run, StoreKind kind) {
  const std::string what = CaseOn(kind, "1 node");
  if (!run.Wants(what)) {
    return;
  }
  constexpr size_t kClients = 32;
  const size_t each = run.quick() ? 2 : 150;
  const BenchStore store(kind);
  const SchedulerProcess scheduler(store);
  const FakeAgents agents(scheduler, {.count = run.quick() ? 8U : 512U, .exit_at_once = true});
  const int64_t start = MonotonicNanos();
  (void)SubmitFromMany(scheduler.address(), testing::AJob().Gpus(8).Spec(), kClients, each);
  const size_t jobs = kClients * each;
  (void)agents.WaitForForgotten(jobs);
  const double seconds = static_cast<double>(MonotonicNanos() - start) / 1e9;
  run.Add(what, Metric::kPerS, static_cast<double>(jobs) / seconds, jobs, AtLeast(2000));
}

}  // namespace

void RunChurn(Run& run) {
  OnEachStore(run, ChurnOn);
}

}  // namespace tide::bench
