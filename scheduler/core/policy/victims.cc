#include "scheduler/core/policy/victims.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace tide {
namespace {

const std::vector<NodeId>& NodesOf(const ClusterState& state, const Runner& runner) {
  return AllocationOf(state.jobs.at(runner.job->id))->nodes;
}

// The dearest victim: its class, and how it stands to its quota in it.
using Rank = std::pair<int32_t, Standing>;

Rank RankOf(const Runner& runner) {
  return {runner.priority, std::min(runner.standing, Standing::kNoRow)};
}

// GPU-time lost. As if it had a node more: many small victims disturb more people than a large one.
int64_t LossOf(const Runner& runner) {
  constexpr int64_t kGpusOfNode = 8;
  return runner.loss + runner.loss_per_gpu * kGpusOfNode;
}

// Lower is better: the dearest victim, GPU-time lost, number of victims.
using Price = std::tuple<Rank, int64_t, size_t>;

// Runners that free nodes only together: one gang, or all parts on one node.
struct Unit {
  std::vector<NodeId> nodes;
  std::vector<const Runner*> victims;  // none: it leaves anyway
};

Price PriceOfUnit(const Unit& unit) {
  Price price{{INT32_MIN, Standing::kOverLimit}, 0, unit.victims.size()};
  for (const Runner* victim : unit.victims) {
    std::get<Rank>(price) = std::max(std::get<Rank>(price), RankOf(*victim));
    std::get<int64_t>(price) += LossOf(*victim);
  }
  return price;
}

class GangPlanner {
 public:
  GangPlanner(const ClusterState& state,
              const Capacity& capacity,
              const Asker& asker,
              const FreeNodes& pool,
              const Runners& runners,
              const TakeRules& rules)
      : state_(state),
        capacity_(capacity),
        job_(asker.job),
        request_(asker.request),
        free_(pool),
        pool_(pool),
        runners_(runners),
        rules_(rules) {
    const Fabric& fabric = pool.fabric();
    const int group = fabric.FindGroup(request_.group);
    if (group < 0 || !AllCanHold(fabric.groups[static_cast<size_t>(group)], job_.spec)) {
      for (const Node& node : state.nodes) {
        if (!IsLargeEnough(node)) {
          free_.Remove(node.id);
        }
      }
    }
  }

  // Two ways to choose: what is cheapest for a GPU, which suits large gangs, and what is cheapest
  // at all, so that no gang leaves for a job of one node. The cheaper of the two.
  VictimPlan Run() {
    CollectUnits();
    if (!Choose()) {
      return {};
    }
    Choice first{std::move(free_), std::move(units_)};
    if (first.units.empty()) {
      return PlanOf(first);
    }
    free_ = pool_;
    units_ = std::move(asked_);
    std::ranges::stable_sort(units_, {}, [](const Unit& unit) { return PriceOfUnit(unit); });
    (void)Choose();  // the same units suffice
    const Choice second{std::move(free_), std::move(units_)};
    return PlanOf(PriceOf(second.units) < PriceOf(first.units) ? second : first);
  }

 private:
  struct Choice {
    FreeNodes free;
    std::vector<Unit> units;  // that leave for it
  };

  [[nodiscard]] static Price PriceOf(const std::vector<Unit>& units) {
    Price price{{INT32_MIN, Standing::kOverLimit}, 0, 0};
    for (const Unit& unit : units) {
      const auto& [rank, loss, victims] = PriceOfUnit(unit);
      std::get<Rank>(price) = std::max(std::get<Rank>(price), rank);
      std::get<int64_t>(price) += loss;
      std::get<size_t>(price) += victims;
    }
    return price;
  }

  // Takes units in their order until the gang fits, and spares those that turn out superfluous.
  bool Choose() {
    size_t taken = 0;
    while (!CanPlace()) {
      if (taken == units_.size()) {
        return false;
      }
      AddNodes(units_[taken++]);
    }
    units_.resize(taken);
    Spare();
    return true;
  }

