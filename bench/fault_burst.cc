// fault-burst: many nodes break in one moment, the circuit breaker being off; from the first
// report until each is shown out of service, which is after the commit.

#include <string>
#include <vector>

#include "bench/benches.h"
#include "bench/daemons/cluster_watch.h"
#include "bench/daemons/fake_agents.h"
#include "bench/daemons/faults.h"
#include "bench/daemons/scheduler_process.h"
#include "common/base/check.h"
#include "scheduler/core/testing/builders.h"

namespace tide::bench {
namespace {

struct BurstCase {
  std::string name;
  bool busy = false;  // gangs run on all nodes
};

// Runs gangs on all nodes.
void FillNodes(const SchedulerProcess& scheduler, const FakeAgents& agents, uint32_t nodes) {
  constexpr uint32_t kGang = 8;
  SchedulerClient client(scheduler);
  for (uint32_t i = 0; i < nodes / kGang; ++i) {
    TIDE_CHECK(client.Submit(testing::AJob().Nodes(kGang).Gpus(8).Spec()).has_value(),
               "the gang is accepted");
  }
  (void)agents.WaitForStarted(nodes / kGang * kGang);
}

// Half of the nodes break, then the other half.
Samples Burst(StoreKind kind, const BurstCase& which, uint32_t broken) {
  const uint32_t nodes = 2 * broken;
  const BenchStore store(kind);
  const SchedulerProcess scheduler(store, {.policy = kNoBreaker});
  FakeAgents agents(scheduler, {.count = nodes});
  const ClusterWatch watch(scheduler);
  (void)watch.WaitForServing(nodes);
  if (which.busy) {
    FillNodes(scheduler, agents, nodes);
  }
  Samples samples;
  for (uint32_t half = 0; half < 2; ++half) {
    const int64_t begin = MonotonicNanos();
    for (uint32_t i = half; i < nodes; i += 2) {
      agents.ReportFault(i, LostGpu());
    }
    const size_t out = size_t{broken} * (half + 1);
    const auto withdrawn = watch.WaitForWithdrawn(out);
    TIDE_CHECK(withdrawn.size() == out, "the broken nodes go out of service, and no others");
    for (uint32_t i = half; i < nodes; i += 2) {
      samples.Add(withdrawn.at(FakeAgents::NameOf(i)) - begin);
    }
    (void)agents.WaitForFaultsTaken(out);
  }
  return samples;
}

void FaultBurstOn(Run& run, StoreKind kind) {
  const uint32_t broken = run.quick() ? 8 : 1000;
  for (const BurstCase& each : {BurstCase{"idle nodes", false}, BurstCase{"busy nodes", true}}) {
    const std::string what = CaseOn(kind, each.name);
    if (!run.Wants(what)) {
      continue;
    }
    Samples samples;
    for (int round = 0; round < (run.quick() ? 1 : 3); ++round) {
      samples.Append(Burst(kind, each, broken));
    }
    run.AddTimes(what, samples, {.p50_ms = {}, .p99_ms = 1000, .max_ms = {}});
  }
}

}  // namespace

void RunFaultBurst(Run& run) {
  OnEachStore(run, FaultBurstOn);
}

}  // namespace tide::bench
