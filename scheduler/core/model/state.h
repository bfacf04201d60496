#pragma once
// The cluster as the scheduler knows it. Owned by one thread; changed by Apply alone.
// Invariants (checked by CheckInvariants, tested after every event of the random worlds):
//  I1 a node carries one live task, or several that together take no more than it has; `uses`
//     mirrors the allocations and claims.
//  I2 a gang is whole: an allocation has exactly spec.nodes different nodes.
//  I3 no node is claimed by two jobs, unless each claims a part and the parts fit.
//  I4 the last attempt is live exactly while the phase holds an allocation.
//  I5 a job of the queue is either looked at (`waiting`) or blocked by a dependency.
//  I6 what is kept of archived jobs is what estimates and shares still ask for, and no job of it
//     is there as well.
//  I7 a job's ledger adds up to the GPU time that its tasks held, and is closed while it has none.
//  I8 a node that is tested as a peer is named by one that is being validated by that request.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/core/model/account.h"
#include "scheduler/core/model/checkpoint_folders.h"
#include "scheduler/core/model/dependencies.h"
#include "scheduler/core/model/fabric.h"
#include "scheduler/core/model/finished.h"
#include "scheduler/core/model/incident.h"
#include "scheduler/core/model/job.h"
#include "scheduler/core/model/live_jobs.h"
#include "scheduler/core/model/node.h"
#include "scheduler/core/model/open_incidents.h"
#include "scheduler/core/model/owners.h"
#include "scheduler/core/model/run_history.h"
#include "scheduler/core/model/waiting.h"
#include "scheduler/core/model/warm_images.h"

namespace tide {

struct Occupant {
  JobId job;
  uint32_t task = 0;
  bool operator==(const Occupant&) const = default;
};

// What runs on a node, and who waits for it.
struct NodeUse {
  std::vector<Occupant> tasks;   // ascending by job
  bool whole = false;            // one task has all of it
  Part taken;                    // by parts
  std::vector<JobId> claimants;  // ascending
  bool operator==(const NodeUse&) const = default;

  [[nodiscard]] bool idle() const { return tasks.empty(); }
  // The one task, or the first of several; job 0 = none.
  [[nodiscard]] Occupant first() const { return tasks.empty() ? Occupant{} : tasks.front(); }
};

using NodeUses = std::vector<NodeUse>;  // index = NodeId

// What changed since the last commit; the store writes these rows.
struct ChangeSet {
  std::set<JobId> jobs;
  std::set<NodeId> nodes;
  std::set<IncidentId> incidents;
  std::set<JobId> archived;                  // their rows go to the archive
  std::set<JobId> archived_runs;             // rows to write; those that are gone, to delete
  std::set<RunHistory::Owner> archived_use;  // the same
  std::set<JobId> orders;                    // jobs whose tasks are owed something new; not rows
  bool operator==(const ChangeSet&) const = default;
  [[nodiscard]] bool empty() const {
    return jobs.empty() && nodes.empty() && incidents.empty() && archived.empty() &&
           archived_runs.empty() && archived_use.empty();
  }
};

// What is kept of an owner's archived jobs.
struct ArchivedUse {
  Account lately;
  HeldTime held;  // by all of them
  bool operator==(const ArchivedUse&) const = default;
};

struct ClusterState {
  std::map<JobId, Job> jobs;
  std::vector<Node> nodes;  // index = NodeId
  std::map<IncidentId, Incident> incidents;
  uint64_t next_job_id = 1;
  uint64_t next_incident_id = 1;
  // What is still asked for of jobs that were archived: what their owners used, and the past runs
  // that `run_history` has of them.
  std::map<RunHistory::Owner, ArchivedUse> archived_use;
  std::map<JobId, OwnedRun> archived_runs;

