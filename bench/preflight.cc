// preflight: a task of a gang is ordered while a network port of its node is cut, at any moment of
// the agent's samples: from the order until the agent has refused it; the part that was refused of
// orders that came a second and more after the cut. Beside it orders while all is well.

#include <poll.h>

#include <string>
#include <vector>

#include "bench/benches.h"
#include "bench/daemons/one_agent.h"
#include "bench/daemons/port_tree.h"
#include "common/base/check.h"
#include "common/base/prng.h"

namespace tide::bench {
namespace {

constexpr uint64_t kSampleMs = 1000;
constexpr int kUntilSeenMs = 2000;  // that a port is up again

void Pause(uint64_t ms) {
  ::poll(nullptr, 0, static_cast<int>(ms));
}

}  // namespace

void RunPreflight(Run& run) {
  if (!run.Wants("starts")) {
    return;
  }
  const size_t trials = run.quick() ? 2 : 60;
  const TaskPlace place;
  const std::string sysfs = place.path() + "/sys";
  std::vector<PortTree> ports;
  for (uint32_t i = 0; i < 8; ++i) {
    ports.emplace_back(sysfs, i);
  }
  OneAgent agent(place, {.sysfs = sysfs});
  agent.WaitUntilJoined();
  WaitUntilWatched(agent, ports);
  const std::vector<std::string> command = {"/bin/sleep", "1000"};
  Prng random(1);
  Samples refused;
  Samples started;
  size_t let_in = 0;
  for (size_t trial = 0; trial < trials; ++trial) {
    PortTree& port = ports[trial % ports.size()];
    port.Cut();
    Pause(kSampleMs + random.Below(kSampleMs));
    const StartAnswer cut = agent.StartOfGang(command);
    if (cut.refused) {
      refused.Add(cut.after_ns);
    } else {
      ++let_in;
    }
    agent.EndAll();
    port.Up();
    Pause(kUntilSeenMs);
    const StartAnswer well = agent.StartOfGang(command);
    TIDE_CHECK(!well.refused, "a node that is well starts tasks");
    started.Add(well.after_ns);
    agent.EndAll();
  }
  TIDE_CHECK(let_in < trials, "an unfit node refuses starts");
  run.Add("starts, a port cut for a second, refused",
          Metric::kRatio,
          static_cast<double>(trials - let_in) / static_cast<double>(trials),
          trials,
          AtLeast(1));
  run.AddTimes(
      "starts, a port cut, until refused", refused, {.p50_ms = {}, .p99_ms = 1000, .max_ms = {}});
  run.AddTimes("starts, all well, until starting", started);
}

}  // namespace tide::bench
