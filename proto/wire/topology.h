#pragma once
// Where the ranks of a job lie, for the job itself: TIDE_TOPOLOGY (docs/rank-protocol.md section
// 4).

#include <cstddef>
#include <string>

#include "common/fabric/comm_plan.h"
#include "scheduler/core/model/state.h"

namespace tide::wire {

// Linux takes 128 KiB for one variable; what is longer starts no process.
inline constexpr size_t kTopologyBytesMax = 96U << 10U;

// [task]: a number for the zone of its node, the same for the same zone.
[[nodiscard]] std::vector<uint32_t> ZonesOf(const ClusterState& state, const Attempt& attempt);

// The last attempt's topology as JSON of at most kTopologyBytesMax bytes: of what is too long, node
// names are left out first, then the trees, then leaves, then zones; each is null then.
//   Cost: O(tasks log zones).
[[nodiscard]] std::string TopologyJson(const ClusterState& state, const Job& job);

// Remembers the last topology: the starts of a gang follow one another, and each carries the same.
// Belongs to one thread.
class TopologyCache {
 public:
  // Valid until the next call.
  [[nodiscard]] const std::string& Of(const ClusterState& state, const Job& job);

 private:
  JobId job_;
  Epoch epoch_;
  std::string json_;
};

}  // namespace tide::wire
