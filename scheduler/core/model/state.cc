#include "scheduler/core/model/state.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/spec/gpu_model.h"
#include "scheduler/core/model/index.h"

namespace tide {
namespace {

void InsertSorted(std::vector<JobId>& ids, JobId id) {
  ids.insert(std::lower_bound(ids.begin(), ids.end(), id), id);
}

void Subtract(Part& room, const Part& taken) {
  room.gpus -= std::min(room.gpus, taken.gpus);
  room.cpus -= std::min(room.cpus, taken.cpus);
  room.memory_bytes -= std::min(room.memory_bytes, taken.memory_bytes);
  room.devices &= ~taken.devices;
}

}  // namespace

const Job* ClusterState::FindJob(JobId id) const {
  const auto it = jobs.find(id);
  return it == jobs.end() ? nullptr : &it->second;
}

const Node* ClusterState::FindNode(NodeId id) const {
  return id.value() < nodes.size() ? &nodes[id.value()] : nullptr;
}

const Node* ClusterState::FindNode(const std::string& name) const {
  const auto it = node_by_name.find(name);
  return it == node_by_name.end() ? nullptr : FindNode(it->second);
}

void RefreshFabric(ClusterState& state) {
  if (state.fabric_stale) {
    state.fabric = BuildFabric(state.nodes);
    state.fabric_stale = false;
    IndexCrossing(state);
  }
}

void Occupy(NodeUses& uses, const Job& job, uint32_t task, const Allocation& allocation) {
  NodeUse& use = uses[allocation.nodes[task].value()];
  const Occupant occupant{job.id, task};
  use.tasks.insert(
      std::lower_bound(use.tasks.begin(),
                       use.tasks.end(),
                       occupant,
                       [](const Occupant& a, const Occupant& b) { return a.job < b.job; }),
      occupant);
  if (!allocation.part) {
    use.whole = true;
    return;
  }
  use.taken.gpus += allocation.part->gpus;
  use.taken.cpus += allocation.part->cpus;
  use.taken.memory_bytes += allocation.part->memory_bytes;
  use.taken.devices |= allocation.part->devices;
}

void Vacate(NodeUses& uses, const Job& job, uint32_t task, const Allocation& allocation) {
  NodeUse& use = uses[allocation.nodes[task].value()];
  std::erase(use.tasks, Occupant{job.id, task});
  if (!allocation.part) {
    use.whole = false;
  } else {
    Subtract(use.taken, *allocation.part);
  }
}

void AddClaim(NodeUses& uses, JobId job, const Claim& claim) {
  for (const NodeId node : claim.nodes) {
    InsertSorted(uses[node.value()].claimants, job);
  }
}

void RemoveClaim(NodeUses& uses, JobId job, const Claim& claim) {
  for (const NodeId node : claim.nodes) {
    std::erase(uses[node.value()].claimants, job);
  }
}

const Claim& ClaimOf(const ClusterState& state, JobId job) {
  const auto& claim = std::get<Queued>(state.jobs.at(job).phase).claim;
  TIDE_CHECK(claim.has_value(), "who is named as a claimant has a claim");
  return *claim;
}

std::optional<Part> RoomOn(const ClusterState& state, NodeId node, JobId job) {
  const NodeUse& use = state.uses[node.value()];
  if (use.whole) {
    return std::nullopt;
  }
  Part room = FullPart(state.nodes[node.value()].identity.capacity);
  Subtract(room, use.taken);
  for (const JobId claimant : use.claimants) {
    if (claimant == job) {
      continue;
    }
    const Claim& claim = ClaimOf(state, claimant);
    if (!claim.part) {
      return std::nullopt;
    }
    Subtract(room, *claim.part);
  }
  return room;
}

namespace {

// More than any node has, and any job may want.
constexpr uint32_t kUntoldCpus = 1U << 20U;
constexpr uint64_t kUntoldMemory = uint64_t{1} << 50U;

}  // namespace

Part FullPart(const NodeCapacity& capacity) {
  const uint32_t gpus = std::min(capacity.gpus, kGpusPerNodeMax);
  const uint64_t all = gpus == kGpusPerNodeMax ? ~uint64_t{0} : (uint64_t{1} << gpus) - 1;
  return {gpus,
          capacity.cpus == 0 ? kUntoldCpus : capacity.cpus,
          capacity.memory_bytes == 0 ? kUntoldMemory : capacity.memory_bytes,
          all};
}

bool Covers(const Part& room, const Part& wanted) {
  return room.gpus >= wanted.gpus && room.cpus >= wanted.cpus &&
         room.memory_bytes >= wanted.memory_bytes &&
         static_cast<uint32_t>(std::popcount(room.devices)) >= wanted.gpus &&
         (wanted.devices & ~room.devices) == 0;
}

Part CapacityFor(const NodeCapacity& capacity, const JobSpec& spec) {
  Part has = FullPart(capacity);
  has.cpus = capacity.cpus == 0 ? spec.cpus_per_node : capacity.cpus;
  has.memory_bytes =
      capacity.memory_bytes == 0 ? spec.memory_bytes_per_node : capacity.memory_bytes;
  return has;
}

bool IsOfItsKind(const NodeCapacity& capacity, const JobSpec& spec) {
  return IsModel(capacity.gpu_model, spec.gpu_model) &&
         (capacity.disk_bytes == 0 || capacity.disk_bytes >= spec.disk_bytes_per_node);
}

bool CanHold(const NodeCapacity& capacity, const JobSpec& spec) {
  const Part has = CapacityFor(capacity, spec);
  return IsOfItsKind(capacity, spec) && has.gpus >= spec.gpus_per_node &&
         has.cpus >= spec.cpus_per_node && has.memory_bytes >= spec.memory_bytes_per_node;
}

bool AllCanHold(const FabricGroup& group, const JobSpec& spec) {
  return IsModel(group.smallest.gpu_model, spec.gpu_model) &&
         group.smallest.gpus >= spec.gpus_per_node && group.smallest.cpus >= spec.cpus_per_node &&
         group.smallest.memory_bytes >= spec.memory_bytes_per_node &&
         group.smallest.disk_bytes >= spec.disk_bytes_per_node;
}

std::optional<Part> PartOf(const JobSpec& spec, const NodeCapacity& capacity) {
  if (spec.nodes != 1 || (spec.gpus_per_node == 0 && spec.cpus_per_node == 0)) {
    return std::nullopt;
  }
  const uint32_t gpus = spec.gpus_per_node;
  if (gpus >= capacity.gpus && capacity.gpus > 0 && gpus > 0) {
    return std::nullopt;  // all of them
  }
  if (capacity.gpus == 0 && (gpus > 0 || spec.cpus_per_node >= capacity.cpus)) {
    return std::nullopt;
  }
  Part part;
  part.gpus = gpus;
  part.cpus = spec.cpus_per_node;
  part.memory_bytes = spec.memory_bytes_per_node;
  // The share that follows: of the GPUs if it has any, else of the CPUs.
  const uint64_t share = gpus > 0 ? gpus : spec.cpus_per_node;
  const uint64_t of = gpus > 0 ? capacity.gpus : capacity.cpus;
  if (of == 0) {
    return part;  // of CPUs that it does not tell
  }
  if (part.cpus == 0) {
    part.cpus = static_cast<uint32_t>(capacity.cpus * share / of);
  }
  if (part.memory_bytes == 0) {
    part.memory_bytes = capacity.memory_bytes / of * share;
  }
  return part;
}

namespace {

// `uses` from scratch.
NodeUses CountUses(const ClusterState& state, const JobList& jobs) {
  NodeUses uses(state.nodes.size());
  for (const Job* job : jobs) {
    if (const auto* queued = std::get_if<Queued>(&job->phase); queued != nullptr && queued->claim) {
      AddClaim(uses, job->id, *queued->claim);
    }
    if (const Allocation* allocation = AllocationOf(*job)) {
      for (uint32_t task = 0; task < allocation->nodes.size(); ++task) {
        if (job->attempts.back().tasks[task].state != TaskState::kExited) {
          Occupy(uses, *job, task, *allocation);
        }
      }
    }
  }
  return uses;
}

// `accounts` from the attempts that are on record.
void CountAccounts(ClusterState& state, const JobList& jobs) {
  struct Change {
    Instant at;
    const Job* job;
    int64_t gpus;
  };
  std::vector<Change> changes;
  for (const Job* job : jobs) {
    for (const Attempt& attempt : job->attempts) {
      changes.push_back({attempt.placed_at, job, ChargedGpus(job->spec)});
      if (attempt.released_at.is_set()) {
        changes.push_back({attempt.released_at, job, -ChargedGpus(job->spec)});
      }
    }
  }
  std::stable_sort(
      changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.at < b.at; });
  state.accounts.clear();
  for (const Change& change : changes) {
    AccountOf(state, *change.job).Change(change.gpus, change.at, state.share_half_life);
  }
  for (const auto& [owner, used] : state.archived_use) {
    const uint32_t number = state.owners.Add(owner.first, owner.second);
    state.accounts.resize(state.owners.size());
    state.accounts[number].Add(used.lately, state.share_half_life);
  }
}

}  // namespace

