#include "scheduler/core/model/index.h"

#include <set>
#include <utility>

namespace tide {
namespace {

void SetMember(std::set<JobId>& set, JobId job, bool member) {
  if (member) {
    set.insert(set.end(), job);  // mostly the newest one; all in their order after a load
  } else {
    set.erase(job);
  }
}

// Plainly running jobs wait for nothing but what their agents say.
bool IsRestless(const Job& job) {
  return AllocationOf(job) != nullptr &&
         (StateOf(job) != JobState::kRunning || job.spec->max_runtime.nanos() > 0 ||
          FirstLeftAt(job.attempts.back()).is_set());
}

bool Claims(const Job& job) {
  const auto* queued = std::get_if<Queued>(&job.phase);
  return queued != nullptr && queued->claim.has_value();
}

// Of a live job. A stale fabric knows nothing; all are looked at again when it is fresh.
bool Crosses(const ClusterState& state, const Job& job) {
  return job.spec->nodes > 1 && !state.fabric_stale &&
         state.fabric.Crosses(AllocationOf(job)->nodes);
}

bool MayBeLookedAt(const ClusterState& state, const Job& job) {
  return StateOf(job) == JobState::kQueued && !state.dependencies.blocked.contains(job.id);
}

void IndexJob(ClusterState& state, const Job& job) {
  const bool waits = MayBeLookedAt(state, job);
  const uint32_t owner = OwnerOf(state, job);
  if (waits) {
    state.queue.Put(job, owner);
  } else if (state.waiting.contains(job.id)) {
    state.queue.Remove(job, owner);
  }
  SetMember(state.waiting, job.id, waits);
  SetMember(state.claiming, job.id, Claims(job));
  const bool live = AllocationOf(job) != nullptr;
  if (live && !state.live.contains(job.id)) {
    SetMember(state.crossing, job.id, Crosses(state, job));
  } else if (!live) {
    state.crossing.erase(job.id);
  }
  SetMember(state.live, job.id, live);
  if (live) {
    const uint32_t group = state.groups.Add(job.spec->group);
    state.runners.Put(job, owner, state.owners.UserNumber(owner), group);
  } else {
    state.runners.Remove(job.id);
  }
  SetMember(state.restless, job.id, IsRestless(job));
  SetMember(state.held, job.id, StateOf(job) == JobState::kHeld);
  IndexCheckpointFolder(state.checkpoint_folders, job);
}

uint8_t FlagsOf(const Node& node, const NodeUse& use) {
  unsigned flags = 0;
  if (TakesWork(node)) {
    flags |= kTakesWork;
  }
  if (use.idle() && use.claimants.empty()) {
    flags |= kUnused;
  } else if (!use.whole) {
    flags |= kHasRoom;
  }
  const bool is_out = node.state == NodeState::kQuarantined || node.state == NodeState::kDrained;
  if (node.state == NodeState::kProbation || (is_out && node.actor == kTideActor) ||
      (node.lost_at.is_set() && !use.idle()) || node.maintenance.begins_at.is_set()) {
    flags |= kTimed;
  }
  if (node.state == NodeState::kDraining && node.actor != kTideActor) {
    flags |= kEvacuated;
  }
  return static_cast<uint8_t>(flags);
}

void IndexNode(ClusterState& state, const Node& node) {
  const NodeUse& use = state.uses[node.id.value()];
  state.node_flags[node.id.value()] = FlagsOf(node, use);
  state.whole_on[node.id.value()] = use.whole ? use.first().job : JobId();
}

bool CheckLine(const ClusterState& state, const Job& job, uint32_t owner) {
  const LiveJob* line = state.runners.Find(job.id);
  const std::optional<uint32_t> group = state.groups.Find(job.spec->group);
  return AllocationOf(job) == nullptr
             ? line == nullptr
             : line != nullptr && group &&
                   *line == LineOf(job, owner, state.owners.UserNumber(owner), *group);
}

}  // namespace

void TouchJob(ClusterState& state, JobId job) {
  state.touched_jobs.push_back(job);
}

void TouchNode(ClusterState& state, NodeId node) {
  state.touched_nodes.push_back(node);
}

void RefreshIndexes(ClusterState& state) {
  state.node_flags.resize(state.nodes.size());
  state.whole_on.resize(state.nodes.size());
  for (const JobId id : std::exchange(state.touched_jobs, {})) {
    const Job& job = state.jobs.at(id);
    IndexJob(state, job);
    IndexFinished(state, job);
  }
  for (const NodeId node : std::exchange(state.touched_nodes, {})) {
    IndexNode(state, state.nodes[node.value()]);
  }
}

void IndexCrossing(ClusterState& state) {
  state.crossing.clear();
  for (const JobId id : state.live) {
    if (Crosses(state, state.jobs.at(id))) {
      state.crossing.insert(id);
    }
  }
}

void RebuildIndexes(ClusterState& state, const JobList& jobs) {
  state.queue = WaitingJobs();
  state.runners = LiveJobs();
  for (std::set<JobId>* set : {&state.waiting,
                               &state.claiming,
                               &state.live,
                               &state.crossing,
                               &state.restless,
                               &state.held}) {
    set->clear();
  }
  state.checkpoint_folders.clear();
  state.touched_jobs.clear();
  state.touched_nodes.clear();
  state.finished = CountFinished(state, jobs);
  for (const Job* job : jobs) {
    IndexJob(state, *job);
  }
  state.node_flags.assign(state.nodes.size(), 0);
  state.whole_on.assign(state.nodes.size(), JobId());
  for (const Node& node : state.nodes) {
    IndexNode(state, node);
  }
}

std::optional<std::string> CheckIndexes(const ClusterState& state) {
  WaitingJobs queue;
  CheckpointFolders folders;
  for (const auto& [id, job] : state.jobs) {
    IndexCheckpointFolder(folders, job);
    const bool waits = MayBeLookedAt(state, job);
    const std::optional<uint32_t> owner = state.owners.Find(job.spec->project, job.user);
    if (!owner) {
      return "the owner of " + FormatJobName(id.value()) + " has no number";
    }
    if (waits) {
      queue.Put(job, *owner);
    }
    if (!CheckLine(state, job, *owner)) {
      return "what decisions read of " + FormatJobName(id.value()) + " is not true";
    }
    if (waits != state.waiting.contains(id) || Claims(job) != state.claiming.contains(id) ||
        (AllocationOf(job) != nullptr) != state.live.contains(id) ||
        IsRestless(job) != state.restless.contains(id) ||
        (StateOf(job) == JobState::kHeld) != state.held.contains(id) ||
        (!state.fabric_stale &&
         (AllocationOf(job) != nullptr && Crosses(state, job)) != state.crossing.contains(id))) {
      return "an index does not mirror " + FormatJobName(id.value());
    }
  }
  if (folders != state.checkpoint_folders) {
    return "the jobs that save in a folder are not those";
  }
  if (CountIncidents(state.incidents) != state.open_incidents) {
    return "the open incidents are not those";
  }
  if (CountFinished(state, ListJobs(state)) != state.finished) {
    return "the finished jobs that may be archived are not those";
  }
  if (state.runners.all().size() != state.live.size()) {
    return "decisions read of jobs that hold no nodes";
  }
  if (!queue.SameJobs(state.owners, state.queue, state.owners)) {
    return "the queue does not mirror the waiting jobs";
  }
  for (const Node& node : state.nodes) {
    const NodeUse& use = state.uses[node.id.value()];
    if (state.node_flags[node.id.value()] != FlagsOf(node, use) ||
        state.whole_on[node.id.value()] != (use.whole ? use.first().job : JobId())) {
      return "the flags of node " + node.identity.name + " are not true";
    }
  }
  return std::nullopt;
}

}  // namespace tide