  // Derived; rebuilt by RebuildDerived after a load.
  NodeUses uses;
  std::map<std::string, NodeId> node_by_name;
  std::map<std::string, JobId> job_by_key;  // idempotency key → job
  Dependencies dependencies;
  // Kept by Apply (model/index.h).
  std::set<JobId> waiting;   // Queued, and not blocked by a dependency
  WaitingJobs queue;         // the same as decisions read them
  std::set<JobId> claiming;  // of the waiting: claim nodes
  std::set<JobId> live;      // hold an allocation
  LiveJobs runners;          // the same as decisions read them
  std::set<JobId> crossing;  // of the live: lie in more than one zone
  std::set<JobId> restless;  // of the live: those that leave, or that time alone may change
  std::set<JobId> held;      // by their user
  CheckpointFolders checkpoint_folders;
  OpenIncidents open_incidents;
  FinishedJobs finished;            // those that may be archived
  std::vector<uint8_t> node_flags;  // NodeFlag; index = NodeId
  std::vector<JobId> whole_on;      // the job that has all of the node; 0 = none; index = NodeId
  std::vector<JobId> touched_jobs;  // by the event at hand
  std::vector<NodeId> touched_nodes;
  Owners owners;  // all that have submitted a job
  Names groups;   // that jobs have named
  // What owners used lately, by their number. From the attempts, and for archived jobs from
  // `archived_use`; to rounding the same after a load.
  std::vector<Account> accounts;
  Duration share_half_life = Duration::Minutes(24 * 60);  // set by Step from the policy
  RunHistory run_history;  // of finished and archived jobs; the same after a load
  Fabric fabric;           // of `nodes`, unless it is stale
  bool fabric_stale = true;
  // Since when, by its own clock, this process leads. Times from before are of another clock, so
  // the wait for a lost node's tasks to be gone begins anew here.
  Instant led_since;

  SpecPool specs;  // those that jobs have, and a few that they had

  WarmImages warm;  // set by the server, not by events

  ChangeSet changed;

  [[nodiscard]] const Job* FindJob(JobId id) const;
  [[nodiscard]] const Node* FindNode(NodeId id) const;
  [[nodiscard]] const Node* FindNode(const std::string& name) const;
};

// Pointers to all jobs, by id.
[[nodiscard]] JobList ListJobs(const ClusterState& state);

void RebuildDerived(ClusterState& state);
// Does the same for whoever has a list of the jobs.
//   jobs: all of the state.
void RebuildDerived(ClusterState& state, const JobList& jobs);

// The number and the account of a job's owner.
[[nodiscard]] uint32_t OwnerOf(ClusterState& state, const Job& job);
[[nodiscard]] Account& AccountOf(ClusterState& state, const Job& job);
// What the job's attempts have used, as of the end of the last. All have ended.
[[nodiscard]] Account UseOf(const Job& job, Duration half_life);

// Decisions need it fresh. The fabric is rebuilt once for many nodes that join, not with each.
void RefreshFabric(ClusterState& state);

// Keep `uses` in step with allocations and claims.
void Occupy(NodeUses& uses, const Job& job, uint32_t task, const Allocation& allocation);
void Vacate(NodeUses& uses, const Job& job, uint32_t task, const Allocation& allocation);
void AddClaim(NodeUses& uses, JobId job, const Claim& claim);
void RemoveClaim(NodeUses& uses, JobId job, const Claim& claim);
// Of a job that waits and claims nodes, as those in NodeUse::claimants do.
[[nodiscard]] const Claim& ClaimOf(const ClusterState& state, JobId job);

// What parts may still take of a node beside its tasks and the claims of others than `job`;
// nothing when it is taken or claimed whole. `devices`: the free ones.
[[nodiscard]] std::optional<Part> RoomOn(const ClusterState& state, NodeId node, JobId job);
[[nodiscard]] bool Covers(const Part& room, const Part& wanted);
// All of a node.
[[nodiscard]] Part FullPart(const NodeCapacity& capacity);

// Returns what a node that is idle has for a task of the job. One that does not say how many CPUs
// or how much memory it has is not short of them: it counts as having what the job wants.
[[nodiscard]] Part CapacityFor(const NodeCapacity& capacity, const JobSpec& spec);
// Reports whether that is what the job wants of each of its nodes.
[[nodiscard]] bool CanHold(const NodeCapacity& capacity, const JobSpec& spec);
// Reports whether every node of the group does, by what each has at least. False: some may all the
// same.
[[nodiscard]] bool AllCanHold(const FabricGroup& group, const JobSpec& spec);

// Reports whether a node's GPUs are of the model that the job wants, and its disk as large: what
// jobs do not take from each other.
[[nodiscard]] bool IsOfItsKind(const NodeCapacity& capacity, const JobSpec& spec);

// The part of a node that a job takes, or nothing when it takes whole nodes: jobs of several nodes,
// and those that name neither GPUs nor CPUs. CPUs and memory that are not named go with the GPUs.
[[nodiscard]] std::optional<Part> PartOf(const JobSpec& spec, const NodeCapacity& capacity);

// Returns the first broken invariant in words, or nothing. Cost: O(jobs + nodes).
[[nodiscard]] std::optional<std::string> CheckInvariants(const ClusterState& state);
// Those of them that what is stored can break: the others hold after RebuildDerived.
//   jobs: all of the state.
[[nodiscard]] std::optional<std::string> CheckStored(const ClusterState& state,
                                                     const JobList& jobs);

}  // namespace tide
