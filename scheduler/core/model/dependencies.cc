#include "scheduler/core/model/dependencies.h"

#include <algorithm>
#include <utility>

#include "common/spec/dependency_text.h"
#include "scheduler/core/model/index.h"
#include "scheduler/core/model/state.h"

namespace tide {
namespace {

std::string Name(JobId job) {
  return FormatJobName(job.value());
}

bool HasSucceeded(const Job& job) {
  const auto* finished = std::get_if<Finished>(&job.phase);
  return finished != nullptr && finished->outcome == Outcome::kSucceeded;
}

DependencyState JudgeEnd(AfterOutcome on, bool succeeded) {
  const bool met = on == AfterOutcome::kAny || succeeded == (on == AfterOutcome::kSuccess);
  return met ? DependencyState::kMet : DependencyState::kNever;
}

// Of the dependencies, only the arrays are looked at: the rest may not be there yet.
DependencyState Judge(const ClusterState& state,
                      const Dependencies& dependencies,
                      const Dependency& dependency) {
  if (dependency.array) {
    const auto found = dependencies.arrays.find(dependency.job);
    if (found == dependencies.arrays.end()) {
      return DependencyState::kNever;
    }
    const auto& [left, failed] = found->second;
    if (dependency.on == AfterOutcome::kSuccess && failed > 0) {
      return DependencyState::kNever;
    }
    return left > 0 ? DependencyState::kOpen : JudgeEnd(dependency.on, failed == 0);
  }
  const Job* awaited = state.FindJob(dependency.job);
  if (awaited == nullptr) {
    return DependencyState::kNever;
  }
  return std::holds_alternative<Finished>(awaited->phase)
             ? JudgeEnd(dependency.on, HasSucceeded(*awaited))
             : DependencyState::kOpen;
}

bool MayBeBlocked(const Job& job) {
  return !job.spec->after.empty() && job.attempts.empty() &&
         std::holds_alternative<Queued>(job.phase);
}

// Enters `job` as it stands now.
void Enter(const ClusterState& state, const Job& job, Dependencies& dependencies) {
  Blocked blocked;
  bool never = false;
  for (const Dependency& dependency : job.spec->after) {
    switch (Judge(state, dependencies, dependency)) {
      case DependencyState::kOpen:
        blocked.first = blocked.open == 0 ? dependency.job : blocked.first;
        ++blocked.open;
        dependencies.dependents[{dependency.job, dependency.array}].insert(job.id);
        break;
      case DependencyState::kMet:
        break;
      case DependencyState::kNever:
        never = true;
        break;
    }
  }
  if (blocked.open > 0 || never) {
    dependencies.blocked.emplace(job.id, blocked);
  }
  if (never) {
    dependencies.doomed.insert(job.id);
  }
}

void Erase(Dependencies& dependencies, const Job& job) {
  if (dependencies.blocked.erase(job.id) == 0) {
    return;
  }
  dependencies.doomed.erase(job.id);
  for (const Dependency& dependency : job.spec->after) {
    const auto awaited = dependencies.dependents.find({dependency.job, dependency.array});
    if (awaited != dependencies.dependents.end() && awaited->second.erase(job.id) > 0 &&
        awaited->second.empty()) {
      dependencies.dependents.erase(awaited);
    }
  }
}

// Whom the end of `awaited` keeps back no longer.
void Resettle(ClusterState& state, Awaited awaited, Instant at) {
  const auto ended = state.dependencies.dependents.extract(awaited);
  if (ended.empty()) {
    return;
  }
  for (const JobId id : ended.mapped()) {
    Job& dependent = state.jobs.at(id);
    Erase(state.dependencies, dependent);
    Enter(state, dependent, state.dependencies);
    if (!state.dependencies.blocked.contains(id)) {
      dependent.state_since = at;  // from now on it waits for nodes
      state.changed.jobs.insert(id);
    }
    TouchJob(state, id);
  }
}

}  // namespace

DependencyState StateOf(const ClusterState& state, const Dependency& dependency) {
  return Judge(state, state.dependencies, dependency);
}

std::string DescribeNeverMet(const ClusterState& state, const Dependency& dependency) {
  const Job* awaited = state.FindJob(dependency.job);
  if (dependency.array) {
    return FormatAwaited(dependency) +
           (dependency.on == AfterOutcome::kFailure
                ? " succeeded as a whole, and this job runs only after a failure in it"
                : " has an element that failed or was cancelled, and this job runs only after the "
                  "success of all");
  }
  const auto* finished = awaited == nullptr ? nullptr : std::get_if<Finished>(&awaited->phase);
  if (finished == nullptr) {
    return Name(dependency.job) + " is not known any more, and this job was to run after it";
  }
  if (dependency.on == AfterOutcome::kFailure) {
    return Name(dependency.job) + " succeeded, and this job runs only after its failure";
  }
  return Name(dependency.job) +
         (finished->outcome == Outcome::kCancelled ? " was cancelled" : " failed") +
         ", and this job runs only after its success";
}

Status CheckDependencies(const ClusterState& state, const JobSpec& spec) {
  for (const Dependency& dependency : spec.after) {
    const std::string name = FormatAwaited(dependency);
    const Job* awaited = state.FindJob(dependency.job);
    if (awaited == nullptr) {
      return Fail(ErrorCode::kNotFound, "after: " + name + ": no such job; see `tide ps --all`");
    }
    if (dependency.array && awaited->array == awaited->id &&
        !state.dependencies.arrays.contains(awaited->id)) {
      return Fail(ErrorCode::kNotFound,
                  "after: " + name + ": all of it ended long ago, and some of it is archived");
    }
    if (dependency.array && !state.dependencies.arrays.contains(awaited->id)) {
      return Fail(ErrorCode::kNotFound,
                  "after: " + name + ": " + Name(awaited->id) + " begins no array" +
                      (awaited->array == JobId() ? "" : "; " + Name(awaited->array) + " does"));
    }
    if (StateOf(state, dependency) == DependencyState::kNever) {
      return Fail(ErrorCode::kNeverFits,
                  "after: " + DescribeNeverMet(state, dependency) +
                      "; leave it out, or wait for any end: {job: " + name + ", on: any}");
    }
  }
  return {};
}

void AddDependent(ClusterState& state, const Job& job) {
  if (MayBeBlocked(job)) {
    Enter(state, job, state.dependencies);
  }
}

void RemoveDependent(ClusterState& state, const Job& job) {
  if (!job.spec->after.empty()) {
    Erase(state.dependencies, job);
  }
}

void AddArray(ClusterState& state, JobId first, uint32_t count) {
  state.dependencies.arrays[first] = {count, 0};
}

void SettleDependents(ClusterState& state, const Job& job, Instant at) {
  Resettle(state, {job.id, false}, at);
  const auto found = state.dependencies.arrays.find(job.array);
  if (found == state.dependencies.arrays.end()) {
    return;
  }
  ArrayTally& tally = found->second;
  const bool first_failure = !HasSucceeded(job) && ++tally.failed == 1;
  if (--tally.left == 0 || first_failure) {
    Resettle(state, {job.array, true}, at);
  }
}

Dependencies CountDependencies(const ClusterState& state, const JobList& jobs) {
  Dependencies dependencies;
  std::map<JobId, uint32_t> archived;
  for (const Job* job : jobs) {
    if (job->array != JobId()) {
      --archived.try_emplace(job->array, job->spec->count).first->second;
      ArrayTally& tally = dependencies.arrays[job->array];
      const bool ended = std::holds_alternative<Finished>(job->phase);
      tally.left += ended ? 0 : 1;
      tally.failed += ended && !HasSucceeded(*job) ? 1 : 0;
    }
  }
  std::erase_if(dependencies.arrays,
                [&](const auto& array) { return archived.at(array.first) > 0; });
  for (const Job* job : jobs) {
    if (MayBeBlocked(*job)) {
      Enter(state, *job, dependencies);
    }
  }
  return dependencies;
}

}  // namespace tide
