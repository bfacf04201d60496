#include "scheduler/core/policy/victims.h"

#include <algorithm>
#include <set>
#include <span>
#include <tuple>

namespace tide {
namespace {

std::span<const NodeId> NodesOf(const ClusterState& state, const Runner& runner) {
  return runner.job->nodes == 1 ? std::span(&runner.job->node, 1)
                                : AllocationOf(state.jobs.at(runner.job->id))->nodes;
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
constexpr Price kFree{{INT32_MIN, Standing::kOverLimit}, 0, 0};

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
        contender_(asker.contender),
        job_(*asker.contender.job),
        request_(asker.request),
        group_(pool.fabric().FindGroup(request_.group)),
        all_large_enough_(group_ >= 0 &&
                          AllCanHold(pool.fabric().groups[static_cast<size_t>(group_)], job_.spec)),
        free_(pool),
        runners_(runners),
        rules_(rules) {
    if (!all_large_enough_) {
      for (const Node& node : state.nodes) {
        if (!CanHold(node.identity.capacity, job_.spec)) {
          free_.Remove(node.id);
        }
      }
    }
  }

  // Two ways to choose: what is cheapest for a GPU, which suits large gangs, and what is cheapest
  // at all, so that no gang leaves for a job of one node. The cheaper of the two.
  VictimPlan Run() {
    CollectCandidates();
    const FreeNodes pool = free_;  // with what is left anyway
    if (!ChooseInOrder()) {
      return {};
    }
    Choice first{std::move(free_), std::move(units_)};
    if (first.units.empty()) {
      return PlanOf(first);
    }
    free_ = pool;
    units_.clear();
    ChooseCheapest();
    const Choice second{std::move(free_), std::move(units_)};
    return PlanOf(PriceOf(second.units) < PriceOf(first.units) ? second : first);
  }

 private:
  struct Choice {
    FreeNodes free;
    std::vector<Unit> units;  // that leave for it
  };

  [[nodiscard]] static Price PriceOf(const std::vector<Unit>& units) {
    Price price = kFree;
    for (const Unit& unit : units) {
      const auto& [rank, loss, victims] = PriceOfUnit(unit);
      std::get<Rank>(price) = std::max(std::get<Rank>(price), rank);
      std::get<int64_t>(price) += loss;
      std::get<size_t>(price) += victims;
    }
    return price;
  }

  // Frees what leaves anyway: it costs nothing. Of the others only the runner is kept: there
  // may be thousands, and few are needed.
  void CollectCandidates() {
    std::vector<bool> seen(state_.nodes.size());  // nodes with parts: one unit for all of them
    runners_.EachInReach(contender_, [&](const Runner& runner) {
      const bool leaves = rules_.leaves(runner);
      if (!leaves && (runner.job->leaving || !rules_.takeable(runner))) {
        return;
      }
      if (runner.job->on_part) {
        if (seen[runner.job->node.value()]) {
          return;
        }
        seen[runner.job->node.value()] = true;
      }
      if (leaves && runner.job->nodes == 1 && !rules_.node(runner.job->node)) {
        return;
      }
      if (leaves) {
        const Unit unit = UnitOf(runner);
        if (unit.victims.empty()) {
          AddNodes(unit);
          return;
        }
      }
      candidates_.push_back(&runner);
    });
  }

  // Takes units in the order of their runners until the gang fits.
  bool ChooseInOrder() {
    for (size_t next = 0; !CanPlace(); ++next) {
      if (next == candidates_.size()) {
        return false;
      }
      Take(UnitOf(*candidates_[next]));
    }
    Spare();
    return true;
  }

  // Takes units by what they cost until the gang fits. What parts of a node cost together is worked
  // out where their first runner alone would be cheap enough.
  void ChooseCheapest() {
    struct Entry {
      Price price;
      size_t index = 0;  // ties: as runners are ordered
      bool exact = false;
    };
    const auto dearer = [](const Entry& a, const Entry& b) {
      return std::tie(a.price, a.index) > std::tie(b.price, b.index);
    };
    std::vector<Entry> heap;
    heap.reserve(candidates_.size());
    for (size_t i = 0; i < candidates_.size(); ++i) {
      const Runner& runner = *candidates_[i];
      const bool asked = !rules_.leaves(runner);
      const Price least = asked ? Price{RankOf(runner), LossOf(runner), 1} : kFree;
      heap.push_back({least, i, !runner.job->on_part});
    }
    std::ranges::make_heap(heap, dearer);
    while (!CanPlace() && !heap.empty()) {  // the same units suffice
      std::ranges::pop_heap(heap, dearer);
      Entry& entry = heap.back();
      Unit unit = UnitOf(*candidates_[entry.index]);
      if (!entry.exact) {
        entry.price = PriceOfUnit(unit);
        entry.exact = true;
        std::ranges::push_heap(heap, dearer);
        continue;
      }
      heap.pop_back();
      Take(std::move(unit));
    }
    Spare();
  }

  void Take(Unit unit) {
    if (!unit.nodes.empty()) {
      AddNodes(unit);
      units_.push_back(std::move(unit));
    }
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

  [[nodiscard]] bool Suits(NodeId id) const {
    const FabricSlot slot = pool_fabric().slots[id.value()];
    return slot.leaf != kNoLeaf && static_cast<int>(pool_fabric().ZoneOf(id).group) == group_ &&
           (all_large_enough_ || CanHold(state_.nodes[id.value()].identity.capacity, job_.spec)) &&
           rules_.node(id);
  }
  [[nodiscard]] const Fabric& pool_fabric() const { return free_.fabric(); }

  // Returns what the runner frees, with the parts beside it. No nodes: it frees none that the job
  // may have.
  [[nodiscard]] Unit UnitOf(const Runner& runner) const {
    Unit unit;
    if (runner.job->on_part) {
      return AllParts(runner.job->node, unit) ? unit : Unit();
    }
    // Only nodes that its tasks still hold: a task that has exited has left its node already.
    for (const NodeId node : NodesOf(state_, runner)) {
      if (state_.uses[node.value()].first().job == runner.job->id && Suits(node)) {
        unit.nodes.push_back(node);
      }
    }
    if (!rules_.leaves(runner)) {
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

  // Lets those of them go on that turn out superfluous, the last first.
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
  const Contender& contender_;
  const Job& job_;
  const PlacementRequest& request_;
  const int group_;              // number of its group in the fabric; negative = it has no nodes
  const bool all_large_enough_;  // each node of the group is
  FreeNodes free_;               // with what the units at hand free
  const Runners& runners_;
  const TakeRules& rules_;
  std::vector<const Runner*> candidates_;  // one for each unit that may be asked
  std::vector<Unit> units_;                // at hand
};

void Give(Part& room, const Part& part) {
  room.gpus += part.gpus;
  room.cpus += part.cpus;
  room.memory_bytes += part.memory_bytes;
  room.devices |= part.devices;
}

struct PartOffer {
  VictimPlan plan;  // no nodes: this node cannot be had
  Price price;
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
  PartOffer offer{{}, kFree};
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
      auto& [dearest, loss, count] = offer.price;
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
  const auto& [contender, request] = asker;
  const Job& job = *contender.job;
  PartOffer best;
  std::vector<bool> seen(state.nodes.size());
  const auto look_at = [&](const Runner& candidate) {
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
  };
  runners.EachInReach(contender, [&](const Runner& candidate) {
    if (rules.leaves(candidate)) {
      look_at(candidate);
    }
  });
  runners.EachInReach(contender, [&](const Runner& candidate) {
    // It is one of the victims of a node that was not seen yet, which costs no less than itself.
    const bool may_be_cheaper =
        best.plan.nodes.empty() || Price{RankOf(candidate), LossOf(candidate), 1} < best.price;
    if (may_be_cheaper && !candidate.job->leaving && rules.takeable(candidate)) {
      look_at(candidate);
    }
  });
  return best.plan;
}

}  // namespace tide