uint32_t OwnerOf(ClusterState& state, const Job& job) {
  const uint32_t owner = state.owners.Add(job.spec->project, job.user);
  state.accounts.resize(state.owners.size());
  return owner;
}

Account& AccountOf(ClusterState& state, const Job& job) {
  return state.accounts[OwnerOf(state, job)];
}

Account UseOf(const Job& job, Duration half_life) {
  Account used;
  for (const Attempt& attempt : job.attempts) {
    used.Change(ChargedGpus(job.spec), attempt.placed_at, half_life);
    used.Change(-ChargedGpus(job.spec), attempt.released_at, half_life);
  }
  return used;
}

JobList ListJobs(const ClusterState& state) {
  JobList jobs;
  jobs.reserve(state.jobs.size());
  for (const auto& [id, job] : state.jobs) {
    jobs.push_back(&job);
  }
  return jobs;
}

void RebuildDerived(ClusterState& state) {
  RebuildDerived(state, ListJobs(state));
}

void RebuildDerived(ClusterState& state, const JobList& jobs) {
  state.node_by_name.clear();
  state.job_by_key.clear();
  state.owners = Owners();
  state.groups = Names();
  state.run_history = RunHistory();
  for (const Node& node : state.nodes) {
    state.node_by_name[node.identity.name] = node.id;
  }
  for (const auto& [id, owned] : state.archived_runs) {
    (void)state.run_history.Add(owned);
  }
  for (const Job* job : jobs) {
    if (!job->idempotency_key.empty()) {
      state.job_by_key[job->idempotency_key] = job->id;
    }
    const bool finished = StateOf(*job) == JobState::kFinished;
    if (const auto owned = finished ? RunOf(*job, job->state_since) : std::nullopt) {
      (void)state.run_history.Add(*owned);
    }
  }
  state.dependencies = CountDependencies(state, jobs);
  state.uses = CountUses(state, jobs);
  CountAccounts(state, jobs);
  state.open_incidents = CountIncidents(state.incidents);
  state.fabric_stale = true;
  RebuildIndexes(state, jobs);
  RefreshFabric(state);
}

