// agents: what connected agents cost the scheduler when nothing happens but heartbeats.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bench/benches.h"
#include "bench/daemons/fake_agents.h"
#include "bench/daemons/scheduler_process.h"
#include "common/base/check.h"
#include "scheduler/core/apply.h"
#include "scheduler/core/testing/builders.h"

namespace tide::bench {
namespace {

// Of the one beat a second and agent that should be answered.
constexpr double kBeatsLeast = 0.9;

// Waits in the middle of a measurement; nothing is polled for.
void LetTimePass(int64_t nanos) {
  const timespec span{nanos / 1'000'000'000, nanos % 1'000'000'000};
  ::nanosleep(&span, nullptr);
}

struct AgentsCase {
  uint32_t agents = 0;
  uint32_t jobs = 0;
  bool datagrams = true;
};

// The agents' nodes, and jobs of one to 64 of them: as soon as the agents are there the nodes are
// full, and the rest waits.
ClusterState Queue(const AgentsCase& sizes, Instant now) {
  constexpr uint32_t kQueueUsers = 200;
  constexpr uint32_t kMostNodes = 64;
  ClusterState state;
  const auto apply = [&](EventBody body) {
    TIDE_CHECK(Apply(state, {now, std::move(body)}).has_value(), "nodes join and jobs come");
  };
  testing::Cluster cluster;
  cluster.Zone("A");
  for (uint32_t nodes = 0; nodes < sizes.agents; nodes += kMostNodes) {
    cluster.Leaf(std::min(kMostNodes, sizes.agents - nodes));
  }
  for (NodeJoined join : cluster.Joins()) {
    join.identity.name = FakeAgents::NameOf(join.node.value());
    apply(std::move(join));
  }
  for (uint32_t i = 0; i < sizes.jobs; ++i) {
    const uint32_t nodes = 1 + i % std::min(kMostNodes, sizes.agents / 2);
    apply(JobSubmitted{JobId(state.next_job_id),
                       testing::AJob().Nodes(nodes).Gpus(8).Spec(),
                       "user" + std::to_string(i % kQueueUsers),
                       ""});
  }
  return state;
}

// Until those that can start have, and why the others wait is shown.
void WaitUntilAtRest(const SchedulerProcess& scheduler) {
  constexpr double kIdle = 0.5;
  constexpr int kSecondsMost = 120;
  double used = kIdle;
  for (int i = 0; i < kSecondsMost && used >= kIdle; ++i) {
    const double before = scheduler.CpuSeconds();
    LetTimePass(1'000'000'000);
    used = scheduler.CpuSeconds() - before;
  }
}

void AgentsOn(Run& run, StoreKind kind) {
  const std::vector<AgentsCase> cases =
      run.quick()
          ? std::vector<AgentsCase>{{10}, {10, 20}, {10, 0, false}}
          : std::vector<AgentsCase>{{100}, {1000}, {10'000}, {10'000, 100'000}, {10'000, 0, false}};
  for (const AgentsCase& each : cases) {
    const auto& [count, jobs, datagrams] = each;
    const std::string what = CaseOn(kind,
                                    std::to_string(count) + " agents" +
                                        (jobs > 0 ? ", " + std::to_string(jobs) + " jobs" : "") +
                                        (datagrams ? "" : " without UDP"));
    if (!run.Wants(what)) {
      continue;
    }
    const BenchStore store(kind);
    if (jobs > 0) {
      const Instant now = SystemNow();
      store.Fill(Queue(each, now), now);
    }
    const SchedulerProcess scheduler(store);
    const FakeAgents agents(scheduler, {.count = count, .datagrams = datagrams});
    if (jobs > 0) {
      WaitUntilAtRest(scheduler);
    }
    const uint64_t beats_before = agents.counts().beats;
    const double cpu_before = scheduler.CpuSeconds();
    const int64_t start = MonotonicNanos();
    LetTimePass(run.quick() ? 100'000'000 : 10'000'000'000);
    const double seconds = static_cast<double>(MonotonicNanos() - start) / 1e9;
    const double cpu = scheduler.CpuSeconds() - cpu_before;
    const auto beats = static_cast<double>(agents.counts().beats - beats_before);
    run.Add(what, Metric::kCount, agents.connected(), 1, AtLeast(count));
    run.Add(what, Metric::kPerS, beats / seconds, 1, AtLeast(kBeatsLeast * count));
    // What a scheduler costs that does not answer is no figure: it would look cheap.
    if (beats / seconds < kBeatsLeast * count || agents.connected() < count) {
      continue;
    }
    // Promised for 10,000 agents: 30 % of a core, 400 MB. Without UDP nothing is.
    run.Add(what, Metric::kRatio, cpu / seconds, 1, AtMost(datagrams ? 0.3 : 1.0));
    run.Add(what, Metric::kCpuS, cpu, 1);
    run.Add(what, Metric::kBytes, static_cast<double>(scheduler.ResidentBytes()), 1, AtMost(400e6));
  }
}

}  // namespace

void RunAgents(Run& run) {
  OnEachStore(run, AgentsOn);
}

}  // namespace tide::bench
