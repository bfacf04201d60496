// agents: what connected agents cost the scheduler when nothing happens but heartbeats.

#include <string>

#include "bench/benches.h"
#include "bench/daemons/fake_agents.h"
#include "bench/daemons/scheduler_process.h"
#include "common/base/check.h"

namespace tide::bench {
namespace {

// Of the one beat a second and agent that should be answered.
constexpr double kBeatsLeast = 0.9;

// Waits in the middle of a measurement; nothing is polled for.
void LetTimePass(int64_t nanos) {
  const timespec span{nanos / 1'000'000'000, nanos % 1'000'000'000};
  ::nanosleep(&span, nullptr);
}

void AgentsOn(Run& run, StoreKind kind) {
  const std::vector<uint32_t> counts =
      run.quick() ? std::vector<uint32_t>{10} : std::vector<uint32_t>{100, 1000, 10'000};
  for (const uint32_t count : counts) {
    const std::string what = CaseOn(kind, std::to_string(count) + " agents");
    if (!run.Wants(what)) {
      continue;
    }
    const BenchStore store(kind);
    const SchedulerProcess scheduler(store);
    const FakeAgents agents(scheduler, {.count = count});
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
    // Promised for 10,000 agents: 30 % of a core, 400 MB.
    run.Add(what, Metric::kRatio, cpu / seconds, 1, AtMost(0.3));
    run.Add(what, Metric::kCpuS, cpu, 1);
    run.Add(what, Metric::kBytes, static_cast<double>(scheduler.ResidentBytes()), 1, AtMost(400e6));
  }
}

}  // namespace

void RunAgents(Run& run) {
  OnEachStore(run, AgentsOn);
}

}  // namespace tide::bench
