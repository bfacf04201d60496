#pragma once
// What a job that nobody has submitted would do now. Made by whatif.h.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/fabric/comm_plan.h"
#include "scheduler/core/model/job.h"
#include "scheduler/core/model/start_estimate.h"

namespace tide {

enum class PlanVerdict : uint8_t {
  kStarts = 1,    // at once, on nodes that are free
  kPreempts = 2,  // its nodes are kept for it from now on; it starts when others have left them
  kQueues = 3,    // it waits, and nothing is kept for it
};

// Nodes of one leaf switch that follow each other in rank order.
struct PlannedLeaf {
  std::string zone;
  std::string leaf;
  std::vector<std::string> nodes;
  bool operator==(const PlannedLeaf&) const = default;
};

// A running job that would be asked to leave.
struct PlannedVictim {
  JobId job;
  std::string name;
  std::string user;
  int32_t priority = 0;
  uint32_t nodes = 0;  // all that it holds; it gives them all back
  Duration notice;     // time to save; zero = it has nothing to save and is ended at once
  bool operator==(const PlannedVictim&) const = default;
};

// A row of the quotas that counts the job. In thousandths of nodes.
struct PlannedQuota {
  bool of_user = false;             // else of a project
  std::string name;                 // of the user or the project
  std::string group;                // "" = any
  std::optional<int32_t> priority;  // nothing = any class
  int64_t guaranteed = 0;
  std::optional<int64_t> limit;  // with what may be borrowed; nothing = no bound
  int64_t used = 0;              // by others than the job, now
  int64_t wanted = 0;            // by the job
  Instant until;                 // when the row ends; not set = never
  bool operator==(const PlannedQuota&) const = default;
};

// As `tide why` has it.
struct PlannedReason {
  std::string code;
  std::string message;
  std::string remedy;
  bool operator==(const PlannedReason&) const = default;
};

struct JobPlan {
  PlanVerdict verdict = PlanVerdict::kQueues;
  std::vector<PlannedLeaf> layout;  // by rank; empty when it queues
  std::optional<Part> part;         // nothing: whole nodes
  // Jobs that come before it wait for the same nodes: they may take them at any time.
  bool opportunistic = false;
  bool borrows = false;  // beyond what its quota guarantees: the owners may take it back
  std::optional<CrossZonePairs> cross_zone_pairs;  // nothing: it lies in one zone
  std::vector<PlannedVictim> victims;    // ascending by job; empty when others leave anyway
  std::vector<PlannedQuota> quotas;      // projects first; empty where no row counts it
  std::vector<PlannedReason> reasons;    // why it does not start now
  std::optional<EstimateText> estimate;  // nothing: it starts now
  // The same for the same answer: all but times and words. FNV-1a, 64 bits.
  uint64_t hash = 0;
  bool operator==(const JobPlan&) const = default;
};

}  // namespace tide
