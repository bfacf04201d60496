#include "scheduler/core/policy/pass_claims.h"

#include <algorithm>
#include <utility>

#include "scheduler/core/model/index.h"

namespace tide {

PassClaims::PassClaims(const ClusterState& state, const Quotas& quotas)
    : state_(state), quotas_(quotas), highest_(state.nodes.size()) {
  for (const JobId id : state.claiming) {
    for (const NodeId node : claims_.emplace(id, ClaimOf(state, id)).first->second.nodes) {
      Raise(id, node);
    }
  }
}

void PassClaims::Raise(JobId claimant, NodeId node) {
  Highest& highest = highest_[node.value()];
  if (const int32_t priority = ClassOf(claimant); priority > highest.priority) {
    highest = {priority, claimant};
  }
}

std::vector<JobId> PassClaims::ClaimantsOf(NodeId node) const {
  std::vector<JobId> claimants = state_.uses[node.value()].claimants;
  if (const auto made = made_.find(node); made != made_.end()) {
    if (std::ranges::find(claimants, made->second) == claimants.end()) {
      claimants.push_back(made->second);
    }
  }
  // A job may have dropped its claim of the state, and claim other nodes now.
  std::erase_if(claimants, [&](JobId claimant) {
    const auto claim = claims_.find(claimant);
    return claim == claims_.end() ||
           std::ranges::find(claim->second.nodes, node) == claim->second.nodes.end();
  });
  return claimants;
}

bool PassClaims::IsClaimedByOthers(JobId job, int32_t priority, NodeId node) const {
  return std::ranges::any_of(ClaimantsOf(node), [&](JobId claimant) {
    return claimant != job && ClassOf(claimant) >= priority;
  });
}

void PassClaims::Make(const Job& job, const Claim& claim) {
  claims_[job.id] = claim;
  for (const NodeId node : claim.nodes) {
    made_[node] = job.id;
    Raise(job.id, node);
  }
}

bool PassClaims::Erase(JobId job) {
  const auto claim = claims_.find(job);
  if (claim == claims_.end()) {
    return false;
  }
  const std::vector<NodeId> nodes = std::move(claim->second.nodes);
  claims_.erase(claim);
  for (const NodeId node : nodes) {
    highest_[node.value()] = Highest();
    for (const JobId claimant : ClaimantsOf(node)) {
      Raise(claimant, node);
    }
  }
  return true;
}

}  // namespace tide
