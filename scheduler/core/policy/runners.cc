#include "scheduler/core/policy/runners.h"

#include <algorithm>
#include <tuple>

#include "scheduler/core/policy/replacement.h"

namespace tide {
namespace {

// Nobody waits longer for his turn than for those that overtook him.
Duration MostPatience(const Policy& policy) {
  return std::max(policy.patience, policy.overtaken_wait);
}

// Doubled each time that the job gave way to another: so a long job is not cut into slices by one
// short job after the other.
Duration PatienceBefore(const LiveJob& job, const Policy& policy) {
  Duration patience = policy.patience;
  for (uint32_t i = 0; i < job.gave_way && patience < MostPatience(policy); ++i) {
    patience = patience * 2;
  }
  return std::min(patience, MostPatience(policy));
}

bool ComesFirst(const Job& waiting, const LiveJob& running) {
  return std::tuple(waiting.queue_rank, waiting.id) < std::tuple(running.rank, running.id);
}

// In the order of their owner, or because its owner used no more.
bool StandsBefore(const Contender& waiting, const LiveJob& running, int64_t use) {
  return waiting.owner == running.owner ? ComesFirst(*waiting.job, running) : waiting.use <= use;
}

// Says whether its nodes came free while the other waited for more, and were only lent to it. Who
// waited longer itself before it had them is not a newcomer that slipped past.
bool WereLent(const Contender& waiting,
              const LiveJob& running,
              int64_t use,
              const Policy& policy,
              Instant now) {
  return running.opportunistic && running.gpus < ChargedGpus(waiting.job->spec) &&
         IsReservedFor(waiting.job->state_since + running.waited, policy, now) &&
         StandsBefore(waiting, running, use);
}

// By a runner that started out of order and has had its time.
bool WasOvertaken(const Contender& waiting,
                  const Runner& runner,
                  int64_t use,
                  const Policy& policy,
                  Instant now) {
  // A fault costs nobody his place: who waits because of one has its nodes back without waiting.
  const bool after_fault = GoesOnAfterFault(*waiting.job);
  // Who waited as long is not a newcomer that slipped past: else two that used alike take the same
  // nodes from each other, again and again.
  const bool waited =
      after_fault ||
      (waiting.job->state_since + policy.overtaken_wait + runner.job->waited <= now &&
       runner.earned_until <= now);
  if (!waited) {
    return false;
  }
  return StandsBefore(waiting, *runner.job, use) ||
         (after_fault && waiting.owner != runner.job->owner);
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

bool IsReservedFor(Instant since, const Policy& policy, Instant now) {
  return since + policy.gang_wait <= now;
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

Right RightTo(const Contender& waiting,
              const Runner& runner,
              int64_t use,
              const Policy& policy,
              Instant now) {
  const LiveJob& running = *runner.job;
  if (runner.priority != waiting.priority) {
    return runner.priority < waiting.priority ? Right::kClass : Right::kNone;
  }
  const bool overtook = waiting.job->state_since <= running.placed_at;
  // Guaranteed nodes are not lent out again.
  const bool guaranteed =
      waiting.standing == Standing::kBorrows && runner.standing == Standing::kWithin;
  if (overtook && !guaranteed && WereLent(waiting, running, use, policy, now)) {
    return Right::kReserved;
  }
  if (runner.overtaken_until <= now && overtook &&
      WasOvertaken(waiting, runner, use, policy, now)) {
    return Right::kOvertaken;
  }
  if (waiting.standing == Standing::kWithin && runner.reclaimed_until <= now) {
    return running.user == waiting.user ? Right::kNone : Right::kQuota;
  }
  const bool patient = waiting.job->state_since + runner.patience > now;
  if (patient || runner.safe_until > now || guaranteed || running.user == waiting.user) {
    return Right::kNone;
  }
  const int64_t gpus = std::min(ChargedGpus(waiting.job->spec), running.gpus);
  return IsFarBelow(waiting.use, use, runner.weight, gpus, policy) ? Right::kTurn : Right::kNone;
}

std::string WhyItLeaves(const Contender& waiting, Right right) {
  const std::string why = "gives its nodes to " + FormatJobName(waiting.job->id.value()) + " (" +
                          PriorityName(waiting.priority) + ")";
  return right == Right::kReserved ? why + ", which has waited for more since before it started"
                                   : why;
}

Runners::Runners(const ClusterState& state,
                 const Policy& policy,
                 const Shares& shares,
                 const Quotas& quotas,
                 Instant now)
    : policy_(policy), now_(now) {
  runners_.reserve(state.runners.all().size());
  for (const LiveJob& job : state.runners.all()) {
    Runner& runner = runners_.emplace_back();
    const Duration cost = CostOfSuspension(job, policy);
    runner.job = &job;
    runner.priority = quotas.ClassOf(job);
    runner.standing = quotas.StandingOf(job.id);
    runner.use = shares.UseOf(job.owner);
    runner.weight = shares.PathWeightOf(job.owner);
    runner.loss = cost.millis() * job.gpus;
    runner.loss_per_gpu = cost.millis();
    runner.patience = PatienceBefore(job, policy);
    runner.safe_until = Instant::Never();
    runner.earned_until = Instant::Never();
    runner.overtaken_until = Instant::Never();
    runner.reclaimed_until = Instant::Never();
    if (job.running_at.is_set()) {
      runner.earned_until = job.running_at + EarnedBy(job.waited, policy);
      runner.safe_until = std::max(job.running_at + SliceOf(cost, policy), runner.earned_until);
      if (runner.standing <= Standing::kBorrows) {
        runner.reclaimed_until = job.running_at + policy.minimum_run;
      }
    }
    if (job.opportunistic) {
      runner.overtaken_until = job.placed_at + policy.minimum_run;
    }
    next_demotion_ =
        std::min(next_demotion_, tide::NextDemotion(runner.priority, job, policy, now));
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

Instant Runners::NextChange(int32_t priority) const {
  Instant next = Instant::Never();
  for (const Runner& runner : runners_) {
    if (runner.job->leaving || runner.priority != priority) {
      continue;
    }
    if (runner.reclaimed_until > now_) {
      next = std::min(next, runner.reclaimed_until);
    }
    if (runner.job->opportunistic) {
      next = std::min(next, now_ + policy_.review);  // a reservation depends on shares
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
