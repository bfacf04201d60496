// handover: from the moment the last victim has left its node until the beneficiary's tasks have
// been told to start. Victims save at once here: what is measured is the platform.

#include <string>

#include "bench/benches.h"
#include "bench/daemons/fake_agents.h"
#include "bench/daemons/scheduler_process.h"
#include "bench/worlds.h"
#include "common/base/check.h"
#include "scheduler/core/testing/builders.h"

namespace tide::bench {

namespace {

void HandoverOn(Run& run, StoreKind kind) {
  const std::string what = CaseOn(kind, "16 nodes");
  if (!run.Wants(what)) {
    return;
  }
  constexpr uint32_t kGang = 16;
  const BenchStore store(kind);
  const SchedulerProcess scheduler(store);
  const FakeAgents agents(scheduler, {.count = kGang * 2});  // two zones
  SchedulerClient client(scheduler);
  Samples samples;
  uint64_t started = 0;
  // Fills both zones for good; the first is the victim of every round and comes back after it.
  for (int i = 0; i < 2; ++i) {
    const auto low = client.Submit(testing::AJob().Nodes(kGang).Gpus(8).Priority(kLow).Spec());
    TIDE_CHECK(low.has_value(), "a low job is accepted");
    started += kGang;
    (void)agents.WaitForStarted(started);
    TIDE_CHECK(client.WaitForState(*low, tide::v1::JOB_STATE_RUNNING).has_value(), "it runs");
  }
  for (int round = 0; round < (run.quick() ? 2 : 50); ++round) {
    const auto urgent = client.Submit(testing::AJob().Nodes(kGang).Gpus(8).Priority(kHigh).Spec());
    TIDE_CHECK(urgent.has_value(), "an urgent job is accepted");
    started += kGang;
    const FakeAgents::Counts counts = agents.WaitForStarted(started);
    samples.Add(counts.last_started_ns - counts.last_left_ns);
    TIDE_CHECK(client.WaitForState(*urgent, tide::v1::JOB_STATE_RUNNING).has_value(), "it runs");
    TIDE_CHECK(client.Cancel(*urgent).has_value(), "it can be cancelled");
    started += kGang;  // the victim resumes
    (void)agents.WaitForStarted(started);
  }
  run.AddTimes(what, samples, {.p50_ms = {}, .p99_ms = 300, .max_ms = {}});
}

}  // namespace

void RunHandover(Run& run) {
  OnEachStore(run, HandoverOn);
}

}  // namespace tide::bench
