#include "scheduler/core/policy/estimate_scene.h"

#include <algorithm>
#include <set>

#include "scheduler/core/model/index.h"
#include "scheduler/core/policy/size.h"
#include "scheduler/core/policy/waiting_classes.h"

namespace tide::estimate {
namespace {

__extension__ using Wide = __int128;

constexpr size_t kEarly = static_cast<size_t>(Outlook::kEarly);
constexpr size_t kLikely = static_cast<size_t>(Outlook::kLikely);
constexpr size_t kLate = static_cast<size_t>(Outlook::kLate);

const Claim* ClaimOf(const Job& job) {
  const auto* queued = std::get_if<Queued>(&job.phase);
  return queued != nullptr && queued->claim ? &*queued->claim : nullptr;
}

// Those looked for in turn lie close together: a few steps are shorter than a search.
template <typename Map>
typename Map::const_iterator FindFrom(const Map& map,
                                      typename Map::const_iterator from,
                                      typename Map::key_type key) {
  constexpr int kSteps = 8;
  for (int i = 0; i < kSteps && from != map.end() && from->first < key; ++i) {
    ++from;
  }
  return from != map.end() && from->first == key ? from : map.find(key);
}

// Jobs lie about in memory in the order of their ids: they are opened in that order.
class OpenedJobs {
 public:
  OpenedJobs(const ClusterState& state, const std::set<JobId>& ids) {
    jobs_.reserve(ids.size());
    auto next = state.jobs.cbegin();
    for (const JobId id : ids) {
      next = FindFrom(state.jobs, next, id);
      jobs_.emplace_back(id, &next->second);
    }
  }
  [[nodiscard]] const Job& At(JobId id) const {
    return *std::ranges::lower_bound(jobs_, id, {}, &std::pair<JobId, const Job*>::first)->second;
  }

