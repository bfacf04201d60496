// agent-idle: what a real agent holds and uses while its tasks run and nobody asks it for anything.

#include <poll.h>

#include "bench/benches.h"
#include "bench/daemons/one_agent.h"
#include "bench/daemons/process_use.h"
#include "common/base/time.h"

namespace tide::bench {

void RunAgentIdle(Run& run) {
  for (const uint32_t tasks : {8U, 0U}) {
    const std::string what = std::to_string(tasks) + " tasks";
    if (!run.Wants(what)) {
      continue;
    }
    const TaskPlace place;
    OneAgent agent(place);
    agent.StartMany(tasks, 1, {"/bin/sleep", "600"});
    agent.WaitUntilRunning(tasks);
    const int span_ms = run.quick() ? 200 : 30'000;
    ::poll(nullptr, 0, span_ms / 10);  // what the start left to do
    const double before = CpuSeconds(agent.pid());
    const int64_t begin = MonotonicNanos();
    ::poll(nullptr, 0, span_ms);
    const double seconds = static_cast<double>(MonotonicNanos() - begin) / 1e9;
    run.Add(what, Metric::kRatio, (CpuSeconds(agent.pid()) - before) / seconds, 1, AtMost(0.005));
    run.Add(what, Metric::kBytes, static_cast<double>(ResidentBytes(agent.pid())), 1, AtMost(60e6));
  }
}

}  // namespace tide::bench
