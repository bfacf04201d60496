#include "scheduler/core/policy/runners.h"

#include <algorithm>
#include <tuple>

#include "scheduler/core/policy/replacement.h"

namespace tide {
namespace {

__extension__ using Wide = __int128;

// Whose owner holds as much as the other's must have been slowed down so many times more than one
// whose owner holds less: among equals nodes go to and fro seldom, but nobody is shut out.
constexpr int64_t kAmongEquals = 4;

// Counts as run in any case.
Duration LeastRun(const Policy& policy) {
  return std::max(policy.minimum_run, Duration::Seconds(1));
}

bool ComesFirst(const Job& waiting, const LiveJob& running) {
  return std::tuple(waiting.queue_rank, waiting.id) < std::tuple(running.rank, running.id);
}

// May it take the nodes of one that started while it waited? Neither a slice nor a minimum run
// holds against that: the nodes came free meanwhile, and were lent to who could start on them.
bool MayTakeLater(const Contender& waiting,
                  const Runner& runner,
                  const Policy& policy,
                  Instant now) {
  const LiveJob& running = *runner.job;
  if (GoesOnAfterFault(*waiting.job)) {
    // A fault costs nobody his place.
    return running.opportunistic && running.placed_at + policy.minimum_run <= now &&
           (waiting.owner != running.owner || ComesFirst(*waiting.job, running));
  }
  if (!running.running_at.is_set() || AsksFrom(waiting.job->state_since, policy) > now) {
    return false;
  }
  if (waiting.user != running.user) {
    return IsItsTurn(waiting.footing, {runner.slowdown, *runner.holds}, runner.unsaved, policy);
  }
  // Of his own: what he holds stays the same.
  return waiting.owner == running.owner && ComesFirst(*waiting.job, running) &&
         IsItsTurn({waiting.footing.slowdown, 0}, {runner.slowdown, 1}, runner.unsaved, policy);
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

bool IsItsTurn(const Footing& waiting,
               const Footing& running,
               Duration unsaved,
               const Policy& policy) {
  const int64_t run = LeastRun(policy).millis();
  const Wide least = Wide{policy.turn_ratio} * running.slowdown * (run + unsaved.millis()) / run;
  const int64_t holds = std::max<int64_t>(1, running.holds);
  return waiting.holds < holds
             ? waiting.slowdown >= least
             : Wide{waiting.slowdown} * holds >= least * kAmongEquals * waiting.holds;
}

Right RightTo(const Contender& waiting, const Runner& runner, const Policy& policy, Instant now) {
  const LiveJob& running = *runner.job;
  if (runner.priority != waiting.priority) {
    return runner.priority < waiting.priority ? Right::kClass : Right::kNone;
  }
  // Guaranteed nodes are not lent out again.
  const bool guaranteed =
      waiting.standing == Standing::kBorrows && runner.standing == Standing::kWithin;
  const Instant since = waiting.job->state_since;
  const bool later =
      since < running.placed_at || (since == running.placed_at && running.opportunistic);
  if (later && !guaranteed && MayTakeLater(waiting, runner, policy, now)) {
    return Right::kBefore;
  }
  if (running.user == waiting.user) {
    return Right::kNone;  // nobody takes from himself
  }
  if (waiting.standing == Standing::kWithin && runner.reclaimed_until <= now) {
    return Right::kQuota;
  }
  if (guaranteed || runner.safe_until > now || AsksFrom(since, policy) > now) {
    return Right::kNone;
  }
  const Footing running_footing{runner.slowdown, *runner.holds};
  return IsItsTurn(waiting.footing, running_footing, runner.unsaved, policy) ? Right::kTurn
                                                                             : Right::kNone;
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
    : policy_(policy),
      shares_(shares),
      now_(now),
      gpus_(state.owners.size()),
      holds_(gpus_.size()) {
  runners_.reserve(state.runners.all().size());
  for (const LiveJob& job : state.runners.all()) {
    Runner& runner = runners_.emplace_back();
    const Duration cost = CostOfSuspension(job, policy);
    runner.job = &job;
    runner.priority = quotas.ClassOf(job);
    runner.standing = quotas.StandingOf(job.id);
    runner.use = shares.UseOf(job.owner);
    runner.holds = &holds_[job.owner];
    runner.slowdown = job.slowdown.At(now, policy.minimum_run);
    runner.unsaved = job.UnsavedAt(now);
    runner.loss_per_gpu = (cost + runner.unsaved).millis();
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
      Give(job.owner, job.gpus);
    }
    next_demotion_ =
        std::min(next_demotion_, tide::NextDemotion(runner.priority, job, policy, now));
  }
  for (const JobId id : state.claiming) {
    const Job& job = state.jobs.at(id);
    Give(state.owners.At(job.spec.project, job.user), ChargedGpus(job.spec));
  }
  std::sort(runners_.begin(), runners_.end(), [](const Runner& a, const Runner& b) {
    const auto key = [](const Runner& runner) {
      const Standing standing = std::min(runner.standing, Standing::kNoRow);
      return std::tuple(runner.priority, standing, runner.loss_per_gpu, -runner.use);
    };
    const auto a_key = key(a);
    const auto b_key = key(b);
    if (a_key != b_key) {
      return a_key < b_key;
    }
    return std::tuple(b.job->placed_at, b.job->id) < std::tuple(a.job->placed_at, a.job->id);
  });
  for (size_t i = 0; i < runners_.size(); ++i) {
    by_job_.emplace_back(runners_[i].job->id, i);
  }
  std::sort(by_job_.begin(), by_job_.end());
}

const Runner* Runners::Find(JobId job) const {
  const auto it = std::lower_bound(by_job_.begin(), by_job_.end(), std::pair(job, size_t{0}));
  return it != by_job_.end() && it->first == job ? &runners_[it->second] : nullptr;
}

void Runners::Give(uint32_t owner, int64_t gpus) {
  gpus_[owner] += gpus;
  holds_[owner] = gpus_[owner] * 1000 / shares_.PathWeightOf(owner);
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
