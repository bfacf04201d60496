#include "scheduler/core/policy/replacement.h"

#include <algorithm>
#include <bit>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "common/spec/zone_rule.h"

namespace tide {
namespace {

// A task that did not end by itself and was not told to end: its node took it down. A node on which
// nothing was found wrong may be in service again.
bool WasTakenDown(const Task& task) {
  return task.exit.reason == ExitReason::kLost || task.exit.reason == ExitReason::kCutOff ||
         task.exit.reason == ExitReason::kNodeFault || task.exit.reason == ExitReason::kNoAccount;
}

// One attempt to keep a gang where it was.
class Replacer {
 public:
  Replacer(const FreeNodes& free, const PlacementRequest& request)
      : fabric_(free.fabric()), request_(request), left_(free), nodes_(request.former.size()) {}

  // Nothing: it cannot be done. Unless `across`, all of it lies in one zone.
  std::vector<NodeId> Run(bool across) {
    std::vector<size_t> missing = Keep();
    if (request_.former.size() != request_.nodes || 2 * missing.size() > request_.nodes) {
      return {};
    }
    missing = FillLeaves(missing);
    missing = FillZones(missing);
    if (across) {
      missing = FillFromOthers(missing);
    }
    if (!missing.empty() || (!across && fabric_.Crosses(nodes_))) {
      return {};
    }
    return std::move(nodes_);
  }

 private:
  [[nodiscard]] bool Suits(uint32_t zone) const {
    const FabricZone& in = fabric_.zones[zone];
    const bool named = IsNamedZone(request_.zone);
    return fabric_.groups[in.group].name == request_.group && (!named || in.name == request_.zone);
  }

  void Take(size_t task, NodeId node) {
    nodes_[task] = node;
    left_.Remove(node);
    used_.push_back(fabric_.slots[node.value()].leaf);
  }

  // The lowest node that is left in the leaf goes to the task.
  void TakeFrom(uint32_t leaf, size_t task) {
    const auto slot = static_cast<size_t>(std::countr_zero(left_.InLeaf(leaf)));
    Take(task, fabric_.leaves[leaf].nodes[slot]);
  }

  // The tasks whose nodes are gone.
  std::vector<size_t> Keep() {
    std::vector<size_t> missing;
    for (size_t task = 0; task < nodes_.size(); ++task) {
      const NodeId node = request_.former[task];
      if (left_.Contains(node) && Suits(fabric_.ZoneIndexOf(node))) {
        Take(task, node);
      } else {
        missing.push_back(task);
      }
    }
    return missing;
  }

  std::vector<size_t> FillLeaves(const std::vector<size_t>& tasks) {
    std::vector<size_t> missing;
    for (const size_t task : tasks) {
      const uint32_t leaf = fabric_.slots[request_.former[task].value()].leaf;
      if (left_.CountInLeaf(leaf) > 0 && Suits(fabric_.leaves[leaf].zone)) {
        TakeFrom(leaf, task);
      } else {
        missing.push_back(task);
      }
    }
    return missing;
  }

  // Each zone gives what was lost in it.
  std::vector<size_t> FillZones(std::vector<size_t> tasks) {
    std::vector<size_t> missing;
    while (!tasks.empty()) {
      const uint32_t zone = fabric_.ZoneIndexOf(request_.former[tasks.front()]);
      const auto others = std::ranges::stable_partition(
          tasks, [&](size_t task) { return fabric_.ZoneIndexOf(request_.former[task]) == zone; });
      std::vector<size_t> lost(tasks.begin(), others.begin());
      tasks.erase(tasks.begin(), others.begin());
      lost = FillZone(zone, std::move(lost));
      missing.insert(missing.end(), lost.begin(), lost.end());
    }
    std::ranges::sort(missing);
    return missing;
  }

  std::vector<size_t> FillZone(uint32_t zone, std::vector<size_t> tasks) {
    while (!tasks.empty() && left_.CountInZone(zone) > 0 && Suits(zone)) {
      const uint32_t leaf = NextLeaf(zone, static_cast<uint32_t>(tasks.size()));
      while (!tasks.empty() && left_.CountInLeaf(leaf) > 0) {
        TakeFrom(leaf, tasks.front());
        tasks.erase(tasks.begin());
      }
    }
    return tasks;
  }

  // A leaf of the gang's, the emptiest first, so that whole leaves stay whole; else the emptiest
  // that has enough, else the fullest. Ties: the lower one. The zone has free nodes.
  [[nodiscard]] uint32_t NextLeaf(uint32_t zone, uint32_t wanted) const {
    using Price = std::tuple<bool, bool, int64_t, uint32_t>;
    const FabricZone& in = fabric_.zones[zone];
    Price best{true, true, INT64_MAX, 0};
    for (uint32_t leaf = in.first_leaf; leaf < in.first_leaf + in.leaf_count; ++leaf) {
      const int64_t count = left_.CountInLeaf(leaf);
      if (count == 0) {
        continue;
      }
      const bool used = std::ranges::find(used_, leaf) != used_.end();
      const bool enough = count >= wanted;
      best = std::min(best, {!used, !used && !enough, used || enough ? count : -count, leaf});
    }
    return std::get<uint32_t>(best);
  }

  // The rest: from one zone that has enough, of the gang's if there is one; else zone by zone.
  std::vector<size_t> FillFromOthers(std::vector<size_t> tasks) {
    while (!tasks.empty()) {
      const std::optional<uint32_t> zone = NextZone(tasks.size());
      if (!zone) {
        break;
      }
      tasks = FillZone(*zone, std::move(tasks));
    }
    return tasks;
  }

