// fault-path: from a line of the driver in the kernel log until the scheduler has received it from
// a real agent; and from an agent's report of a broken node until a real scheduler shows it out of
// service, which is after the commit. What a report that changes nothing takes until it is
// acknowledged is measured by turns: it is the commit, and a way there and back.

#include <poll.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "bench/benches.h"
#include "bench/daemons/cluster_watch.h"
#include "bench/daemons/fake_agents.h"
#include "bench/daemons/faults.h"
#include "bench/daemons/one_agent.h"
#include "bench/daemons/scheduler_process.h"
#include "bench/daemons/waiting_gangs.h"
#include "common/base/check.h"

namespace tide::bench {
namespace {

std::string DeviceOf(size_t line) {
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02zx:%02zx", 1 + line / 32, line % 32);
  return text;
}

// Faults come at any moment of the pauses and turns of the program under measurement.
void AwaitAnyMoment(size_t round) {
  ::poll(nullptr, 0, static_cast<int>(1 + round * 37 % 101));
}

void LineUntilReported(Run& run, const std::string& what) {
  const size_t lines = run.quick() ? 3 : 300;
  const TaskPlace place;
  const std::string kmsg = place.path() + "/kmsg";
  const LineFile log(kmsg);
  OneAgent agent(place, {.kmsg = kmsg});
  agent.WaitUntilJoined();
  Samples samples;
  for (size_t i = 0; i < lines; ++i) {
    AwaitAnyMoment(i);
    const int64_t written = MonotonicNanos();
    log.Append(LostGpuLine(DeviceOf(i)) + "\n");
    const auto faults = agent.WaitForFaults(i + 1, 20);
    TIDE_CHECK(faults.size() == i + 1 && faults.back().fault.device() == DeviceOf(i) &&
                   faults.back().fault.code() == 79,
               "each line is reported once, as what it is");
    samples.Add(faults.back().at_ns - written);
  }
  run.AddTimes(what, samples, {.p50_ms = 100, .p99_ms = 1000, .max_ms = {}});
}

struct EventCase {
  std::string suffix;    // of the names
  uint32_t waiting = 0;  // gangs in the store
};

void EventUntilOut(Run& run, StoreKind kind, const EventCase& which) {
  const std::string counted = CaseOn(kind, "on disk" + which.suffix);
  const std::string out = CaseOn(kind, "out" + which.suffix);
  if (!run.Wants(counted) && !run.Wants(out)) {
    return;
  }
  const uint32_t rounds = run.quick() ? 3 : 240;
  const uint32_t nodes = rounds + kWaitingNodes;
  const BenchStore store(kind);
  if (which.waiting > 0) {
    const Instant now = SystemNow();
    store.Fill(WaitingGangs(which.waiting, now), now);
  }
  const SchedulerProcess scheduler(store, {.policy = kNoBreaker});
  FakeAgents agents(scheduler, {.count = nodes});
  const ClusterWatch watch(scheduler);
  (void)watch.WaitForServing(nodes);
  Samples until_counted;
  Samples until_out;
  for (uint32_t i = 0; i < rounds; ++i) {
    AwaitAnyMoment(i);
    int64_t begin = MonotonicNanos();
    agents.ReportFault(i, CountedFault());
    until_counted.Add(agents.WaitForFaultsTaken(2 * i + 1).last_fault_taken_ns - begin);
    AwaitAnyMoment(i + 50);  // else it would come just when the loop shows what the other changed
    begin = MonotonicNanos();
    agents.ReportFault(i, LostGpu());
    const auto withdrawn = watch.WaitForWithdrawn(i + 1);
    TIDE_CHECK(withdrawn.size() == i + 1 && withdrawn.contains(FakeAgents::NameOf(i)),
               "the broken node goes out of service, and no other");
    until_out.Add(withdrawn.at(FakeAgents::NameOf(i)) - begin);
    (void)agents.WaitForFaultsTaken(2 * i + 2);
  }
  run.AddTimes(counted, until_counted);
  const double commit_ms = std::round(until_counted.PercentileMs(50) * 10) / 10;
  run.AddTimes(out, until_out, {.p50_ms = 5 + commit_ms, .p99_ms = 50, .max_ms = {}});
}

void EventsUntilOut(Run& run, StoreKind kind) {
  EventUntilOut(run, kind, {});
  EventUntilOut(run, kind, {", 10k jobs", run.quick() ? 100U : 10'000U});
}

}  // namespace

void RunFaultPath(Run& run) {
  if (run.Wants("line, reported")) {
    LineUntilReported(run, "line, reported");
  }
  OnEachStore(run, EventsUntilOut);
}

}  // namespace tide::bench