  [[nodiscard]] VictimPlan PlanOf(const Choice& choice) const {
    VictimPlan plan;
    plan.nodes = capacity_.PlaceWhole(job_, request_, choice.free).nodes;
    std::set<JobId> victims;
    for (const Unit& unit : choice.units) {
      const bool used = std::ranges::any_of(unit.nodes, [&](NodeId node) {
        return std::ranges::find(plan.nodes, node) != plan.nodes.end();
      });
      for (const Runner* victim : unit.victims) {
        if (used) {
          victims.insert(victim->job->id);
        }
      }
    }
    plan.victims.assign(victims.begin(), victims.end());
    return plan;
  }

  // What leaves anyway costs nothing and comes first.
  void CollectUnits() {
    std::vector<Unit> asked;
    std::set<NodeId> seen;  // nodes with parts: one unit for all of them
    for (const Runner& runner : runners_.all()) {
      const bool leaves = rules_.leaves(runner);
      if (!leaves && (runner.job->leaving || !rules_.takeable(runner))) {
        continue;
      }
      Unit unit;
      if (runner.job->on_part) {
        const NodeId node = NodesOf(state_, runner).front();
        if (!seen.insert(node).second || !AllParts(node, unit)) {
          continue;
        }
      } else {
        unit = WholeUnit(runner, leaves);
      }
      if (unit.nodes.empty()) {
        continue;
      }
      if (unit.victims.empty()) {
        AddNodes(unit);
      } else {
        asked.push_back(std::move(unit));
      }
    }
    units_ = asked;
    asked_ = std::move(asked);
    pool_ = free_;
  }

  [[nodiscard]] bool IsLargeEnough(const Node& node) const {
    return CanHold(node.identity.capacity, job_.spec);
  }

  [[nodiscard]] bool Suits(NodeId id) const {
    const Node& node = state_.nodes[id.value()];
    return node.identity.group == request_.group && IsLargeEnough(node) && rules_.node(id);
  }

  // Only nodes that its tasks still hold: a task that has exited has left its node already.
  [[nodiscard]] Unit WholeUnit(const Runner& runner, bool leaves) const {
    Unit unit;
    for (const NodeId node : NodesOf(state_, runner)) {
      if (state_.uses[node.value()].first().job == runner.job->id && Suits(node)) {
        unit.nodes.push_back(node);
      }
    }
    if (!leaves) {
      unit.victims.push_back(&runner);
    }
    return unit;
  }

  // Every task on the node leaves or may be asked; else the node cannot be had.
  [[nodiscard]] bool AllParts(NodeId node, Unit& unit) const {
    if (!Suits(node)) {
      return false;
    }
    for (const Occupant& occupant : state_.uses[node.value()].tasks) {
      const Runner* runner = runners_.Find(occupant.job);
      if (runner == nullptr) {
        return false;
      }
      if (rules_.leaves(*runner)) {
        continue;
      }
      if (runner->job->leaving || !rules_.takeable(*runner)) {
        return false;
      }
      unit.victims.push_back(runner);
    }
    unit.nodes.push_back(node);
    return true;
  }

  void AddNodes(const Unit& unit) {
    for (const NodeId node : unit.nodes) {
      free_.Add(node);
    }
  }

  // All of them are large enough: what fits can be placed.
  [[nodiscard]] bool CanPlace() const { return Fits(free_, request_); }

