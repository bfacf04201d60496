#include "scheduler/core/doomed.h"

#include <algorithm>
#include <deque>
#include <set>

namespace tide {
namespace {

// It has ended otherwise than `job` wants.
JobId FailedDependencyOf(const ClusterState& state, const Job& job) {
  const auto failed = std::ranges::find_if(job.spec->after, [&](const Dependency& dependency) {
    return StateOf(state, dependency) == DependencyState::kNever;
  });
  return failed->job;
}

}  // namespace

void CollectDoomed(const ClusterState& state, Decision& decision) {
  std::set<JobId> ends = state.dependencies.doomed;
  std::deque<JobId> next;
  for (const JobId id : ends) {
    decision.proposals.emplace_back(
        DependencyFailed{id, FailedDependencyOf(state, state.jobs.at(id))});
    next.push_back(id);
  }
  // Those that wait for the success of what is cancelled now.
  const auto add_dependents = [&](Awaited awaited) {
    const auto dependents = state.dependencies.dependents.find(awaited);
    if (dependents == state.dependencies.dependents.end()) {
      return;
    }
    for (const JobId id : dependents->second) {
      const auto& after = state.jobs.at(id).spec->after;
      const auto on = std::ranges::find(after, awaited.first, &Dependency::job)->on;
      if (on == AfterOutcome::kSuccess && ends.insert(id).second) {
        decision.proposals.emplace_back(DependencyFailed{id, awaited.first});
        next.push_back(id);
      }
    }
  };
  for (; !next.empty(); next.pop_front()) {
    add_dependents({next.front(), false});
    if (const JobId array = state.jobs.at(next.front()).array; array != JobId()) {
      add_dependents({array, true});
    }
  }
}

void ExplainBlocked(const ClusterState& state, Decision& decision) {
  Blocked told;
  ReasonList reasons;
  for (const auto& [id, blocked] : state.dependencies.blocked) {
    if (reasons.empty() || blocked != told) {
      told = blocked;
      reasons = ReasonList(
          {{.code = ReasonCode::kHeldDependency, .other = blocked.first, .count = blocked.open}});
    }
    decision.explanations.Add(id, reasons);
  }
}

}  // namespace tide
