#include "bench/daemons/port_tree.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/time.h"

namespace tide::bench {

PortTree::PortTree(const std::string& sysfs, uint32_t number)
    : device_("mlx5_" + std::to_string(number) + "/1"),
      folder_(sysfs + "/class/infiniband/mlx5_" + std::to_string(number) + "/ports/1") {
  std::filesystem::create_directories(folder_ + "/counters");
  Write("rate", "400 Gb/sec (4X NDR)");
  Write("link_layer", "InfiniBand");
  Write("counters/link_downed", "0");
  Up();
}

void PortTree::Cut() {
  // The agent reads counters first: so it meets one cut, as of an adapter, which does both at once.
  Write("phys_state", "2: Polling");
  Write("state", "1: DOWN");
  Write("counters/link_downed", std::to_string(++cuts_));
}

void PortTree::Up() {
  Write("phys_state", "5: LinkUp");
  Write("state", "4: ACTIVE");
}

// Replaces a file: a reader meets the one text or the other, as in /sys.
void PortTree::Write(const std::string& name, const std::string& text) const {
  const std::string path = folder_ + "/" + name;
  std::ofstream(path + ".new") << text << '\n';
  TIDE_CHECK(std::rename((path + ".new").c_str(), path.c_str()) == 0, "the tree can be written");
}

void WaitUntilWatched(const OneAgent& agent, const std::vector<PortTree>& ports) {
  const int64_t give_up = MonotonicNanos() + Duration::Seconds(30).nanos();
  const auto knows = [&](const PortTree& port) {
    const auto spool = ReadFile(agent.StateFolder() + "/faults.json");
    return spool && spool->find(port.device()) != std::string::npos;
  };
  while (!std::ranges::all_of(ports, knows)) {
    TIDE_CHECK(MonotonicNanos() < give_up, "the agent sees the ports");
    ::poll(nullptr, 0, 50);
  }
}

}  // namespace tide::bench
