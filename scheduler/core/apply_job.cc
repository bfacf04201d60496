// Events about jobs that people or the scheduler cause.

#include <algorithm>
#include <bit>
#include <set>
#include <span>
#include <utility>

#include "common/spec/gpu_model.h"
#include "common/spec/span_text.h"
#include "scheduler/core/apply_internal.h"
#include "scheduler/core/policy/shortage.h"
#include "scheduler/core/policy/size.h"

namespace tide::apply {
namespace {

// The names of groups or zones.
template <typename Parts>
std::string Listed(const Parts& parts) {
  std::string text;
  for (const auto& part : parts) {
    text += (text.empty() ? "" : ", ") + part.name;
  }
  return text;
}

// Describes what no node of the group, or of the zone that the job names, has enough of for a task
// of it, or that none has GPUs of its model or a disk as large; "" = some node has it all.
std::string DescribeShortage(const ClusterState& state, const JobSpec& spec) {
  const bool in_named_zone = IsNamedZone(spec.zone);
  const std::string where =
      "no node of " + (in_named_zone ? "zone " + spec.zone + " of " : "") + "group " + spec.group;
  const Part wanted{spec.gpus_per_node, spec.cpus_per_node, spec.memory_bytes_per_node, 0};
  ShortageSearch search;
  std::set<std::string> models;
  uint64_t largest_disk = 0;
  for (const Node& node : state.nodes) {
    const NodeCapacity& capacity = node.identity.capacity;
    if (node.identity.group != spec.group || node.state == NodeState::kRemoved ||
        (in_named_zone && node.identity.zone != spec.zone)) {
      continue;
    }
    if (!IsModel(capacity.gpu_model, spec.gpu_model)) {
      models.insert(capacity.gpu_model.empty() ? "GPUs of no known model" : capacity.gpu_model);
    } else if (!IsOfItsKind(capacity, spec)) {
      largest_disk = std::max(largest_disk, capacity.disk_bytes);
    } else if (search.Add(CapacityFor(capacity, spec), wanted)) {
      return "";
    }
  }
  if (search.empty() && largest_disk > 0) {
    return "resources.disk_gib: " + where + ModelText(spec) +
           " lets a user's scratch folders hold " +
           DiskText(spec.disk_bytes_per_node, Rounding::kUp) + "; the largest " +
           DiskText(largest_disk, Rounding::kDown);
  }
  if (search.empty() && !models.empty()) {
    std::string known;
    for (const std::string& model : models) {
      known += (known.empty() ? "" : ", ") + model;
    }
    return "resources.gpu_model: " + where + " has GPUs of model \"" + spec.gpu_model +
           "\"; known: " + known;
  }
  const Shortage shortage = search.First();
  return "resources." + FieldOf(shortage.lacking) + ": " + where + KindText(spec) + " has " +
         AmountText(shortage.lacking, shortage.wanted) + "; the largest has " +
         NumberText(shortage.lacking, shortage.largest);
}

// Can the group ever hold this gang? Counts every node that has joined, whatever its state.
Status CheckEverFits(const ClusterState& state, const JobSpec& spec) {
  if (state.fabric.groups.empty()) {
    return Fail(ErrorCode::kUnavailable, "no node has joined this cluster yet; try again shortly");
  }
  const Fabric& fabric = state.fabric;
  const int found = fabric.FindGroup(spec.group);
  if (found < 0) {
    return Fail(ErrorCode::kNeverFits,
                "resources.group: there is no group \"" + spec.group +
                    "\" here; known: " + Listed(fabric.groups));
  }
  const FabricGroup& group = fabric.groups[static_cast<size_t>(found)];
  const std::span<const FabricZone> group_zones(&fabric.zones[group.first_zone], group.zone_count);
  if (IsNamedZone(spec.zone) &&
      std::ranges::find(group_zones, spec.zone, &FabricZone::name) == group_zones.end()) {
    return Fail(ErrorCode::kNeverFits,
                "placement.zone: there is no zone \"" + spec.zone + "\" in group " + spec.group +
                    "; known: " + Listed(group_zones) + ", single, cross-ok, cross-ok:N");
  }
  const uint32_t limit = LargestGangEver(state, spec);
  if (spec.nodes <= limit) {
    return {};
  }
  if (const std::string shortage = DescribeShortage(state, spec); !shortage.empty()) {
    return Fail(ErrorCode::kNeverFits, shortage);
  }
  std::string zones;
  for (const FabricZone& zone : group_zones) {
    const uint32_t count = CountLargeEnough(state, zone, spec);
    if (count > 0) {
      zones += (zones.empty() ? "" : ", ") + zone.name + " " + std::to_string(count);
    }
  }
  return Fail(ErrorCode::kNeverFits,
              "resources.nodes: " + std::to_string(spec.nodes) + " nodes can never be had in " +
                  DescribeZones(spec.zone) + " of group " + spec.group + " (" +
                  (zones.empty() ? "no nodes" : zones) + "); ask for at most " +
                  std::to_string(limit));
}

bool IsClaimedByOther(const NodeUse& use, JobId job) {
  return std::ranges::any_of(use.claimants, [&](JobId claimant) { return claimant != job; });
}

bool NodesAreUsable(const ClusterState& state, const Job& job, const Allocation& allocation) {
  if (allocation.part &&
      (job.spec->nodes != 1 ||
       static_cast<uint32_t>(std::popcount(allocation.part->devices)) != allocation.part->gpus)) {
    return false;
  }
  std::set<NodeId> distinct;
  for (const NodeId id : allocation.nodes) {
    const Node* node = state.FindNode(id);
    if (node == nullptr || !TakesWork(*node) || !distinct.insert(id).second) {
      return false;
    }
    const NodeUse& use = state.uses[id.value()];
    if (!allocation.part && (!use.idle() || IsClaimedByOther(use, job.id))) {
      return false;
    }
    if (allocation.part) {
      const auto room = RoomOn(state, id, job.id);
      if (!room || !Covers(*room, *allocation.part)) {
        return false;
      }
    }
  }
  return allocation.nodes.size() == job.spec->nodes;
}

// Nobody else claims any of it.
bool CanClaim(const ClusterState& state, const Claim& claim) {
  std::set<NodeId> distinct;
  return std::ranges::all_of(claim.nodes, [&](NodeId id) {
    if (state.FindNode(id) == nullptr || !distinct.insert(id).second) {
      return false;
    }
    // Parts of one node may be claimed by several; that they fit shows when they start.
    return std::ranges::all_of(state.uses[id.value()].claimants, [&](JobId other) {
      return claim.part && std::get<Queued>(state.jobs.at(other).phase).claim->part;
    });
  });
}

}  // namespace

ApplyResult On(ClusterState& state, Instant at, const JobSubmitted& event) {
  if (event.job.value() < state.next_job_id) {
    return Fail(ErrorCode::kConflict, "job ids rise; this one was given already");
  }
  const std::vector<SpecFinding> findings = CheckJobSpec(event.spec);
  if (!findings.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                findings.front().pointer + ": " + findings.front().message);
  }
  RefreshFabric(state);
  TIDE_TRY(CheckEverFits(state, event.spec));
  TIDE_TRY(CheckDependencies(state, event.spec));
  TIDE_TRY(CheckCheckpointFolder(state, event.spec, event.user));
  state.next_job_id = event.job.value() + event.spec->count;
  if (!event.idempotency_key.empty()) {
    state.job_by_key[event.idempotency_key] = event.job;
  }
  const SharedSpec spec = state.specs.Intern(event.spec);
  const bool array = spec->count > 1;
  if (array) {
    AddArray(state, event.job, event.spec->count);
  }
  for (uint32_t index = 0; index < event.spec->count; ++index) {
    Job job;
    job.id = JobId(event.job.value() + index);
    job.spec = spec;
    job.user = event.user;
    job.idempotency_key = index == 0 ? event.idempotency_key : "";
    job.submitted_at = at;
    job.array = array ? event.job : JobId();
    job.array_index = index;
    Job& stored = state.jobs.emplace_hint(state.jobs.end(), job.id, std::move(job))->second;
    EnterQueued(state, stored, at, Queued{});
  }
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const JobPlaced& event) {
  TIDE_ASSIGN(Job * job, FindJob(state, event.job));
  TIDE_TRY(CheckJobEvent(*job, JobEvent::kPlaced));
  const uint64_t last = job->attempts.empty() ? 0 : job->attempts.back().epoch.value();
  if (!state.waiting.contains(job->id)) {
    return Fail(ErrorCode::kConflict, "it waits for the end of another job");
  }
  if (event.epoch.value() != last + 1 || !NodesAreUsable(state, *job, event.allocation)) {
    return Fail(ErrorCode::kConflict, "the placement does not match the state");
  }
  Attempt attempt;
  attempt.epoch = event.epoch;
  attempt.queued_at = job->state_since;
  attempt.placed_at = at;
  attempt.start_reason = std::get<Queued>(job->phase).next_start;
  attempt.master_port = event.allocation.master_port;
  attempt.opportunistic = event.opportunistic;
  if (const auto& claim = std::get<Queued>(job->phase).claim) {
    ReleaseClaim(state, job->id, *claim);
  }
  for (uint32_t task = 0; task < event.allocation.nodes.size(); ++task) {
    const NodeId node = event.allocation.nodes[task];
    Task& placed = attempt.tasks.emplace_back();
    placed.node = node;
    placed.gpus = event.allocation.part ? event.allocation.part->gpus
                                        : state.nodes[node.value()].identity.capacity.gpus;
    Occupy(state.uses, *job, task, event.allocation);
    BreakOffTest(state, state.nodes[node.value()]);
    MarkNode(state, node);
  }
  AccountOf(state, *job).Change(ChargedGpus(job->spec), at, state.share_half_life);
  job->attempts.push_back(std::move(attempt));
  job->phase = Starting{event.allocation};
  BeginGpus(*job, at);
  job->state_since = at;
  job->detail.clear();
  MarkJob(state, job->id);
  state.changed.orders.insert(job->id);
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant /*at*/, const ClaimMade& event) {
  TIDE_ASSIGN(Job * job, FindJob(state, event.job));
  auto* queued = std::get_if<Queued>(&job->phase);
  if (queued == nullptr || queued->claim || !state.waiting.contains(job->id)) {
    return Fail(ErrorCode::kConflict, "only a waiting job without a claim can claim nodes");
  }
  if (!CanClaim(state, event.claim)) {
    return Fail(ErrorCode::kConflict, "a node is unknown or claimed already");
  }
  queued->claim = event.claim;
  KeepClaim(state, job->id, event.claim);
  MarkJob(state, job->id);
  state.changed.orders.insert(job->id);  // its image may be fetched
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant /*at*/, const ClaimDropped& event) {
  TIDE_ASSIGN(Job * job, FindJob(state, event.job));
  auto* queued = std::get_if<Queued>(&job->phase);
  if (queued == nullptr || !queued->claim) {
    return Applied::kNoOp;
  }
  ReleaseClaim(state, job->id, *queued->claim);
  queued->claim.reset();
  MarkJob(state, job->id);
  return Applied::kChanged;
}

