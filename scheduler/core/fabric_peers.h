#pragma once
// Idle nodes that help to prove another one's network sound: what lies between nodes shows only
// where several of them sum a vector together. A peer's part is held like an idle test
// (idle_tests.h): its state stays as it is, it takes work as ever, and a job that is placed there
// breaks the test off.

#include <set>
#include <string_view>
#include <vector>

#include "scheduler/core/model/state.h"

namespace tide {

inline constexpr std::string_view kFabricValidator = "fabric";
inline constexpr size_t kPeersMax = 3;

// Reports whether `peer` may take part in a test of `node` now: it stands idle, and is sound.
[[nodiscard]] bool MayBePeer(const ClusterState& state, const Node& node, const Node& peer);

// Returns peers for the next validation of `node`, ascending; none where its faults ask for none or
// nobody stands idle. The nearest first, and others with each try: one of them may spoil the sum.
//   taken: by other nodes at the same time.
//   Cost: O(nodes), where its faults ask for some.
[[nodiscard]] std::vector<NodeId> ChoosePeers(const ClusterState& state,
                                              const Node& node,
                                              const std::set<NodeId>& taken);

// Reports whether nothing but a test of the fabric is missing to prove the node's faults gone.
[[nodiscard]] bool LacksFabricAlone(const ClusterState& state,
                                    const Node& node,
                                    std::vector<Verdict> verdicts);

}  // namespace tide
