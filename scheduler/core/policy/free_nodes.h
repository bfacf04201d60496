#pragma once
// A set of nodes as the fabric sees it: a bit mask and a count for each leaf, a count for each
// zone. Adding, removing and asking are O(1); a copy is a few kilobytes at 10,000 nodes.

#include <bit>
#include <cstdint>
#include <vector>

#include "scheduler/core/model/fabric.h"

namespace tide {

class FreeNodes {
 public:
  // An empty set. `fabric` must outlive it.
  explicit FreeNodes(const Fabric& fabric)
      : fabric_(&fabric), masks_(fabric.leaves.size()), zone_counts_(fabric.zones.size()) {}

  [[nodiscard]] const Fabric& fabric() const { return *fabric_; }

  [[nodiscard]] bool Contains(NodeId node) const {
    const FabricSlot slot = fabric_->slots[node.value()];
    return slot.leaf != kNoLeaf && (masks_[slot.leaf] >> slot.slot & 1U) != 0;
  }
  void Add(NodeId node) {
    const FabricSlot slot = fabric_->slots[node.value()];
    if (slot.leaf != kNoLeaf && !Contains(node)) {
      masks_[slot.leaf] |= uint64_t{1} << slot.slot;
      ++zone_counts_[fabric_->leaves[slot.leaf].zone];
    }
  }
  void Remove(NodeId node) {
    if (Contains(node)) {
      const FabricSlot slot = fabric_->slots[node.value()];
      masks_[slot.leaf] &= ~(uint64_t{1} << slot.slot);
      --zone_counts_[fabric_->leaves[slot.leaf].zone];
    }
  }

  [[nodiscard]] uint64_t InLeaf(uint32_t leaf) const { return masks_[leaf]; }
  [[nodiscard]] uint32_t CountInLeaf(uint32_t leaf) const {
    return static_cast<uint32_t>(std::popcount(masks_[leaf]));
  }
  [[nodiscard]] uint32_t CountInZone(uint32_t zone) const { return zone_counts_[zone]; }

 private:
  const Fabric* fabric_;
  std::vector<uint64_t> masks_;        // by leaf
  std::vector<uint32_t> zone_counts_;  // by zone
};

}  // namespace tide
