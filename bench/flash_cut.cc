// flash-cut: ports of an InfiniBand adapter are cut for 200 ms to 5 s, at any moment of the agent's
// samples; from the moment at which a port is up again until the agent has reported the cut. Each
// cut is a step of `link_downed`, as the adapter counts it.

#include <poll.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/benches.h"
#include "bench/daemons/one_agent.h"
#include "bench/daemons/port_tree.h"
#include "common/base/check.h"
#include "common/base/prng.h"

namespace tide::bench {
namespace {

constexpr int64_t kMsNanos = 1'000'000;
constexpr int64_t kShortest = 200 * kMsNanos;
constexpr int64_t kLongest = 5000 * kMsNanos;
constexpr int64_t kApart = 3000 * kMsNanos;  // cuts of one port

struct PortChange {
  int64_t at_ns = 0;
  size_t port = 0;
  bool up = false;
};

// Cuts each port so many times, at drawn moments, for drawn times; sorted.
std::vector<PortChange> DrawChanges(size_t ports, size_t cuts, int64_t longest) {
  std::vector<PortChange> changes;
  Prng random(1);
  for (size_t port = 0; port < ports; ++port) {
    int64_t at = MonotonicNanos();
    for (size_t cut = 0; cut < cuts; ++cut) {
      at += kApart + static_cast<int64_t>(random.Below(1000 * kMsNanos));
      changes.push_back({at, port, false});
      at += kShortest +
            static_cast<int64_t>(random.Below(static_cast<uint64_t>(longest - kShortest)));
      changes.push_back({at, port, true});
    }
  }
  std::ranges::sort(changes, {}, &PortChange::at_ns);
  return changes;
}

void SleepUntil(int64_t due) {
  for (int64_t left = 0; (left = due - MonotonicNanos()) > 0;) {
    const timespec span{left / 1'000'000'000, left % 1'000'000'000};
    ::nanosleep(&span, nullptr);
  }
}

}  // namespace

void RunFlashCut(Run& run) {
  if (!run.Wants("cuts")) {
    return;
  }
  const size_t cuts = run.quick() ? 1 : 13;
  const TaskPlace place;
  const std::string sysfs = place.path() + "/sys";
  std::vector<PortTree> ports;
  for (uint32_t i = 0; i < 8; ++i) {
    ports.emplace_back(sysfs, i);
  }
  OneAgent agent(place, {.sysfs = sysfs});
  agent.WaitUntilJoined();
  WaitUntilWatched(agent, ports);
  std::vector<std::vector<int64_t>> cut_at(ports.size());
  std::vector<std::vector<int64_t>> up_at(ports.size());
  for (const PortChange& change :
       DrawChanges(ports.size(), cuts, run.quick() ? kLongest / 5 : kLongest)) {
    SleepUntil(change.at_ns);
    if (change.up) {
      up_at[change.port].push_back(MonotonicNanos());
      ports[change.port].Up();
    } else {
      cut_at[change.port].push_back(MonotonicNanos());
      ports[change.port].Cut();
    }
  }
  // All that is late is told by then; what is not there is missing.
  ::poll(nullptr, 0, static_cast<int>(kApart / kMsNanos));
  Samples since_up;
  Samples since_cut;
  size_t seen = 0;
  const std::vector<ReportedFault> faults = agent.WaitForFaults(0, 1);
  for (size_t port = 0; port < ports.size(); ++port) {
    for (size_t cut = 0; cut < cuts; ++cut) {
      const int64_t begin = cut_at[port].at(cut);
      const int64_t end = cut + 1 < cuts ? cut_at[port].at(cut + 1) : MonotonicNanos();
      const auto is_of_cut = [&](const ReportedFault& each) {
        return each.fault.kind() == v1::FAULT_KIND_LINK_FLASH &&
               each.fault.device() == ports[port].device() && each.at_ns >= begin &&
               each.at_ns < end;
      };
      TIDE_CHECK(std::ranges::count_if(faults, is_of_cut) <= 1, "a cut is told once");
      const auto found = std::ranges::find_if(faults, is_of_cut);
      if (found != faults.end()) {
        ++seen;
        // A counter that rose tells of a cut even while the port is just coming up.
        since_up.Add(std::max<int64_t>(0, found->at_ns - up_at[port].at(cut)));
        since_cut.Add(found->at_ns - begin);
      }
    }
  }
  const size_t all = ports.size() * cuts;
  TIDE_CHECK(seen > 0, "cuts are seen");
  run.Add("cuts, seen",
          Metric::kRatio,
          static_cast<double>(seen) / static_cast<double>(all),
          all,
          AtLeast(1));
  run.AddTimes("cuts, up until seen", since_up, {.p50_ms = {}, .p99_ms = {}, .max_ms = 2000});
  run.AddTimes("cuts, down until seen", since_cut);
}

}  // namespace tide::bench
