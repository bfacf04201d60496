#include "scheduler/core/fabric_peers.h"

#include <algorithm>
#include <tuple>

#include "scheduler/core/idle_tests.h"
#include "scheduler/core/proof.h"

namespace tide {

bool MayBePeer(const ClusterState& state, const Node& node, const Node& peer) {
  // One whose last test was not heard of may still be at it.
  return peer.id != node.id && peer.state == NodeState::kReady && MayTestIdle(state, peer) &&
         peer.idle_test.id.empty() && ProofWanted(state, peer.id).empty();
}

std::vector<NodeId> ChoosePeers(const ClusterState& state,
                                const Node& node,
                                const std::set<NodeId>& taken) {
  const std::vector<std::string> wanted = ProofWanted(state, node.id);
  if (std::ranges::find(wanted, kFabricValidator) == wanted.end()) {
    return {};
  }
  const size_t nodes = state.nodes.size();
  const size_t first = node.id.value() + 1 + node.validation_tries * kPeersMax;
  std::vector<std::tuple<bool, bool, size_t, NodeId>> found;
  for (const Node& peer : state.nodes) {
    if (MayBePeer(state, node, peer) && !taken.contains(peer.id)) {
      const bool far = peer.identity.zone != node.identity.zone;
      found.emplace_back(far,
                         far || peer.identity.leaf != node.identity.leaf,
                         (peer.id.value() + 2 * nodes - first % nodes) % nodes,
                         peer.id);
    }
  }
  const size_t count = std::min(found.size(), kPeersMax);
  std::ranges::partial_sort(found, found.begin() + static_cast<std::ptrdiff_t>(count));
  std::vector<NodeId> peers;
  for (size_t i = 0; i < count; ++i) {
    peers.push_back(std::get<NodeId>(found[i]));
  }
  std::ranges::sort(peers);
  return peers;
}

bool LacksFabricAlone(const ClusterState& state, const Node& node, std::vector<Verdict> verdicts) {
  if (MissingProof(state, node, verdicts).empty()) {
    return false;
  }
  std::erase_if(verdicts, [](const Verdict& each) { return each.validator == kFabricValidator; });
  Verdict passed;
  passed.validator = kFabricValidator;
  passed.verdict = "pass";
  verdicts.push_back(std::move(passed));
  return MissingProof(state, node, verdicts).empty();
}

}  // namespace tide