 private:
  std::vector<std::pair<JobId, const Job*>> jobs_;
};

// How long a holder takes to leave once it is asked: at once, as its saves did, or all its notice.
std::array<Duration, kOutlooks> LeaveOf(const Job& job, const Policy& policy) {
  const Duration notice = std::min(job.spec->suspend_notice, policy.suspend_notice_max);
  const Duration half_cost = Duration::Nanos(CostOfSuspension(job, policy).nanos() / 2);
  return {Duration(), std::min(half_cost, notice), notice + policy.stop_grace};
}

}  // namespace

Scene::Scene(
    const ClusterState& state, const Fabric& fabric, const Policy& policy, Instant now, JobId last)
    : state_(state),
      fabric_(fabric),
      policy_(policy),
      now_(now),
      shares_(state, policy, now),
      quotas_(state, fabric, policy, now),
      runners_(state, policy, shares_, quotas_, now),
      run_times_(state.run_history),
      owner_of_(state.owners.size()),
      zones_(fabric.zones.size()) {
  AddRunners();
  AddWaiters(last);
  AddNodes();
}

uint32_t Scene::OwnerOf(uint32_t number) {
  uint32_t& place = owner_of_[number];
  if (place == 0) {
    const auto* runs =
        run_times_.OwnRuns(state_.owners.Project(number), state_.owners.User(number));
    owners_.push_back({runs});
    place = static_cast<uint32_t>(owners_.size());
  }
  return place - 1;
}

void Scene::AddRunners() {
  const OpenedJobs jobs(state_, state_.live);
  for (const Runner& runner : runners_.all()) {
    const Job& job = jobs.At(runner.job->id);
    Holder holder;
    holder.job = &job;
    holder.runner = &runner;
    holder.owner = OwnerOf(runner.job->owner);
    holder.priority = runner.priority;
    holder.since = runner.job->placed_at;
    holder.leave = LeaveOf(job, policy_);
    holder.leaving = runner.job->leaving;
    if (const auto* saving = std::get_if<Saving>(&job.phase)) {
      holder.leave[kLate] = std::max(saving->deadline - now_, Duration()) + policy_.stop_grace;
    } else if (holder.leaving) {
      holder.leave[kLate] = policy_.stop_grace;
    }
    holder.leave[kLikely] = std::min(holder.leave[kLikely], holder.leave[kLate]);
    const Remaining remaining =
        run_times_.Of(job, owners_[holder.owner].runs, RunTimeAt(job, now_));
    holder.basis = remaining.basis;
    for (size_t i = 0; i < kOutlooks; ++i) {
      holder.ends[i] = now_ + (holder.leaving ? holder.leave[i] : remaining.spans[i]);
    }
    holder_of_[job.id] = static_cast<uint32_t>(holders_.size());
    holders_.push_back(holder);
    if (state_.crossing.contains(job.id)) {
      crossing_.push_back(holder_of_[job.id]);
    }
  }
}

void Scene::AddClaimant(const Job& job, const Claim& claim) {
  Claimant claimant{job.id, {now_, now_, now_}};
  for (const NodeId node : claim.nodes) {
    for (const Occupant& occupant : state_.uses[node.value()].tasks) {
      const Holder& leaver = holders_[holder_of_.at(occupant.job)];
      for (size_t i = 0; leaver.leaving && i < kOutlooks; ++i) {
        claimant.starts[i] = std::max(claimant.starts[i], leaver.ends[i]);
      }
    }
  }
  Holder holder;
  holder.job = &job;
  holder.owner = OwnerOf(state_.owners.At(job.spec->project, job.user));
  holder.priority = quotas_.ClassOf(job);
  holder.since = claimant.starts[kLikely];
  holder.leave = LeaveOf(job, policy_);
  const Remaining run = run_times_.Of(job, owners_[holder.owner].runs, job.run_time);
  holder.basis = run.basis;
  for (size_t i = 0; i < kOutlooks; ++i) {
    holder.ends[i] = claimant.starts[i] + run.spans[i];
  }
  holder_of_[job.id] = static_cast<uint32_t>(holders_.size());
  holders_.push_back(holder);
  claimants_.push_back(claimant);
  if (fabric_.Crosses(claim.nodes)) {
    crossing_.push_back(holder_of_[job.id]);
  }
}

int64_t Scene::MilliOf(NodeId node, const Part& part) const {
  const NodeCapacity& capacity = state_.nodes[node.value()].identity.capacity;
  const bool by_gpus = part.gpus > 0;
  const int64_t share = by_gpus ? part.gpus : part.cpus;
  const int64_t of = std::max<int64_t>(1, by_gpus ? capacity.gpus : capacity.cpus);
  return std::clamp(share * kMilliNodes / of, int64_t{1}, kMilliNodes);
}

void Scene::AddPart(NodeId node, uint32_t holder, const Part& part) {
  PartedNode& parted = zones_[fabric_.ZoneIndexOf(node)].parted.back();
  const int64_t milli = std::min(MilliOf(node, part), parted.room);
  parted.room -= milli;
  parted.parts.emplace_back(holder, milli);
}

void Scene::AddNodes() {
  for (uint32_t index = 0; index < state_.nodes.size(); ++index) {
    if ((state_.node_flags[index] & kTakesWork) == 0) {
      continue;
    }
    const NodeId node(index);
    const NodeUse& use = state_.uses[index];
    Zone& zone = zones_[fabric_.ZoneIndexOf(node)];
    ++zone.in_service;
    const Claim* claim =
        use.claimants.empty() ? nullptr : ClaimOf(state_.jobs.at(use.claimants.front()));
    const bool claimed_whole = claim != nullptr && !claim->part;
    if (claimed_whole || use.whole) {
      const uint32_t holder =
          holder_of_.at(claimed_whole ? use.claimants.front() : use.first().job);
      if (!zone.held.empty() && zone.held.back().holder == holder) {
        ++zone.held.back().nodes;
      } else {
        zone.held.push_back({holder, 1});  // a holder may come again: that does no harm
      }
    } else if (use.tasks.empty() && use.claimants.empty()) {
      ++zone.idle;
    } else {
      zone.parted.push_back({kMilliNodes, {}});
      for (const Occupant& occupant : use.tasks) {
        const uint32_t holder = holder_of_.at(occupant.job);
        if (const auto& part = AllocationOf(*holders_[holder].job)->part) {
          AddPart(node, holder, *part);
        }
      }
      for (const JobId claimant : use.claimants) {
        if (const auto& part = ClaimOf(state_.jobs.at(claimant))->part) {
          AddPart(node, holder_of_.at(claimant), *part);
        }
      }
    }
  }
}

void Scene::AddWaiters(JobId last) {
  for (const JobId id : state_.claiming) {
    const Job& job = state_.jobs.at(id);
    AddClaimant(job, *ClaimOf(job));
  }
  const OpenedJobs jobs(state_, state_.waiting);
  waiters_.reserve(state_.waiting.size());
  const WaitingClasses classes(state_, policy_, shares_, quotas_);
  if (!classes.all().empty()) {
    highest_ = classes.all().begin()->first;
  }
  bool found = false;
  for (const auto& [priority, owners] : classes.all()) {
    std::vector<Waiter> over_quota;  // who wait for a row's end do not stand before others
    WaitingOrder order(owners, shares_);
    while (const WaitingJob* waiting = order.Next()) {
      if (!waiting->plain && state_.claiming.contains(waiting->id)) {
        continue;
      }
      const Waiter waiter = MakeWaiter(jobs.At(waiting->id), owners[order.owner()].owner, priority);
      if (waiter.standing == Standing::kOverLimit) {
        over_quota.push_back(waiter);
        found = found || waiting->id == last;
        continue;
      }
      waiters_.push_back(waiter);
      if (waiting->id == last) {
        return;
      }
      if (waiter.none == NoEstimate::kNone) {
        order.Charge(policy_.minimum_run.millis() * waiter.gpus);
      }
    }
    waiters_.insert(waiters_.end(), over_quota.begin(), over_quota.end());
    if (found) {
      return;
    }
  }
}

Waiter Scene::MakeWaiter(const Job& job, uint32_t number, int32_t priority) {
  Waiter waiter;
  waiter.job = &job;
  waiter.id = job.id;
  waiter.owner = OwnerOf(number);
  waiter.number = number;
  waiter.user = state_.owners.UserNumber(number);
  waiter.priority = priority;
  waiter.nodes = job.spec->nodes;
  waiter.since = job.state_since;
  waiter.slowdown = SlowdownOf(job);
  waiter.holds = runners_.HoldsOf(HoldingOf(state_, job, priority));
  waiter.not_before = std::max(now_, std::get<Queued>(job.phase).not_before);
  waiter.run = run_times_.Of(job, owners_[waiter.owner].runs, job.run_time);
  waiter.gpus = ChargedGpus(job.spec);
  waiter.slice = SliceOf(CostOfSuspension(job, policy_), policy_);
  waiter.fails = IsRetry(job);
  waiter.zones_max = job.spec->nodes > 1 ? ZonesMax(job.spec->zone) : 1;
  ChooseZones(waiter);
  if (waiter.none == NoEstimate::kNone) {
    CheckQuota(waiter);
  }
  return waiter;
}

void Scene::ChooseZones(Waiter& waiter) const {
  const JobSpec& spec = waiter.job->spec;
  const int index = fabric_.FindGroup(spec.group);
  if (index < 0) {
    waiter.none = NoEstimate::kGroup;
    return;
  }
  const FabricGroup& group = fabric_.groups[static_cast<size_t>(index)];
  const int64_t milli = MilliNodesOf(spec, group.largest);
  waiter.part = spec.nodes == 1 && milli < kMilliNodes ? milli : 0;
  waiter.first_zone = group.first_zone;
  waiter.zone_count = group.zone_count;
  if (IsNamedZone(spec.zone)) {
    waiter.zone_count = 0;
    for (uint32_t zone = group.first_zone; zone < group.first_zone + group.zone_count; ++zone) {
      if (fabric_.zones[zone].name == spec.zone) {
        waiter.first_zone = zone;
        waiter.zone_count = 1;
      }
    }
  }
}

// What starts counts for those after it. Where every row that is in the way ends, so does the wait.
void Scene::CheckQuota(Waiter& waiter) {
  waiter.standing = quotas_.Check(*waiter.job);
  if (waiter.standing != Standing::kOverLimit) {
    quotas_.Add(*waiter.job);
    return;
  }
  for (const Reason& reason : quotas_.ReasonsFor(*waiter.job)) {
    if (!reason.quota->until.is_set()) {
      waiter.none = NoEstimate::kQuota;
      return;
    }
    waiter.not_before = std::max(waiter.not_before, reason.quota->until);
  }
}

}  // namespace tide::estimate
