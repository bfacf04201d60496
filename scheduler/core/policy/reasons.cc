#include "scheduler/core/policy/reasons.h"

#include <algorithm>

namespace tide {
namespace {

std::string Count(uint64_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

}  // namespace

std::vector<Reason> ReasonHeld(const Job& job) {
  return {{"held.user", job.detail, "tide resume " + FormatJobName(job.id.value())}};
}

std::vector<Reason> ReasonBackoff(Duration left) {
  return {{"backoff", "waits " + FormatDuration(left) + " after a failure", ""}};
}

std::vector<Reason> ReasonYielded(JobId beneficiary) {
  return {{"preempt.yielded",
           "gave its nodes to " + FormatJobName(beneficiary.value()) +
               " and runs again after that has started",
           ""}};
}

std::vector<Reason> ReasonAhead(JobId ahead) {
  return {{"order.ahead",
           FormatJobName(ahead.value()) + " of the same priority came first and waits, too",
           "tide why " + FormatJobName(ahead.value())}};
}

std::vector<Reason> ReasonClaim(const ClusterState& state, const Claim& claim) {
  std::string who;
  for (const NodeId id : claim.nodes) {
    const JobId occupant = state.occupants[id.value()].job;
    if (occupant == JobId()) {
      continue;
    }
    const std::string name = FormatJobName(occupant.value());
    if (who.find(name) == std::string::npos) {
      who += (who.empty() ? "" : ", ") + name;
    }
  }
  return {{"preempt.in_progress",
           Count(claim.nodes.size(), "node") + " kept for it; " +
               (who.empty() ? "starting" : "waiting for " + who + " to save and leave"),
           ""}};
}

std::vector<Reason> ReasonNoRoom(const ClusterState& state,
                                 const Job& job,
                                 const Unplaced& unplaced) {
  std::vector<Reason> reasons;
  std::string zones;
  uint32_t most = 0;
  for (const auto& [zone, count] : unplaced.free_by_zone) {
    zones +=
        (zones.empty() ? "" : ", ") + std::string("zone ") + zone + " " + std::to_string(count);
    most = std::max(most, count);
  }
  uint32_t out_of_service = 0;
  for (const Node& node : state.nodes) {
    if (node.identity.group == job.spec.group && !TakesWork(node)) {
      ++out_of_service;
    }
  }
  std::string remedy;
  if (unplaced.cross_zone_would_fit) {
    remedy = "placement: {zone: cross-ok} would start it now, slower across zones";
  } else if (most > 0) {
    remedy = Count(most, "node") + " would start now";
  }
  if (unplaced.cross_zone_busy) {
    reasons.push_back({"placement.cross_zone_busy",
                       "it would have to cross zones, and another job does already",
                       ""});
  }
  reasons.push_back({"placement.zone_capacity",
                     "needs " + Count(job.spec.nodes, "node") +
                         " free in one zone; free now: " + (zones.empty() ? "none" : zones),
                     remedy});
  if (out_of_service > 0) {
    reasons.push_back(
        {"nodes.unhealthy",
         Count(out_of_service, "node") + " of group " + job.spec.group + " out of service",
         "tide nodes"});
  }
  return reasons;
}

}  // namespace tide
