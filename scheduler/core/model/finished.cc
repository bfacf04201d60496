#include "scheduler/core/model/finished.h"

#include "scheduler/core/model/state.h"

namespace tide {
namespace {

// It may yet ask how others ended.
bool IsAwaiting(const Job& job) {
  return !job.spec->after.empty() && job.attempts.empty() && StateOf(job) != JobState::kFinished;
}

// Of an element; one of an array that is archived in part has ended with all the others.
bool HasArrayEnded(const ClusterState& state, const Job& job) {
  const auto tally = state.dependencies.arrays.find(job.array);
  return tally == state.dependencies.arrays.end() || tally->second.left == 0;
}

bool IsNeeded(const ClusterState& state, const FinishedJobs& finished, const Job& job) {
  if (finished.awaited.contains({job.id, false})) {
    return true;
  }
  return job.array != JobId() &&
         (!HasArrayEnded(state, job) || finished.awaited.contains({job.array, true}));
}

void Consider(ClusterState& state, const Job& job) {
  if (StateOf(job) != JobState::kFinished) {
    return;
  }
  const std::pair<Instant, JobId> key(job.state_since, job.id);
  if (IsNeeded(state, state.finished, job)) {
    state.finished.oldest.erase(key);
  } else {
    state.finished.oldest.insert(key);
  }
}

// The job, or each element of the array.
void ConsiderAll(ClusterState& state, Awaited awaited) {
  auto it = state.jobs.lower_bound(awaited.first);
  if (!awaited.second) {
    if (it != state.jobs.end() && it->first == awaited.first) {
      Consider(state, it->second);
    }
    return;
  }
  for (; it != state.jobs.end() && it->second.array == awaited.first; ++it) {
    Consider(state, it->second);
  }
}

void Await(ClusterState& state, const Job& job) {
  state.finished.awaiting.insert(job.id);
  for (const Dependency& dependency : job.spec->after) {
    const Awaited awaited(dependency.job, dependency.array);
    if (++state.finished.awaited[awaited] == 1) {
      ConsiderAll(state, awaited);
    }
  }
}

void AwaitNoMore(ClusterState& state, const Job& job) {
  state.finished.awaiting.erase(job.id);
  for (const Dependency& dependency : job.spec->after) {
    const auto awaited = state.finished.awaited.find({dependency.job, dependency.array});
    if (--awaited->second == 0) {
      const Awaited free = awaited->first;
      state.finished.awaited.erase(awaited);
      ConsiderAll(state, free);
    }
  }
}

}  // namespace

bool MayBeArchived(const ClusterState& state, const Job& job) {
  return state.finished.oldest.contains({job.state_since, job.id});
}

void IndexFinished(ClusterState& state, const Job& job) {
  if (!job.spec->after.empty()) {
    const bool awaiting = IsAwaiting(job);
    if (awaiting != state.finished.awaiting.contains(job.id)) {
      awaiting ? Await(state, job) : AwaitNoMore(state, job);
    }
  }
  if (StateOf(job) != JobState::kFinished || MayBeArchived(state, job)) {
    return;
  }
  if (job.array == JobId()) {
    Consider(state, job);
  } else if (HasArrayEnded(state, job)) {
    ConsiderAll(state, {job.array, true});
  }
}

FinishedJobs CountFinished(const ClusterState& state, const JobList& jobs) {
  FinishedJobs finished;
  for (const Job* job : jobs) {
    if (IsAwaiting(*job)) {
      finished.awaiting.insert(job->id);
      for (const Dependency& dependency : job->spec->after) {
        ++finished.awaited[{dependency.job, dependency.array}];
      }
    }
  }
  for (const Job* job : jobs) {
    if (StateOf(*job) == JobState::kFinished && !IsNeeded(state, finished, *job)) {
      finished.oldest.insert({job->state_since, job->id});
    }
  }
  return finished;
}

}  // namespace tide
