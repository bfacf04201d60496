#include "scheduler/core/policy/runners.h"

#include <algorithm>
#include <tuple>

#include "scheduler/core/model/user_order.h"
#include "scheduler/core/policy/replacement.h"

namespace tide {
namespace {

bool IsLeaving(const Job& job) {
  return std::holds_alternative<Saving>(job.phase) || std::holds_alternative<Stopping>(job.phase);
}

// Nobody waits longer for his turn than for those that overtook him.
Duration MostPatience(const Policy& policy) {
  return std::max(policy.patience, policy.overtaken_wait);
}

// Doubled each time that the job gave way to another: so a long job is not cut into slices by one
// short job after the other.
Duration PatienceBefore(const Job& job, const Policy& policy) {
  Duration patience = policy.patience;
  for (const Attempt& attempt : job.attempts) {
    if (attempt.end_cause == StopCause::kPreempted && patience < MostPatience(policy)) {
      patience = patience * 2;
    }
  }
  return std::min(patience, MostPatience(policy));
}

bool SameOwner(const Job& a, const Job& b) {
  return a.user == b.user && a.spec.project == b.spec.project;
}

// By a runner that started out of order and has had its time.
bool WasOvertaken(const Contender& waiting,
                  const Runner& runner,
                  const Policy& policy,
                  Instant now) {
  // A fault costs nobody his place: who waits because of one has its nodes back without waiting.
  const bool after_fault = GoesOnAfterFault(*waiting.job);
  // Who waited as long is not a newcomer that slipped past: else two that used alike take the same
  // nodes from each other, again and again.
  const bool waited =
      after_fault || (waiting.job->state_since + policy.overtaken_wait + runner.waited <= now &&
                      runner.earned_until <= now);
  if (!waited) {
    return false;
  }
  return SameOwner(*waiting.job, *runner.job) ? ComesFirst(*waiting.job, *runner.job)
                                              : after_fault || waiting.use <= runner.use;
}

}  // namespace

Duration CostOfSuspension(const Job& job, const Policy& policy) {
  for (size_t i = job.attempts.size(); i-- > 1;) {
    const Attempt& left = job.attempts[i - 1];
    const Attempt& next = job.attempts[i];
    if (left.end_cause == StopCause::kPreempted && left.notice_at.is_set() &&
        left.released_at.is_set() && next.running_at.is_set()) {
      return (left.released_at - left.notice_at) + (next.running_at - next.placed_at);
    }
  }
  return policy.assumed_cost;
}

Duration SliceOf(const Job& job, const Policy& policy) {
  constexpr Duration kMost = Duration::Minutes(60 * 24 * 365);  // the product stays within range
  const Duration cost = CostOfSuspension(job, policy);
  const bool fits = cost.nanos() <= kMost.nanos() / std::max<int64_t>(1, policy.preemption_tax);
  return std::max(policy.minimum_run, fits ? cost * policy.preemption_tax : kMost);
}

Duration EarnedBy(Duration waited, const Policy& policy) {
  return std::min(waited, policy.share_lead);
}

bool IsFarBelow(int64_t use, int64_t other, int64_t weight, int64_t gpus, const Policy& policy) {
  return use * policy.share_margin + policy.share_lead.millis() * gpus / weight <= other;
}

Duration PatienceFor(size_t victims, const Policy& policy) {
  const int64_t most = MostPatience(policy).nanos() / std::max<int64_t>(1, policy.patience.nanos());
  const auto count = static_cast<int64_t>(victims);
  return count > most ? MostPatience(policy) : policy.patience * count;
}

Right RightTo(const Contender& waiting, const Runner& runner, const Policy& policy, Instant now) {
  const Job& running = *runner.job;
  if (runner.priority != waiting.priority) {
    return runner.priority < waiting.priority ? Right::kClass : Right::kNone;
  }
  // Most are told by times and numbers; names are compared for the few that are left.
  const bool overtook = waiting.job->state_since <= running.attempts.back().placed_at;
  if (runner.overtaken_until <= now && overtook && WasOvertaken(waiting, runner, policy, now)) {
    return Right::kOvertaken;
  }
  if (waiting.standing == Standing::kWithin && runner.reclaimed_until <= now) {
    return running.user == waiting.job->user ? Right::kNone : Right::kQuota;
  }
  // What is guaranteed is not lent out again.
  const bool guaranteed =
      waiting.standing == Standing::kBorrows && runner.standing == Standing::kWithin;
  const bool patient = waiting.job->state_since + runner.patience > now;
  if (patient || runner.safe_until > now || guaranteed) {
    return Right::kNone;
  }
  const int64_t gpus = std::min(ChargedGpus(waiting.job->spec), ChargedGpus(running.spec));
  const bool turn = IsFarBelow(waiting.use, runner.use, runner.weight, gpus, policy);
  return turn && running.user != waiting.job->user ? Right::kTurn : Right::kNone;
}

Runners::Runners(const ClusterState& state,
                 const Policy& policy,
                 const Shares& shares,
                 const Quotas& quotas,
                 Instant now)
    : policy_(policy), now_(now) {
  for (const JobId id : state.live) {
    const Job& job = state.jobs.at(id);
    const Attempt& attempt = job.attempts.back();
    Runner runner;
    runner.job = &job;
    runner.allocation = AllocationOf(job);
    runner.priority = quotas.ClassOf(job);
    runner.standing = quotas.StandingOf(job);
    runner.use = shares.UseOf(job);
    runner.weight = shares.PathWeightOf(job.spec.project);
    runner.loss = CostOfSuspension(job, policy).millis() * ChargedGpus(job.spec);
    runner.loss_per_gpu = runner.loss / ChargedGpus(job.spec);
    runner.leaving = IsLeaving(job);
    runner.patience = PatienceBefore(job, policy);
    runner.safe_until = Instant::Never();
    runner.earned_until = Instant::Never();
    runner.overtaken_until = Instant::Never();
    runner.reclaimed_until = Instant::Never();
    if (attempt.running_at.is_set()) {
      runner.waited =
          attempt.queued_at.is_set() ? attempt.placed_at - attempt.queued_at : Duration();
      runner.earned_until = attempt.running_at + EarnedBy(runner.waited, policy);
      runner.safe_until = std::max(attempt.running_at + SliceOf(job, policy), runner.earned_until);
      if (runner.standing <= Standing::kBorrows) {
        runner.reclaimed_until = attempt.running_at + policy.minimum_run;
      }
    }
    if (attempt.opportunistic) {
      runner.overtaken_until = attempt.placed_at + policy.minimum_run;
    }
    next_demotion_ =
        std::min(next_demotion_, tide::NextDemotion(runner.priority, job, policy, now));
    runners_.push_back(runner);
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
    const Instant a_start = a.job->attempts.back().placed_at;
    const Instant b_start = b.job->attempts.back().placed_at;
    return std::tuple(b_start, b.job->id) < std::tuple(a_start, a.job->id);
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

Instant Runners::NextChange(int32_t priority) const {
  Instant next = Instant::Never();
  for (const Runner& runner : runners_) {
    if (runner.leaving || runner.priority != priority) {
      continue;
    }
    if (runner.reclaimed_until > now_) {
      next = std::min(next, runner.reclaimed_until);
    }
    if (runner.overtaken_until != Instant::Never() && runner.earned_until > now_) {
      next = std::min(next, runner.earned_until);
    }
    for (const Instant when : {runner.safe_until, runner.overtaken_until}) {
      if (when > now_) {
        next = std::min(next, when);
      } else if (when != Instant::Never()) {
        next = std::min(next, now_ + policy_.review);  // shares drift
      }
    }
  }
  return next;
}

}  // namespace tide