  void Spare() {
    for (size_t i = units_.size(); i-- > 0;) {
      for (const NodeId node : units_[i].nodes) {
        free_.Remove(node);
      }
      if (CanPlace()) {
        units_.erase(units_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        AddNodes(units_[i]);
      }
    }
  }

  const ClusterState& state_;
  const Capacity& capacity_;
  const Job& job_;
  const PlacementRequest& request_;
  FreeNodes free_;  // with what the units at hand free
  FreeNodes pool_;  // with what is left anyway
  const Runners& runners_;
  const TakeRules& rules_;
  std::vector<Unit> units_;  // at hand
  std::vector<Unit> asked_;  // all that may be asked
};

void Give(Part& room, const Part& part) {
  room.gpus += part.gpus;
  room.cpus += part.cpus;
  room.memory_bytes += part.memory_bytes;
  room.devices |= part.devices;
}

// Lower is better: the dearest victim, GPU-time lost, number of victims, node.
using PartPrice = std::tuple<Rank, int64_t, size_t, NodeId>;

struct PartOffer {
  VictimPlan plan;  // no nodes: this node cannot be had
  PartPrice price;
};

PartOffer OfferOf(const ClusterState& state,
                  const Capacity& capacity,
                  const Job& job,
                  NodeId node,
                  const Runners& runners,
                  const TakeRules& rules) {
  const NodeCapacity& has = state.nodes[node.value()].identity.capacity;
  const auto wanted = PartOf(job.spec, has);
  std::vector<std::pair<bool, const Runner*>> order;  // who leaves anyway first, then the cheapest
  for (const Occupant& occupant : state.uses[node.value()].tasks) {
    const Runner* runner = runners.Find(occupant.job);
    if (runner != nullptr) {
      order.emplace_back(!rules.leaves(*runner), runner);
    }
  }
  std::sort(order.begin(), order.end());
  Part room = capacity.Room(node, job.id).value_or(Part{});
  size_t left = state.uses[node.value()].tasks.size();
  PartOffer offer{{}, {{INT32_MIN, Standing::kOverLimit}, 0, 0, node}};
  const auto suffices = [&] { return wanted ? Covers(room, *wanted) : left == 0; };
  for (const auto& [asked, runner] : order) {
    if (suffices()) {
      break;
    }
    if (asked && (runner->job->leaving || !rules.takeable(*runner))) {
      continue;
    }
    --left;
    Give(room, AllocationOf(state.jobs.at(runner->job->id))->part.value_or(FullPart(has)));
    if (asked) {
      auto& [dearest, loss, count, where] = offer.price;
      dearest = std::max(dearest, RankOf(*runner));
      loss += LossOf(*runner);
      ++count;
      offer.plan.victims.push_back(runner->job->id);
    }
  }
  if (suffices()) {
    offer.plan.nodes = {node};
    offer.plan.part = wanted;
    std::sort(offer.plan.victims.begin(), offer.plan.victims.end());
  }
  return offer;
}

}  // namespace

VictimPlan ChooseVictims(const ClusterState& state,
                         const Capacity& capacity,
                         const Asker& asker,
                         const FreeNodes& pool,
                         const Runners& runners,
                         const TakeRules& rules) {
  return GangPlanner(state, capacity, asker, pool, runners, rules).Run();
}

VictimPlan ChoosePartVictims(const ClusterState& state,
                             const Capacity& capacity,
                             const Asker& asker,
                             const Runners& runners,
                             const TakeRules& rules) {
  const auto& [job, request] = asker;
  PartOffer best;
  std::vector<bool> seen(state.nodes.size());
  for (const Runner& candidate : runners.all()) {
    if (!rules.leaves(candidate) && (candidate.job->leaving || !rules.takeable(candidate))) {
      continue;
    }
    for (const NodeId node : NodesOf(state, candidate)) {
      if (seen[node.value()] || state.uses[node.value()].idle() ||
          state.nodes[node.value()].identity.group != request.group || !rules.node(node)) {
        continue;
      }
      seen[node.value()] = true;
      PartOffer offer = OfferOf(state, capacity, job, node, runners, rules);
      if (!offer.plan.nodes.empty() && (best.plan.nodes.empty() || offer.price < best.price)) {
        best = std::move(offer);
      }
    }
  }
  return best.plan;
}

}  // namespace tide
