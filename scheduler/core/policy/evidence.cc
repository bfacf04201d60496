#include "scheduler/core/policy/evidence.h"

#include <algorithm>
#include <functional>
#include <set>

#include "scheduler/core/model/index.h"
#include "scheduler/core/policy/crossing.h"
#include "scheduler/core/policy/shortage.h"
#include "scheduler/core/policy/size.h"

namespace tide {
namespace {

// From waiting jobs of its class that stand so to their quotas.
Instant SafeUntil(const Runner& runner, Standing standing) {
  const Instant in_class = std::min(runner.safe_until, runner.demoted_at);
  return standing == Standing::kWithin ? std::min(in_class, runner.reclaimed_until) : in_class;
}

// Slowdown beyond which no more is told, in thousandths.
constexpr int64_t kMostShown = 1'000'000'000;

// Amounts that are tried for an advice: nodes may be free of a thousand different ones.
constexpr int kStartableTries = 8;

}  // namespace

void Evidence::AddPlacement(const Contender& waiting,
                            const PlacementRequest& request,
                            const PlacementResult& placement,
                            JobId crossing,
                            const Runners& runners,
                            std::vector<Reason>& reasons) {
  const bool may_lie_across = MayLieAcross(request.zone);
  const bool across = may_lie_across && request.cross_zone_free;
  const bool joined = across && request.boundaries != nullptr;
  const Job& job = *waiting.job;
  uint32_t most =
      MostFree(job.spec, may_lie_across && !across ? kSingleZone : std::string_view(request.zone));
  if (joined) {
    PlacementRequest smaller = request;
    smaller.nodes = std::min(most, request.nodes - 1);
    const bool fits = !capacity_.PlaceWhole(job, smaller, capacity_.idle()).nodes.empty();
    most = fits ? smaller.nodes : MostFree(job.spec, kSingleZone);
  }
  if (placement.cross_zone_busy) {
    reasons.push_back({.code = ReasonCode::kCrossZoneBusy, .other = crossing, .count = most});
  }
  if (!higher_classes_) {
    higher_classes_.emplace(state_, runners, quotas_);
  }
  auto open_priority =
      higher_classes_->Find(job,
                            waiting.priority,
                            capacity_.idle(),
                            request.cross_zone_free && request.boundaries == nullptr);
  const auto retry = retries_.find(job.spec->group);
  if (open_priority && retry != retries_.end()) {
    open_priority = std::max(*open_priority, retry->second);
  }
  reasons.push_back({.code = ReasonCode::kZoneCapacity,
                     .count = most,
                     .across = across,
                     .joined = joined,
                     .fits_across = placement.cross_zone_would_fit,
                     .open_priority = open_priority});
}

uint32_t Evidence::MostFree(const JobSpec& spec, std::string_view rule) const {
  const Fabric& fabric = state_.fabric;
  const int group = fabric.FindGroup(spec.group);
  if (group < 0) {
    return 0;
  }
  return LargestGang(fabric, fabric.groups[static_cast<size_t>(group)], rule, [&](uint32_t zone) {
    return CountFreeLargeEnough(state_, zone, spec, capacity_.idle());
  });
}

Reason Evidence::Fragmentation(const Job& job, const PlacementRequest& request) const {
  ShortageSearch search;
  const auto add = [&](NodeId node, const Part& room) {
    const NodeCapacity& all = state_.nodes[node.value()].identity.capacity;
    if (capacity_.Suits(request, node) && CanHold(all, job.spec)) {
      search.Add(room,
                 PartOf(job.spec, all).value_or(Part{all.gpus, all.cpus, all.memory_bytes, 0}));
    }
  };
  capacity_.VisitRooms(add);
  // Nodes without room count for what the job wants of them. Where all are alike one will do.
  const int index = state_.fabric.FindGroup(job.spec->group);
  const bool alike = index >= 0 && state_.fabric.groups[static_cast<size_t>(index)].alike;
  for (uint32_t i = 0; i < state_.nodes.size() && !(alike && !search.empty()); ++i) {
    if ((state_.node_flags[i] & kTakesWork) != 0) {
      add(NodeId(i), Part{});
    }
  }
  if (search.empty()) {  // none that could hold it takes work
    search.Add({},
               {job.spec->gpus_per_node, job.spec->cpus_per_node, job.spec->memory_bytes_per_node});
  }
  const Shortage shortage = search.First();
  return {.code = ReasonCode::kFragmented,
          .count = shortage.all,
          .largest = shortage.largest,
          .wanted = shortage.wanted,
          .startable = Startable(job, request, shortage),
          .lacking = shortage.lacking};
}

uint32_t Evidence::Startable(const Job& job,
                             const PlacementRequest& request,
                             const Shortage& shortage) const {
  std::set<uint32_t, std::greater<>> amounts;
  capacity_.VisitRooms([&](NodeId node, const Part& room) {
    const uint32_t free = AmountIn(room, shortage.lacking);
    if (free > 0 && free < shortage.wanted && capacity_.Suits(request, node) &&
        IsOfItsKind(state_.nodes[node.value()].identity.capacity, job.spec)) {
      amounts.insert(free);
    }
  });
  Job smaller = job;
  int tries = kStartableTries;
  for (auto amount = amounts.begin(); amount != amounts.end() && tries > 0; ++amount, --tries) {
    smaller.spec.Edit([&](JobSpec& spec) { SetAmount(spec, shortage.lacking, *amount); });
    if (capacity_.PlacePart(smaller, request)) {
      return *amount;
    }
  }
  return 0;
}

uint32_t Evidence::LargestEver(const JobSpec& spec, const BoundaryUse* boundaries) {
  const uint32_t most = LargestGangEver(state_, spec);
  if (boundaries == nullptr || most < spec.nodes || !MayLieAcross(spec.zone)) {
    return most;
  }
  const auto [known, fresh] = across_.try_emplace({spec.group,
                                                   spec.zone,
                                                   spec.gpu_model,
                                                   spec.disk_bytes_per_node,
                                                   spec.nodes,
                                                   spec.gpus_per_node,
                                                   spec.cpus_per_node,
                                                   spec.memory_bytes_per_node});
  if (fresh) {
    known->second = LargestGangAcross(state_, spec, boundaries->Unused());
  }
  return known->second;
}

void Evidence::AddGroup(const Contender& waiting,
                        const Runners& runners,
                        const BoundaryUse* boundaries,
                        std::vector<Reason>& reasons) {
  const JobSpec& spec = waiting.job->spec;
  if (state_.fabric.FindGroup(spec.group) < 0) {
    reasons.push_back({.code = ReasonCode::kGroupUnknown});
  } else if (const uint32_t most = LargestEver(spec, boundaries); most < spec.nodes) {
    reasons.push_back({.code = ReasonCode::kSizeNever, .count = most});
  }
  const Classmates& classmates = ClassmatesOf(waiting, runners);
  if (const Runner* safe = classmates.safest.For(waiting.user)) {
    reasons.push_back({.code = ReasonCode::kPreemptProtected,
                       .other = safe->job->id,
                       .until = SafeUntil(*safe, waiting.standing)});
  }
  if (const Runner* first = classmates.turn.For(waiting.user)) {
    reasons.push_back({.code = ReasonCode::kTurn,
                       .other = first->job->id,
                       .count = static_cast<uint32_t>(std::min(first->least, kMostShown))});
  }
  if (const uint32_t count = OutOfService(spec.group); count > 0) {
    reasons.push_back({.code = ReasonCode::kNodesUnhealthy, .count = count});
  }
}

// Counts nodes of the group that take no work.
uint32_t Evidence::OutOfService(const std::string& group) {
  if (!out_of_service_) {
    out_of_service_.emplace();
    for (size_t i = 0; i < state_.nodes.size(); ++i) {
      if ((state_.node_flags[i] & kTakesWork) == 0 &&
          state_.nodes[i].state != NodeState::kRemoved) {
        ++(*out_of_service_)[state_.nodes[i].identity.group];
      }
    }
  }
  const auto it = out_of_service_->find(group);
  return it == out_of_service_->end() ? 0 : it->second;
}

const Evidence::Classmates& Evidence::ClassmatesOf(const Contender& waiting,
                                                   const Runners& runners) {
  const std::string& name = waiting.job->spec->group;
  const auto [it, fresh] = classmates_.try_emplace({waiting.priority, name, waiting.standing});
  Classmates& classmates = it->second;
  if (!fresh) {
    return classmates;
  }
  const auto group = state_.groups.Find(name);
  std::vector<const Runner*> safe;
  std::vector<const Runner*> shared;
  for (const Runner& runner : runners.all()) {
    if (runner.job->leaving || runner.priority != waiting.priority || runner.job->group != group) {
      continue;
    }
    const Instant until = SafeUntil(runner, waiting.standing);
    if (until > now_ && until != Instant::Never()) {
      safe.push_back(&runner);
    }
    if (runner.safe_until <= now_ && !IsGuaranteed(runner, waiting.standing)) {
      shared.push_back(&runner);
    }
  }
  classmates.safest = ForemostOf(safe, [&](const Runner& a, const Runner& b) {
    return SafeUntil(a, waiting.standing) > SafeUntil(b, waiting.standing);
  });
  classmates.turn =
      ForemostOf(shared, [](const Runner& a, const Runner& b) { return a.least < b.least; });
  return classmates;
}

Evidence::Foremost Evidence::ForemostOf(
    const std::vector<const Runner*>& runners,
    const std::function<bool(const Runner&, const Runner&)>& before) {
  const auto find = [&](std::optional<uint32_t> but_of) {
    const Runner* found = nullptr;
    for (const Runner* runner : runners) {
      if (runner->job->user != but_of && (found == nullptr || before(*runner, *found))) {
        found = runner;
      }
    }
    return found;
  };
  Foremost foremost{find(std::nullopt), nullptr};
  if (foremost.of_all != nullptr) {
    foremost.of_others = find(foremost.of_all->job->user);
  }
  return foremost;
}

std::optional<uint32_t> Evidence::SafestUser(const Contender& waiting, const Runners& runners) {
  const Runner* safest = ClassmatesOf(waiting, runners).safest.of_all;
  return safest == nullptr ? std::nullopt : std::optional(safest->job->user);
}

std::optional<uint32_t> Evidence::TurnUser(const Contender& waiting, const Runners& runners) {
  const Runner* first = ClassmatesOf(waiting, runners).turn.of_all;
  return first == nullptr ? std::nullopt : std::optional(first->job->user);
}

}  // namespace tide