  // Returns that with the fewest free nodes of those that have enough, else that with most.
  [[nodiscard]] std::optional<uint32_t> NextZone(size_t wanted) const {
    using Price = std::tuple<bool, bool, bool, int64_t, uint32_t>;
    std::set<uint32_t> of_gang;
    for (const uint32_t leaf : used_) {
      of_gang.insert(fabric_.leaves[leaf].zone);
    }
    std::optional<Price> best;
    for (uint32_t zone = 0; zone < fabric_.zones.size(); ++zone) {
      const int64_t count = left_.CountInZone(zone);
      if (!Suits(zone) || count == 0) {
        continue;
      }
      const bool enough = static_cast<size_t>(count) >= wanted;
      const bool used = of_gang.contains(zone);
      const Price price{!(used && enough), !enough, !used, enough ? count : -count, zone};
      best = best ? std::min(*best, price) : price;
    }
    return best ? std::optional(std::get<uint32_t>(*best)) : std::nullopt;
  }

  const Fabric& fabric_;
  const PlacementRequest& request_;
  FreeNodes left_;
  std::vector<NodeId> nodes_;   // by task
  std::vector<uint32_t> used_;  // leaves
};

// Reports whether its zone rule and the limits of the boundaries allow these nodes, in rank order.
bool MayLieOn(const Fabric& fabric,
              const PlacementRequest& request,
              const std::vector<NodeId>& nodes) {
  std::set<uint32_t> zones;
  for (const NodeId node : nodes) {
    zones.insert(fabric.ZoneIndexOf(node));
  }
  return zones.size() <= ZonesMax(request.zone) &&
         (request.boundaries == nullptr || request.boundaries->Allows(nodes));
}

}  // namespace

bool KeepsNodes(const Job& job) {
  const auto* stopping = std::get_if<Stopping>(&job.phase);
  if (stopping == nullptr || job.spec->nodes == 1 || stopping->beneficiary != JobId()) {
    return false;
  }
  const bool may_go_on = job.hardware_restarts < job.spec->retry_hardware_max;
  if (stopping->cause == StopCause::kFailed) {
    return may_go_on && std::ranges::any_of(job.attempts.back().tasks, [](const Task& task) {
             return task.exit.reason == ExitReason::kFailed;
           });
  }
  return may_go_on && stopping->cause == StopCause::kFault;
}

KeptNodes::KeptNodes(const ClusterState& state) {
  for (const JobId id : state.restless) {
    const Job& job = state.jobs.at(id);
    if (!KeepsNodes(job)) {
      continue;
    }
    keepers_.resize(state.nodes.size());
    for (const NodeId node : AllocationOf(job)->nodes) {
      if (state.uses[node.value()].claimants.empty()) {
        keepers_[node.value()] = id;
        nodes_[id].push_back(node);
      }
    }
  }
}

bool GoesOnAfterFault(const Job& job) {
  const auto* queued = std::get_if<Queued>(&job.phase);
  return queued != nullptr && queued->next_start == StartReason::kFault;
}

AfterFault::AfterFault(const std::vector<OwnerJobs>& owners) {
  for (const OwnerJobs& owner : owners) {
    if (!owner.after_fault) {
      continue;
    }
    OwnerJobs::Singles* jobs = nullptr;
    for (const WaitingJob& job : *owner.singles) {
      if (job.after_fault) {
        if (jobs == nullptr) {
          jobs = &jobs_.emplace_back();
          owners_.push_back(
              {.owner = owner.owner, .singles = jobs, .use = owner.use, .after_fault = true});
        }
        jobs->push_back(job);
      }
    }
  }
}

void AskForFormer(const ClusterState& state, const Job& job, PlacementRequest& request) {
  if (job.attempts.empty()) {
    return;
  }
  const std::vector<Task>& tasks = job.attempts.back().tasks;
  for (const Task& task : tasks) {
    if (state.nodes[task.node.value()].state != NodeState::kRemoved) {
      request.former.push_back(task.node);
    }
  }
  if (request.former.size() < tasks.size() || !GoesOnAfterFault(job) || job.spec->nodes == 1) {
    return;
  }
  request.after_fault = true;
  for (const Task& task : tasks) {
    if (WasTakenDown(task)) {
      request.suspects.push_back(task.node);
    }
  }
}

PlacementResult PlaceAfterFault(const FreeNodes& free, const PlacementRequest& request) {
  if (!request.after_fault) {
    return Place(free, request);
  }
  FreeNodes sound = free;
  for (const NodeId node : request.suspects) {
    sound.Remove(node);
  }
  PlacementResult result;
  result.nodes = Replacer(sound, request).Run(false);
  if (result.nodes.empty() && !request.suspects.empty()) {
    result.nodes = Replacer(free, request).Run(false);
  }
  if (!result.nodes.empty()) {
    return result;
  }
  result = Place(free, request);
  if (!result.nodes.empty() && free.fabric().Crosses(result.nodes)) {
    std::vector<NodeId> across = Replacer(sound, request).Run(true);
    if (!across.empty() && MayLieOn(free.fabric(), request, across)) {
      result.nodes = std::move(across);
    }
  }
  return result;
}

std::optional<std::string> ZoneOfReplacement(const Fabric& fabric,
                                             const PlacementRequest& request) {
  if (!request.after_fault || fabric.Crosses(request.former)) {
    return std::nullopt;
  }
  return fabric.ZoneOf(request.former.front()).name;
}

}  // namespace tide