namespace {

// Suspensions of every origin: for another job, for a drain, for the user.
ApplyResult BeginSaving(
    ClusterState& state, Job& job, Instant at, Saving order, const std::string& detail) {
  if (StateOf(job) == JobState::kStarting) {
    EnterStopping(state, job, at, order.cause, detail);
    std::get<Stopping>(job.phase).beneficiary = order.beneficiary;
    return Applied::kChanged;
  }
  if (auto* saving = std::get_if<Saving>(&job.phase)) {
    if (order.cause <= saving->cause) {
      return Applied::kNoOp;
    }
    saving->cause = order.cause;
    job.detail = detail;
    MarkJob(state, job.id);
    return Applied::kChanged;
  }
  CountGpus(job, at);
  order.allocation = *AllocationOf(job);
  job.phase = std::move(order);
  job.state_since = at;
  job.detail = detail;
  Attempt& attempt = job.attempts.back();
  attempt.notice_at = at;
  attempt.parked_at = Instant();
  attempt.saved_at = Instant();
  attempt.withdrawn = false;
  attempt.stop_step = -1;
  for (Task& task : attempt.tasks) {
    task.parked_at = Instant();  // of an earlier notice that was taken back
  }
  MarkJob(state, job.id);
  state.changed.orders.insert(job.id);
  return Applied::kChanged;
}

}  // namespace

