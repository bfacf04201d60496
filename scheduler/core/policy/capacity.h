#pragma once
// What is free while one pass decides: nodes that are wholly idle, and room on nodes that carry
// parts. Starts with the state and follows the pass's own proposals, so that they never contradict
// each other.

#include <bit>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "scheduler/core/model/state.h"
#include "scheduler/core/policy/placement.h"

namespace tide {

// Room for parts on a node. Below zero where claims wait for more than is free.
struct NodeRoom {
  int64_t gpus = 0;
  int64_t cpus = 0;
  int64_t memory_bytes = 0;
  uint64_t devices = 0;

  void Take(const Part& part);
  void GiveBack(const Part& claimed);  // which had no devices yet
  [[nodiscard]] Part Left() const;
};

class Capacity {
 public:
  // Cost: O(nodes), a byte each, and what carries parts.
  Capacity(const ClusterState& state, const Fabric& fabric);

  // Take work, run nothing, claimed by nobody, not taken in this pass.
  [[nodiscard]] const FreeNodes& idle() const { return idle_; }
  // Whole, in this pass.
  [[nodiscard]] bool IsTaken(NodeId node) const { return taken_[node.value()]; }
  // A part of it, in this pass.
  [[nodiscard]] bool IsParted(NodeId node) const { return parted_[node.value()]; }

  // Whole nodes for `job`, from `free`. Nodes too small for it are passed over; those that it
  // should avoid are taken only where no others do.
  [[nodiscard]] PlacementResult PlaceWhole(const Job& job,
                                           const PlacementRequest& request,
                                           const FreeNodes& free) const;

  struct PartPlacement {
    NodeId node;
    std::optional<Part> part;  // nothing: the node is no larger than what the job wants
  };
  // The fullest node with room for a one-node job, else an idle one where it hurts least.
  [[nodiscard]] std::optional<PartPlacement> PlacePart(const Job& job,
                                                       const PlacementRequest& request) const;

  // The job on this very node, if there is room now (its own claim counts as room).
  [[nodiscard]] std::optional<PartPlacement> OnNode(const Job& job, NodeId node) const;

  // Of its group, and where its zone rule lets it be.
  [[nodiscard]] bool Suits(const PlacementRequest& request, NodeId node) const;

  // Room for parts beside tasks, claims of others and what this pass took; nothing = none.
  [[nodiscard]] std::optional<Part> Room(NodeId node, JobId job) const;

  // Calls `visit(node, room)` for each node that has room for parts, idle ones too, claims taken
  // off.
  template <typename Visit>
  void VisitRooms(const Visit& visit) const {
    for (uint32_t leaf = 0; leaf < fabric_.leaves.size(); ++leaf) {
      for (uint64_t rest = idle_.InLeaf(leaf); rest != 0; rest &= rest - 1) {
        const NodeId node = fabric_.leaves[leaf].nodes[static_cast<size_t>(std::countr_zero(rest))];
        visit(node, FullRoom(node).Left());
      }
    }
    for (const auto& [node, room] : rooms_) {
      visit(node, room.Left());
    }
  }

  void TakeWhole(const std::vector<NodeId>& nodes);
  // If they are idle, they are not so for everybody.
  void Withhold(const std::vector<NodeId>& nodes) {
    for (const NodeId node : nodes) {
      idle_.Remove(node);
    }
  }
  void GiveBack(NodeId node) { idle_.Add(node); }
  void TakePart(NodeId node, const Part& part);
  // Leaves nodes out of all that is free, until Show. Again: also what came free of them since.
  void Hide(std::span<const NodeId> nodes);
  void Show();
  // A claim was given up: what it kept is free again.
  void Unclaim(const Claim& claim);

 private:
  [[nodiscard]] PlacementResult PlaceAnywhere(const Job& job,
                                              const PlacementRequest& request,
                                              const FreeNodes& free) const;
  [[nodiscard]] std::optional<PartPlacement> FindPart(const Job& job,
                                                      const PlacementRequest& request,
                                                      const std::vector<NodeId>& avoid) const;
  [[nodiscard]] NodeRoom FullRoom(NodeId node) const;
  // Beside tasks and all claims; nothing when it is taken or claimed whole.
  [[nodiscard]] std::optional<NodeRoom> RoomBesideClaims(NodeId node) const;
  [[nodiscard]] std::optional<NodeRoom> FindRoom(NodeId node) const;
  void SetRoom(NodeId node, const NodeRoom& room);
  void EraseRoom(NodeId node);

  const ClusterState& state_;
  const Fabric& fabric_;
  FreeNodes idle_;
  std::vector<bool> parted_;
  std::vector<bool> taken_;                      // whole, by this pass; by node
  std::map<NodeId, NodeRoom> rooms_;             // of nodes that carry parts, or claims of parts
  std::vector<std::set<NodeId>> rooms_by_gpus_;  // the same nodes by free GPUs
  std::vector<NodeId> hidden_idle_;
  std::map<NodeId, NodeRoom> hidden_rooms_;
};

}  // namespace tide
