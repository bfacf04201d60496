#include "scheduler/core/policy/runners.h"

#include <algorithm>
#include <tuple>

#include "scheduler/core/policy/replacement.h"

namespace tide {
namespace {

__extension__ using Wide = __int128;

// A job whose owner holds as much as the other's must have been slowed down so many times more than
// one whose owner holds less: among equals nodes go to and fro seldom, but nobody is shut out.
constexpr int64_t kAmongEquals = 4;
// Minimum runs of work beyond which a loss counts no more: the product stays within range.
constexpr int64_t kMostLost = 100'000;
constexpr int64_t kHoldsOfGpu = 1'000'000'000;

bool ComesFirst(const Job& waiting, const LiveJob& running) {
  return std::tuple(waiting.queue_rank, waiting.id) < std::tuple(running.rank, running.id);
}

// Reports whether it may have the nodes of one that passed it: a fault costs nobody his place.
bool HasItsPlaceBack(const Contender& waiting, const LiveJob& running) {
  return GoesOnAfterFault(*waiting.job) && running.opportunistic && running.running_at.is_set() &&
         (waiting.owner != running.owner || ComesFirst(*waiting.job, running));
}

// Reports whether nodes that came free while one waited were lent to the other, which could start
// on fewer: no slice holds against that. One of the same size has its slice.
bool WereLent(const Contender& waiting, const LiveJob& running) {
  return running.running_at.is_set() && running.gpus < ChargedGpus(waiting.job->spec);
}

// Sorts runners as Runners::all has them. Their keys are moved, which are a third of them.
void SortByPrice(std::vector<Runner>& runners) {
  struct Key {
    int32_t priority;
    Standing standing;
    uint32_t index;
    int64_t loss_per_gpu;
    int64_t use;
  };
  std::vector<Key> keys;
  keys.reserve(runners.size());
  for (const Runner& runner : runners) {
    keys.push_back({runner.priority,
                    std::min(runner.standing, Standing::kNoRow),
                    static_cast<uint32_t>(keys.size()),
                    runner.loss_per_gpu,
                    runner.use});
  }
  std::ranges::sort(keys, [&](const Key& a, const Key& b) {
    const auto price = [](const Key& key) {
      return std::tuple(key.priority, key.standing, key.loss_per_gpu, -key.use);
    };
    const auto order = price(a) <=> price(b);
    if (order != 0) {
      return order < 0;
    }
    const LiveJob& one = *runners[a.index].job;
    const LiveJob& other = *runners[b.index].job;
    return std::tuple(other.placed_at, other.id) < std::tuple(one.placed_at, one.id);
  });
  std::vector<Runner> sorted;
  sorted.reserve(runners.size());
  for (const Key& key : keys) {
    sorted.push_back(runners[key.index]);
  }
  runners = std::move(sorted);
}

// Returns the lowest slowdown at which RightTo, or that it leaves, may give a job of its class its
// nodes.
int64_t GivenFrom(const Runner& runner) {
  const bool by_other_rules = runner.job->leaving || runner.job->opportunistic ||
                              runner.reclaimed_until != Instant::Never();
  return by_other_rules ? INT64_MIN : runner.least;
}

}  // namespace

Duration CostOfSuspension(const Job& job, const Policy& policy) {
  return MeasuredSuspension(job).value_or(policy.assumed_cost);
}

Duration CostOfSuspension(const LiveJob& job, const Policy& policy) {
  return job.suspension_cost.value_or(policy.assumed_cost);
}

Duration SliceOf(Duration cost, const Policy& policy) {
  constexpr Duration kMost = Duration::Minutes(60 * 24 * 365);  // the product stays within range
  const bool fits = cost.nanos() <= kMost.nanos() / std::max<int64_t>(1, policy.preemption_tax);
  return std::max(policy.minimum_run, fits ? cost * policy.preemption_tax : kMost);
}

int64_t LeastFor(int64_t slowdown, Duration unsaved, const Policy& policy) {
  const Duration run = LeastRun(policy.minimum_run);
  const int64_t lost = std::min(unsaved, run * kMostLost).millis();
  return policy.turn_ratio * slowdown * (run.millis() + lost) / run.millis();
}

int64_t SlowdownForTurn(int64_t own, int64_t least, int64_t holds) {
  const int64_t held = std::max<int64_t>(1, holds);
  if (own < held) {
    return least;
  }
  const Wide needed = (Wide{least} * kAmongEquals * own + held - 1) / held;
  return static_cast<int64_t>(std::min(needed, Wide{INT64_MAX}));
}

Right RightTo(const Contender& waiting, const Runner& runner, const Policy& policy, Instant now) {
  const LiveJob& running = *runner.job;
  if (runner.priority != waiting.priority) {
    return runner.priority < waiting.priority ? Right::kClass : Right::kNone;
  }
  const Instant since = waiting.job->state_since;
  const bool earlier =
      since < running.placed_at || (since == running.placed_at && running.opportunistic);
  const bool own = running.user == waiting.user;
  const bool guaranteed = IsGuaranteed(runner, waiting.standing);
  if (earlier && !guaranteed && HasItsPlaceBack(waiting, running)) {
    return Right::kBefore;
  }
  if (waiting.standing == Standing::kWithin && runner.reclaimed_until <= now && !own) {
    return Right::kQuota;
  }
  if (waiting.footing.slowdown < runner.least || guaranteed || AsksFrom(since, policy) > now) {
    return Right::kNone;
  }
  const bool has_had_its_slice = runner.safe_until <= now;
  const bool lent = earlier && WereLent(waiting, running);
  if (own) {
    // Jobs of one user take no turns; only an owner's order counts between them.
    const bool first = earlier && waiting.owner == running.owner &&
                       ComesFirst(*waiting.job, running) && (has_had_its_slice || lent);
    return first ? Right::kBefore : Right::kNone;
  }
  if (!IsItsTurn(waiting.footing, runner.least, *runner.holds)) {
    return Right::kNone;
  }
  return has_had_its_slice ? Right::kTurn : lent ? Right::kBefore : Right::kNone;
}

std::string WhyItLeaves(const Contender& waiting, Right right) {
  const std::string why = "gives its nodes to " + FormatJobName(waiting.job->id.value()) + " (" +
                          PriorityName(waiting.priority) + ")";
  return right == Right::kBefore ? why + ", which has waited since before it started" : why;
}

Runners::Runners(const ClusterState& state,
                 const Policy& policy,
                 const Shares& shares,
                 const Quotas& quotas,
                 Instant now)
    : policy_(policy), shares_(shares), groups_(state.groups), now_(now) {
  runners_.reserve(state.runners.all().size());
  for (const LiveJob& job : state.runners.all()) {
    Runner& runner = runners_.emplace_back();
    const Duration cost = CostOfSuspension(job, policy);
    runner.job = &job;
    runner.priority = quotas.ClassOf(job);
    runner.standing = quotas.StandingOf(job.id);
    runner.use = shares.UseOf(job.owner);
    runner.holds = &HeldOf({job.owner, job.group, runner.priority});
    const Duration unsaved = job.UnsavedAt(now);
    runner.least = LeastFor(job.slowdown.At(now, policy.minimum_run), unsaved, policy);
    runner.loss_per_gpu = (cost + unsaved).millis();
    runner.loss = runner.loss_per_gpu * job.gpus;
    runner.safe_until = Instant::Never();
    runner.reclaimed_until = Instant::Never();
    if (job.running_at.is_set()) {
      runner.safe_until = job.running_at + SliceOf(cost, policy);
      if (runner.standing <= Standing::kBorrows) {
        runner.reclaimed_until = job.running_at + policy.minimum_run;
      }
    }
    if (!job.leaving) {
      Give({job.owner, job.group, runner.priority}, job.gpus);
    }
    runner.demoted_at = tide::NextDemotion(runner.priority, job, policy, now);
    next_demotion_ = std::min(next_demotion_, runner.demoted_at);
    AddToCrowd(runner);
  }
  for (const JobId id : state.claiming) {
    const Job& job = state.jobs.at(id);
    Give(HoldingOf(state, job, quotas.ClassOf(job)), ChargedGpus(job.spec));
  }
  SortByPrice(runners_);
  for (size_t i = 0; i < runners_.size(); ++i) {
    by_job_.emplace_back(runners_[i].job->id, i);
    given_from_.push_back(GivenFrom(runners_[i]));
  }
  std::sort(by_job_.begin(), by_job_.end());
}

void Runners::AddToCrowd(const Runner& runner) {
  const LiveJob& job = *runner.job;
  auto crowd = std::ranges::find_if(crowds_, [&](const Crowd& each) {
    return each.group == job.group && each.priority == runner.priority;
  });
  if (crowd == crowds_.end()) {
    crowd = crowds_.insert(crowd, {.group = job.group, .priority = runner.priority});
  }
  if (job.leaving) {
    crowd->leaves = true;
    return;
  }
  crowd->stays = true;
  crowd->least = std::min(crowd->least, runner.least);
  if (runner.safe_until <= now_) {
    crowd->least_shared = std::min(crowd->least_shared, runner.least);
  }
  crowd->gpus = std::min(crowd->gpus, job.gpus);
  crowd->reclaimed = std::min(crowd->reclaimed, runner.reclaimed_until);
}

bool Runners::MayTakeAny(const Contender& waiting) const {
  const auto group = groups_.Find(waiting.job->spec->group);
  const int64_t slowdown = waiting.footing.slowdown;
  return std::ranges::any_of(crowds_, [&](const Crowd& crowd) {
    if (crowd.group != group || crowd.leaves || !crowd.stays) {
      return crowd.group == group && crowd.leaves;
    }
    if (crowd.priority != waiting.priority) {
      return crowd.priority < waiting.priority;
    }
    const bool may_be_lent = crowd.gpus < ChargedGpus(waiting.job->spec);
    return GoesOnAfterFault(*waiting.job) ||
           (waiting.standing == Standing::kWithin && crowd.reclaimed <= now_) ||
           slowdown >= crowd.least_shared || (may_be_lent && slowdown >= crowd.least);
  });
}

std::span<const Runner* const> Runners::OfUser(uint32_t user) const {
  const auto user_of = [](const Runner* runner) { return runner->job->user; };
  if (by_user_.size() != runners_.size()) {
    for (const Runner& runner : runners_) {
      by_user_.push_back(&runner);
    }
    std::ranges::sort(by_user_, {}, user_of);
  }
  return std::ranges::equal_range(by_user_, user, {}, user_of);
}

const Runner* Runners::Find(JobId job) const {
  const auto it = std::lower_bound(by_job_.begin(), by_job_.end(), std::pair(job, size_t{0}));
  return it != by_job_.end() && it->first == job ? &runners_[it->second] : nullptr;
}

Holding HoldingOf(const ClusterState& state, const Job& job, int32_t priority) {
  return {state.owners.At(job.spec->project, job.user),
          state.groups.Find(job.spec->group).value_or(kNoGroup),
          priority};
}

int64_t Runners::HoldsOf(const Holding& holding) const {
  const uint32_t held = FindHeld(holding);
  return held == kNone ? 0 : held_[held].amount;
}

uint32_t Runners::FindHeld(const Holding& holding) const {
  uint32_t at = holding.owner < first_held_.size() ? first_held_[holding.owner] : kNone;
  while (at != kNone && held_[at].holding != holding) {
    at = held_[at].next;
  }
  return at;
}

int64_t& Runners::HeldOf(const Holding& holding) {
  if (const uint32_t known = FindHeld(holding); known != kNone) {
    return held_[known].amount;
  }
  if (holding.owner >= first_held_.size()) {
    first_held_.resize(std::max<size_t>(shares_.owners().size(), holding.owner + size_t{1}), kNone);
  }
  uint32_t& first = first_held_[holding.owner];
  held_.push_back({holding, 0, first});
  first = static_cast<uint32_t>(held_.size() - 1);
  return held_.back().amount;
}

void Runners::Give(const Holding& holding, int64_t gpus) {
  HeldOf(holding) += gpus * (kHoldsOfGpu / shares_.PathWeightOf(holding.owner));
}

Instant Runners::NextChange(int32_t priority) const {
  Instant next = Instant::Never();
  for (const Runner& runner : runners_) {
    if (runner.job->leaving || runner.priority != priority) {
      continue;
    }
    if (runner.reclaimed_until > now_) {
      next = std::min(next, runner.reclaimed_until);
    }
    if (runner.job->running_at.is_set()) {
      next = std::min(next, now_ + policy_.review);  // slowdowns drift
    }
  }
  return next;
}

}  // namespace tide
