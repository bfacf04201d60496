// start-gang: from the submission of a gang to an idle cluster until every task has been told to
// start, and until the scheduler knows that all of them run.

#include <string>

#include "bench/benches.h"
#include "bench/daemons/fake_agents.h"
#include "bench/daemons/scheduler_process.h"
#include "common/base/check.h"
#include "scheduler/core/testing/builders.h"

namespace tide::bench {

namespace {

void StartGangOn(Run& run, StoreKind kind) {
  const uint32_t nodes = run.quick() ? 4 : 512;
  const std::string told = CaseOn(kind, "told " + std::to_string(nodes) + " nodes");
  const std::string running = CaseOn(kind, "running " + std::to_string(nodes) + " nodes");
  if (!run.Wants(told) && !run.Wants(running)) {
    return;
  }
  const BenchStore store(kind);
  const SchedulerProcess scheduler(store);
  const FakeAgents agents(scheduler, {.count = nodes * 2});
  SchedulerClient client(scheduler);
  Samples until_told;
  Samples until_running;
  for (uint64_t round = 1; round <= (run.quick() ? 2 : 10); ++round) {
    const int64_t start = MonotonicNanos();
    const auto job = client.Submit(testing::AJob().Nodes(nodes).Gpus(8).Spec());
    TIDE_CHECK(job.has_value(), "the gang is accepted");
    until_told.Add(agents.WaitForStarted(round * nodes).last_started_ns - start);
    TIDE_CHECK(client.WaitForState(*job, tide::v1::JOB_STATE_RUNNING).has_value(), "it runs");
    until_running.Add(MonotonicNanos() - start);
    TIDE_CHECK(client.Cancel(*job).has_value(), "it can be cancelled");
    (void)agents.WaitForForgotten(round * nodes);
  }
  run.AddTimes(told, until_told);
  run.AddTimes(running, until_running, {.p50_ms = {}, .p99_ms = 1000, .max_ms = {}});
}

}  // namespace

void RunStartGang(Run& run) {
  OnEachStore(run, StartGangOn);
}

}  // namespace tide::bench
