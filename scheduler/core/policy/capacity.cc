#include "scheduler/core/policy/capacity.h"

#include <algorithm>
#include <utility>

#include "scheduler/core/model/index.h"
#include "scheduler/core/policy/replacement.h"
#include "scheduler/core/policy/size.h"

namespace tide {
namespace {

// The lowest free GPUs.
uint64_t ChooseDevices(uint64_t free, uint32_t count) {
  uint64_t chosen = 0;
  for (; count > 0; --count, free &= free - 1) {
    chosen |= free & (~free + 1);
  }
  return chosen;
}

}  // namespace

void NodeRoom::Take(const Part& part) {
  gpus -= part.gpus;
  cpus -= part.cpus;
  memory_bytes -= static_cast<int64_t>(part.memory_bytes);
  devices &= ~part.devices;
}

void NodeRoom::GiveBack(const Part& claimed) {
  gpus += claimed.gpus;
  cpus += claimed.cpus;
  memory_bytes += static_cast<int64_t>(claimed.memory_bytes);
}

Part NodeRoom::Left() const {
  return {static_cast<uint32_t>(std::max<int64_t>(0, gpus)),
          static_cast<uint32_t>(std::max<int64_t>(0, cpus)),
          static_cast<uint64_t>(std::max<int64_t>(0, memory_bytes)),
          devices};
}

Capacity::Capacity(const ClusterState& state, const Fabric& fabric)
    : state_(state),
      fabric_(fabric),
      idle_(fabric),
      parted_(state.nodes.size()),
      taken_(state.nodes.size()),
      rooms_by_gpus_(kGpusPerNodeMax + 1) {
  for (uint32_t i = 0; i < state.nodes.size(); ++i) {
    const unsigned flags = state.node_flags[i];
    if ((flags & kTakesWork) == 0) {
      continue;
    }
    if ((flags & kUnused) != 0) {
      idle_.Add(NodeId(i));
    } else if ((flags & kHasRoom) != 0) {
      if (const auto room = RoomBesideClaims(NodeId(i))) {
        SetRoom(NodeId(i), *room);
      }
    }
  }
}

NodeRoom Capacity::FullRoom(NodeId node) const {
  const Part full = FullPart(state_.nodes[node.value()].identity.capacity);
  return {full.gpus, full.cpus, static_cast<int64_t>(full.memory_bytes), full.devices};
}

std::optional<NodeRoom> Capacity::RoomBesideClaims(NodeId node) const {
  const NodeUse& use = state_.uses[node.value()];
  if (use.whole) {
    return std::nullopt;
  }
  NodeRoom room = FullRoom(node);
  room.Take(use.taken);
  for (const JobId claimant : use.claimants) {
    const Claim& claim = ClaimOf(state_, claimant);
    if (!claim.part) {
      return std::nullopt;
    }
    room.Take(*claim.part);
  }
  return room;
}

std::optional<NodeRoom> Capacity::FindRoom(NodeId node) const {
  const auto it = rooms_.find(node);
  return it == rooms_.end() ? std::nullopt : std::optional(it->second);
}

void Capacity::SetRoom(NodeId node, const NodeRoom& room) {
  const auto [entry, fresh] = rooms_.try_emplace(node, room);
  if (!fresh) {
    rooms_by_gpus_[entry->second.Left().gpus].erase(node);
    entry->second = room;
  }
  rooms_by_gpus_[room.Left().gpus].insert(node);
}

void Capacity::EraseRoom(NodeId node) {
  if (const auto room = rooms_.find(node); room != rooms_.end()) {
    rooms_by_gpus_[room->second.Left().gpus].erase(node);
    rooms_.erase(room);
  }
}

bool Capacity::Suits(const PlacementRequest& request, NodeId node) const {
  const FabricZone& zone = fabric_.ZoneOf(node);
  const bool named = IsNamedZone(request.zone);
  return fabric_.groups[zone.group].name == request.group && (!named || zone.name == request.zone);
}

PlacementResult Capacity::PlaceWhole(const Job& job,
                                     const PlacementRequest& request,
                                     const FreeNodes& free) const {
  if (!job.avoid.empty()) {
    FreeNodes others = free;
    for (const NodeId node : job.avoid) {
      others.Remove(node);
    }
    PlacementResult placed = PlaceAnywhere(job, request, others);
    if (!placed.nodes.empty()) {
      return placed;
    }
  }
  return PlaceAnywhere(job, request, free);
}

PlacementResult Capacity::PlaceAnywhere(const Job& job,
                                        const PlacementRequest& request,
                                        const FreeNodes& free) const {
  const int group = fabric_.FindGroup(request.group);
  if (group < 0 || AllCanHold(fabric_.groups[static_cast<size_t>(group)], job.spec)) {
    return PlaceAfterFault(free, request);
  }
  FreeNodes large_enough = free;
  for (const Node& node : state_.nodes) {
    if (!CanHold(node.identity.capacity, job.spec)) {
      large_enough.Remove(node.id);
    }
  }
  return PlaceAfterFault(large_enough, request);
}

std::optional<Part> Capacity::Room(NodeId node, JobId job) const {
  if (taken_[node.value()]) {
    return std::nullopt;
  }
  if (idle_.Contains(node)) {
    return FullRoom(node).Left();
  }
  std::optional<NodeRoom> room = FindRoom(node);
  const NodeUse& use = state_.uses[node.value()];
  if (std::ranges::find(use.claimants, job) != use.claimants.end()) {
    // What it claims itself is kept for it.
    const Claim& claim = ClaimOf(state_, job);
    if (!claim.part) {
      return use.idle() ? std::optional(FullRoom(node).Left()) : std::nullopt;
    }
    if (room) {
      room->GiveBack(*claim.part);
    }
  }
  return room ? std::optional(room->Left()) : std::nullopt;
}

std::optional<Capacity::PartPlacement> Capacity::PlacePart(const Job& job,
                                                           const PlacementRequest& request) const {
  if (const auto placed = FindPart(job, request, job.avoid)) {
    return placed;
  }
  const PlacementResult whole = PlaceWhole(job, request, idle_);
  if (!whole.nodes.empty()) {
    return OnNode(job, whole.nodes.front());
  }
  return job.avoid.empty() ? std::nullopt : FindPart(job, request, {});
}

std::optional<Capacity::PartPlacement> Capacity::FindPart(const Job& job,
                                                          const PlacementRequest& request,
                                                          const std::vector<NodeId>& avoid) const {
  const std::vector<NodeId>& warm = WarmNodes(request);
  const auto preference_for = [&](NodeId node) {
    const bool is_former = std::ranges::find(request.former, node) != request.former.end();
    return is_former ? 2 : std::ranges::binary_search(warm, node) ? 1 : 0;
  };
  // The fewest free GPUs first: nodes that are whole stay whole.
  for (uint32_t gpus = job.spec->gpus_per_node; gpus <= kGpusPerNodeMax; ++gpus) {
    std::optional<PartPlacement> found;
    int preference = -1;  // of `found`
    for (const NodeId node : rooms_by_gpus_[gpus]) {
      const int own = preference_for(node);
      if (own <= preference || !Suits(request, node) ||
          std::ranges::find(avoid, node) != avoid.end()) {
        continue;
      }
      const NodeCapacity& all = state_.nodes[node.value()].identity.capacity;
      auto part = PartOf(job.spec, all);
      const Part room = rooms_.at(node).Left();
      if (part && Covers(room, *part) && IsOfItsKind(all, job.spec)) {
        part->devices = ChooseDevices(room.devices, part->gpus);
        found = {node, part};
        preference = own;
      }
    }
    if (found) {
      return found;
    }
  }
  return std::nullopt;
}

std::optional<Capacity::PartPlacement> Capacity::OnNode(const Job& job, NodeId node) const {
  const NodeCapacity& all = state_.nodes[node.value()].identity.capacity;
  auto part = PartOf(job.spec, all);
  const auto room = Room(node, job.id);
  if (!room || !IsOfItsKind(all, job.spec) || (part && !Covers(*room, *part)) ||
      (!part && !state_.uses[node.value()].idle())) {
    return std::nullopt;
  }
  if (part) {
    part->devices = ChooseDevices(room->devices, part->gpus);
  }
  return PartPlacement{node, part};
}

void Capacity::TakeWhole(const std::vector<NodeId>& nodes) {
  for (const NodeId node : nodes) {
    idle_.Remove(node);
    taken_[node.value()] = true;
    EraseRoom(node);
  }
}

void Capacity::Hide(std::span<const NodeId> nodes) {
  for (const NodeId node : nodes) {
    if (idle_.Contains(node)) {
      idle_.Remove(node);
      hidden_idle_.push_back(node);
    } else if (const auto room = FindRoom(node)) {
      hidden_rooms_.emplace(node, *room);
      EraseRoom(node);
    }
  }
}

void Capacity::Show() {
  for (const NodeId node : hidden_idle_) {
    idle_.Add(node);
  }
  hidden_idle_.clear();
  for (const auto& [node, room] : std::exchange(hidden_rooms_, {})) {
    if (!idle_.Contains(node)) {  // else the claim of a part was given up meanwhile
      SetRoom(node, room);
    }
  }
}

void Capacity::TakePart(NodeId node, const Part& part) {
  std::optional<NodeRoom> room = idle_.Contains(node) ? FullRoom(node) : FindRoom(node);
  idle_.Remove(node);
  parted_[node.value()] = true;
  if (room) {
    room->Take(part);
    SetRoom(node, *room);
  }
}

void Capacity::Unclaim(const Claim& claim) {
  for (const NodeId node : claim.nodes) {
    const NodeUse& use = state_.uses[node.value()];
    if (!TakesWork(state_.nodes[node.value()]) || taken_[node.value()]) {
      continue;
    }
    if (const auto room = rooms_.find(node); room != rooms_.end() && claim.part) {
      NodeRoom more = room->second;
      more.GiveBack(*claim.part);
      SetRoom(node, more);
    } else if (use.idle() && use.claimants.size() == 1) {
      idle_.Add(node);
    }
  }
}

}  // namespace tide
