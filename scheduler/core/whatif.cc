#include "scheduler/core/whatif.h"

#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/fnv1a.h"
#include "scheduler/core/policy/estimate.h"
#include "scheduler/core/policy/estimate_text.h"
#include "scheduler/core/policy/quota.h"
#include "scheduler/core/policy/reasons.h"
#include "scheduler/core/step.h"

namespace tide {
namespace {

void FillLayout(const ClusterState& state, const std::vector<NodeId>& nodes, JobPlan& plan) {
  std::vector<uint32_t> zones;
  for (const NodeId id : nodes) {
    const NodeIdentity& node = state.nodes[id.value()].identity;
    if (plan.layout.empty() || plan.layout.back().zone != node.zone ||
        plan.layout.back().leaf != node.leaf) {
      plan.layout.push_back({node.zone, node.leaf, {}});
    }
    plan.layout.back().nodes.push_back(node.name);
    zones.push_back(state.fabric.ZoneIndexOf(id));
  }
  if (state.fabric.Crosses(nodes)) {
    plan.cross_zone_pairs = CountCrossZonePairs(zones);
  }
}

PlannedVictim DescribeVictim(const Job& job, Instant now) {
  PlannedVictim victim{job.id, job.spec->name, job.user, job.spec->priority, job.spec->nodes, {}};
  if (const auto* saving = std::get_if<Saving>(&job.phase)) {
    victim.notice = saving->deadline - now;
  }
  return victim;
}

void FillReasons(const ReasonList& reasons, const Job& job, JobPlan& plan) {
  for (const Reason& reason : reasons) {
    const ReasonText text = DescribeReason(job, reason);
    plan.reasons.push_back({text.code, text.message, text.remedy});
  }
}

// Without what time alone changes.
uint64_t HashOf(const JobPlan& plan) {
  Fnv1a hash;
  hash.Add(static_cast<uint64_t>(plan.verdict));
  hash.Add(plan.opportunistic ? 1U : 0U);
  hash.Add(plan.borrows ? 1U : 0U);
  for (const PlannedLeaf& leaf : plan.layout) {
    hash.Add(leaf.zone);
    hash.Add(leaf.leaf);
    for (const std::string& node : leaf.nodes) {
      hash.Add(node);
    }
  }
  if (plan.part) {
    hash.Add(plan.part->gpus);
    hash.Add(plan.part->cpus);
    hash.Add(plan.part->memory_bytes);
    hash.Add(plan.part->devices);
  }
  for (const PlannedVictim& victim : plan.victims) {
    hash.Add(victim.job.value());
  }
  for (const PlannedReason& reason : plan.reasons) {
    hash.Add(reason.code);
  }
  return hash.value();
}

}  // namespace

Result<JobPlan> PlanJob(ClusterState copy,
                        const Policy& policy,
                        const JobSpec& spec,
                        const std::string& user,
                        Instant now) {
  const JobId id(copy.next_job_id);
  JobSpec first = spec;
  first.count = 1;  // of an array: its elements are alike, and submitted one after the other
  const Event submitted{now, JobSubmitted{id, std::move(first), user, ""}};
  const StepResult step = Step(copy, {&submitted, 1}, policy, now);
  TIDE_TRY(step.results.front());
  const Job& job = copy.jobs.at(id);
  Quotas quotas(copy, copy.fabric, policy, now);
  JobPlan plan;
  plan.quotas = quotas.RowsFor(job);
  if (const Allocation* allocation = AllocationOf(job)) {
    plan.verdict = PlanVerdict::kStarts;
    plan.part = allocation->part;
    plan.opportunistic = job.attempts.back().opportunistic;
    plan.borrows = quotas.StandingOf(job.id) == Standing::kBorrows;
    FillLayout(copy, allocation->nodes, plan);
  } else {
    const auto* queued = std::get_if<Queued>(&job.phase);
    TIDE_CHECK(queued != nullptr, "a job that was submitted this moment waits or starts");
    if (queued->claim) {
      plan.verdict = PlanVerdict::kPreempts;
      plan.part = queued->claim->part;
      plan.borrows = quotas.Check(job) == Standing::kBorrows;
      FillLayout(copy, queued->claim->nodes, plan);
      for (const JobId victim : queued->claim->victims) {
        plan.victims.push_back(DescribeVictim(copy.jobs.at(victim), now));
      }
    }
    if (const auto reasons = step.explanations.Of(copy, job.id)) {
      FillReasons(*reasons, job, plan);
    }
    if (const auto estimate = EstimateStart(copy, copy.fabric, policy, now, id)) {
      plan.estimate = DescribeEstimate(*estimate);
    }
  }
  plan.hash = HashOf(plan);
  return plan;
}

}  // namespace tide