ApplyResult On(ClusterState& state, Instant at, const SuspendRequested& event) {
  TIDE_ASSIGN(Job * job, FindJob(state, event.job));
  TIDE_TRY(CheckJobEvent(*job, JobEvent::kSuspendRequested));
  return BeginSaving(
      state, *job, at, {{}, event.cause, event.beneficiary, event.deadline}, event.reason);
}

ApplyResult On(ClusterState& state, Instant at, const HoldRequested& event) {
  TIDE_ASSIGN(Job * job, FindJob(state, event.job));
  if (StateOf(*job) == JobState::kHeld) {
    return Applied::kNoOp;
  }
  TIDE_TRY(CheckJobEvent(*job, JobEvent::kHoldRequested));
  const std::string detail =
      "suspended by " + event.actor + (event.reason.empty() ? std::string() : ": " + event.reason);
  if (const auto* queued = std::get_if<Queued>(&job->phase)) {
    const StartReason next_start = queued->next_start;
    job->detail = detail;
    EnterHeld(state, *job, at, next_start);
    return Applied::kChanged;
  }
  if (const auto* stopping = std::get_if<Stopping>(&job->phase)) {
    if (stopping->cause >= StopCause::kHeld) {
      return Applied::kNoOp;
    }
    EnterStopping(state, *job, at, StopCause::kHeld, detail);
    Settle(state, *job, at);  // it may have waited for evidence only
    return Applied::kChanged;
  }
  return BeginSaving(state, *job, at, {{}, StopCause::kHeld, JobId(), event.deadline}, detail);
}

