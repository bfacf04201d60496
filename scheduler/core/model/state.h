#pragma once
// The cluster as the scheduler knows it. Owned by one thread; changed by Apply alone.
// Invariants (checked by CheckInvariants, tested after every event of the random worlds):
//  I1 a node carries at most one live task; `occupants` mirrors the allocations.
//  I2 a gang is whole: an allocation has exactly spec.nodes different nodes.
//  I3 no node is claimed by two jobs.
//  I4 the last attempt is live exactly while the phase holds an allocation.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/core/model/incident.h"
#include "scheduler/core/model/job.h"
#include "scheduler/core/model/node.h"

namespace tide {

struct Occupant {
  JobId job;  // 0 = idle
  uint32_t task = 0;
  bool operator==(const Occupant&) const = default;
};

// What changed since the last commit; the store writes these rows.
struct ChangeSet {
  std::set<JobId> jobs;
  std::set<NodeId> nodes;
  std::set<IncidentId> incidents;
  bool operator==(const ChangeSet&) const = default;
  [[nodiscard]] bool empty() const { return jobs.empty() && nodes.empty() && incidents.empty(); }
};

struct ClusterState {
  std::map<JobId, Job> jobs;
  std::vector<Node> nodes;  // index = NodeId
  std::map<IncidentId, Incident> incidents;
  uint64_t next_job_id = 1;
  uint64_t next_incident_id = 1;

  // Derived; rebuilt by RebuildDerived after a load.
  std::vector<Occupant> occupants;  // index = NodeId
  std::map<std::string, NodeId> node_by_name;
  std::map<std::string, JobId> job_by_key;  // idempotency key → job
  std::set<JobId> waiting;                  // Queued
  std::set<JobId> live;                     // hold an allocation

  ChangeSet changed;

  [[nodiscard]] const Job* FindJob(JobId id) const;
  [[nodiscard]] const Node* FindNode(NodeId id) const;
  [[nodiscard]] const Node* FindNode(const std::string& name) const;
};

void RebuildDerived(ClusterState& state);

// Returns the first broken invariant in words, or nothing. Cost: O(jobs + nodes).
[[nodiscard]] std::optional<std::string> CheckInvariants(const ClusterState& state);

}  // namespace tide