namespace {

std::optional<std::string> CheckAllocation(const Job& job) {
  const Allocation* allocation = AllocationOf(job);
  if (allocation == nullptr) {
    return std::nullopt;
  }
  const std::string name = FormatJobName(job.id.value());
  if (allocation->nodes.size() != job.spec->nodes) {
    return "I2: the gang of " + name + " is not whole";
  }
  std::vector<NodeId> distinct = allocation->nodes;
  std::sort(distinct.begin(), distinct.end());
  if (std::adjacent_find(distinct.begin(), distinct.end()) != distinct.end()) {
    return "I2: " + name + " has a node twice";
  }
  if (allocation->part &&
      (allocation->nodes.size() != 1 ||
       static_cast<uint32_t>(std::popcount(allocation->part->devices)) != allocation->part->gpus)) {
    return "I2: " + name + " has a part that is not whole";
  }
  return std::nullopt;
}

// What the tasks of one node take together, counted from scratch.
std::optional<std::string> CheckUse(const ClusterState& state, NodeId node) {
  const NodeUse& use = state.uses[node.value()];
  const NodeCapacity& capacity = state.nodes[node.value()].identity.capacity;
  const std::string name = "node " + std::to_string(node.value());
  Part sum;
  for (const Occupant& occupant : use.tasks) {
    const auto& part = AllocationOf(state.jobs.at(occupant.job))->part;
    if (!part) {
      if (use.tasks.size() != 1) {
        return "I1: two live tasks on " + name;
      }
      continue;
    }
    if ((sum.devices & part->devices) != 0) {
      return "I1: a GPU of " + name + " has two tasks";
    }
    sum.devices |= part->devices;
    sum.gpus += part->gpus;
    sum.cpus += part->cpus;
    sum.memory_bytes += part->memory_bytes;
  }
  // A node may come back with less than it had: what runs there stays.
  if (use.tasks.size() > 1 && sum.gpus > capacity.gpus) {
    return "I1: the tasks on " + name + " take more than it has";
  }
  if (sum != use.taken) {
    return "I1: uses do not mirror the parts on " + name;
  }
  for (const JobId claimant : use.claimants) {
    if (!ClaimOf(state, claimant).part && use.claimants.size() != 1) {
      return "I3: " + name + " is claimed twice";
    }
  }
  return std::nullopt;
}

std::optional<std::string> CheckLedger(const Job& job) {
  const int64_t counted = job.ledger.held.Total();
  const int64_t held = HeldGpuMs(job);
  if (counted != held) {
    return "I7: the classes of " + FormatJobName(job.id.value()) + " add up to " +
           std::to_string(counted) + " GPU-ms, and it held " + std::to_string(held);
  }
  const int64_t open = job.ledger.held[GpuUse::kUnsaved] + job.ledger.held[GpuUse::kUnclear];
  if (AllocationOf(job) == nullptr && (open != 0 || job.ledger.gpus != 0)) {
    return "I7: " + FormatJobName(job.id.value()) + " holds nothing, and its ledger is open";
  }
  return std::nullopt;
}

std::optional<std::string> CheckArchived(const ClusterState& state) {
  for (const auto& [id, owned] : state.archived_runs) {
    if (state.jobs.contains(id) || owned.run.job != id || !state.run_history.Has(owned)) {
      return "I6: the past run of " + FormatJobName(id.value()) + " is not that of an archived job";
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> CheckStored(const ClusterState& state, const JobList& jobs) {
  for (const Job* job : jobs) {
    if (auto broken = CheckAllocation(*job)) {
      return broken;
    }
    const bool live = AllocationOf(*job) != nullptr;
    const bool attempt_open = !job->attempts.empty() && !job->attempts.back().released_at.is_set();
    if (live != attempt_open) {
      return "I4: attempt and phase of " + FormatJobName(job->id.value()) + " disagree";
    }
  }
  for (const Node& node : state.nodes) {
    if (auto broken = CheckUse(state, node.id)) {
      return broken;
    }
  }
  return CheckArchived(state);
}

namespace {

std::optional<std::string> CheckPeers(const ClusterState& state) {
  std::set<std::pair<NodeId, std::string>> named;
  for (const Node& node : state.nodes) {
    if (!node.peers.empty() && node.state != NodeState::kValidating) {
      return "I8: " + node.identity.name + " has peers and is not being validated";
    }
    for (const NodeId peer : node.peers) {
      named.emplace(peer, node.validation_id);
    }
  }
  for (const Node& node : state.nodes) {
    const IdleTest& test = node.idle_test;
    if (test.as_peer && (!test.running || !named.contains({node.id, test.id}))) {
      return "I8: " + node.identity.name + " is tested as a peer, and no validation has it";
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> CheckInvariants(const ClusterState& state) {
  const JobList jobs = ListJobs(state);
  if (CountDependencies(state, jobs) != state.dependencies) {
    return "I5: the dependencies do not mirror the jobs";
  }
  if (CountUses(state, jobs) != state.uses) {
    return "I1: uses do not mirror the allocations and claims";
  }
  if (auto broken = CheckStored(state, jobs)) {
    return broken;
  }
  for (const Job* job : jobs) {
    if (auto broken = CheckLedger(*job)) {
      return broken;
    }
  }
  if (auto broken = CheckPeers(state)) {
    return broken;
  }
  return CheckIndexes(state);
}

}  // namespace tide