ApplyResult On(ClusterState& state, Instant at, const ReleaseRequested& event) {
  TIDE_ASSIGN(Job * job, FindJob(state, event.job));
  TIDE_TRY(CheckJobEvent(*job, JobEvent::kReleaseRequested));
  job->detail = "resumed by " + event.actor;
  if (event.resume_step >= 0) {
    job->resume_step = event.resume_step;
    job->resume_before = 0;
    job->detail +=
        event.resume_step == 0 ? " from scratch" : " at step " + std::to_string(event.resume_step);
  }
  const StartReason next_start = std::get<Held>(job->phase).next_start;
  EnterQueued(state, *job, at, {next_start, Instant(), JobId(), std::nullopt});
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const CancelRequested& event) {
  TIDE_ASSIGN(Job * job, FindJob(state, event.job));
  TIDE_TRY(CheckJobEvent(*job, JobEvent::kCancelRequested));
  const std::string detail =
      "cancelled by " + event.actor + (event.reason.empty() ? std::string() : ": " + event.reason);
  if (const auto* stopping = std::get_if<Stopping>(&job->phase);
      stopping != nullptr && stopping->cause >= StopCause::kCancelled) {
    return Applied::kNoOp;
  }
  if (AllocationOf(*job) != nullptr) {
    EnterStopping(state, *job, at, StopCause::kCancelled, detail);
    Settle(state, *job, at);  // it may have waited for evidence only
  } else {
    job->detail = detail;
    EnterFinished(state, *job, at, {Outcome::kCancelled, 130});
  }
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const SuspendWithdrawn& event) {
  TIDE_ASSIGN(Job * job, FindJob(state, event.job));
  TIDE_TRY(CheckJobEvent(*job, JobEvent::kSuspendWithdrawn));
  job->detail.clear();
  CountGpus(*job, at);
  job->attempts.back().withdrawn = true;
  job->phase = Running{*AllocationOf(*job)};
  job->state_since = at;
  MarkJob(state, job->id);
  state.changed.orders.insert(job->id);
  return Applied::kChanged;
}

namespace {

// No word came of a start, neither that it worked nor that it failed: by no fault of the job, which
// starts elsewhere.
void GiveUpStart(ClusterState& state, Job& job, Instant at) {
  const std::string waited = FormatSpan(at - job.state_since);
  std::string detail;
  for (const Task& task : job.attempts.back().tasks) {
    if (task.state >= TaskState::kRunning) {
      continue;
    }
    Node& node = state.nodes[task.node.value()];
    Avoid(job, node.id);
    const std::string what =
        node.identity.name + (task.state == TaskState::kAssigned
                                  ? " did not say that it took the order to start"
                                  : " did not say that all ranks run");
    detail += (detail.empty() ? "did not start: for " + waited + " " : ", ") + what;
    CountFailedStart(state, node, at, what);
  }
  EnterStopping(state, job, at, StopCause::kFault, detail);
}

}  // namespace

ApplyResult On(ClusterState& state, Instant at, const DeadlinePassed& event) {
  TIDE_ASSIGN(Job * job, FindJob(state, event.job));
  TIDE_TRY(CheckJobEvent(*job, JobEvent::kDeadlinePassed));
  if (AwaitsEvidence(*job)) {
    ResolveStopped(state, *job, at);  // none came
    return Applied::kChanged;
  }
  if (auto* stopping = std::get_if<Stopping>(&job->phase)) {
    if (stopping->kill) {
      return Applied::kNoOp;
    }
    stopping->kill = true;
    MarkJob(state, job->id);
    state.changed.orders.insert(job->id);
    return Applied::kChanged;
  }
  if (const auto* saving = std::get_if<Saving>(&job->phase)) {
    EnterStopping(state, *job, at, saving->cause, "did not save before its deadline");
  } else if (StateOf(*job) == JobState::kRunning && FirstLeftAt(job->attempts.back()).is_set()) {
    EnterStopping(
        state, *job, at, StopCause::kLeft, "some of its tasks saved and left, the others did not");
  } else if (StateOf(*job) == JobState::kRunning) {
    EnterStopping(state, *job, at, StopCause::kTimeLimit, "max_runtime is used up");
  } else {
    GiveUpStart(state, *job, at);
  }
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const TimeLimitReached& event) {
  TIDE_ASSIGN(Job * job, FindJob(state, event.job));
  if (StateOf(*job) != JobState::kRunning) {
    return Applied::kNoOp;
  }
  EnterStopping(state, *job, at, StopCause::kTimeLimit, "max_runtime is used up");
  return Applied::kChanged;
}

}  // namespace tide::apply
