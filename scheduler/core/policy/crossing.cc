#include "scheduler/core/policy/crossing.h"

#include <string>

#include "common/spec/zone_rule.h"
#include "scheduler/core/policy/free_nodes.h"
#include "scheduler/core/policy/size.h"
#include "scheduler/core/policy/zone_chain.h"

namespace tide {

Crossing::Crossing(const ClusterState& state,
                   const Policy& policy,
                   const Quotas& quotas,
                   const std::map<JobId, Claim>& claims)
    : state_(state), policy_(policy), quotas_(quotas), claims_(claims) {}

// Reports whether a gang will cross on its claim, and stands in the class of `job` or a higher one.
bool Crossing::Counts(JobId claimant, const Claim& claim, const Job& job) const {
  return claimant != job.id && Crosses(claim.nodes) &&
         quotas_.ClassOf(state_.jobs.at(claimant)) >= quotas_.ClassOf(job);
}

bool Crossing::MayCross(const Job& job) const {
  size_t crossing = state_.crossing.size() + started_.size();
  for (const auto& [claimant, claim] : claims_) {
    crossing += Counts(claimant, claim, job) ? 1 : 0;
  }
  return crossing < policy_.cross_zone_jobs_max;
}

std::shared_ptr<const BoundaryUse> Crossing::CountFor(const Job& job) const {
  auto use = std::make_shared<BoundaryUse>(policy_.boundaries, state_.fabric);
  for (const JobId id : state_.crossing) {
    use->Add(AllocationOf(state_.jobs.at(id))->nodes);
  }
  for (const std::vector<NodeId>& nodes : started_) {
    use->Add(nodes);
  }
  for (const auto& [claimant, claim] : claims_) {
    if (Counts(claimant, claim, job)) {
      use->Add(claim.nodes);
    }
  }
  return use;
}

std::shared_ptr<const BoundaryUse> Crossing::LeftFor(const Job& job) {
  if (!IsBounded()) {
    return nullptr;
  }
  if (claims_.contains(job.id)) {
    return CountFor(job);
  }
  std::shared_ptr<const BoundaryUse>& left = left_[quotas_.ClassOf(job)];
  if (left == nullptr) {
    left = CountFor(job);
  }
  return left;
}

bool Crossing::Allows(const Job& job, const std::vector<NodeId>& nodes) {
  return !Crosses(nodes) || (MayCross(job) && (!IsBounded() || LeftFor(job)->Allows(nodes)));
}

JobId Crossing::InTheWayOf(const Job& job) {
  const auto left = LeftFor(job);
  JobId any;
  const auto consider = [&](JobId other, const std::vector<NodeId>& nodes) {
    any = any == JobId() ? other : any;
    return left == nullptr || left->PassesFullOne(nodes);
  };
  for (const JobId id : state_.crossing) {
    if (consider(id, AllocationOf(state_.jobs.at(id))->nodes)) {
      return id;
    }
  }
  for (const auto& [claimant, claim] : claims_) {
    if (claimant != job.id && Crosses(claim.nodes) && consider(claimant, claim.nodes)) {
      return claimant;
    }
  }
  return any;
}

void Crossing::Start(const std::vector<NodeId>& nodes) {
  if (Crosses(nodes)) {
    started_.push_back(nodes);
  }
  left_.clear();  // it may have had a claim
}

uint32_t LargestGangAcross(const ClusterState& state,
                           const JobSpec& spec,
                           const BoundaryUse& boundaries) {
  JobSpec within = spec;
  within.zone = kSingleZone;
  uint32_t can = LargestGangEver(state, within);
  const int index = state.fabric.FindGroup(spec.group);
  if (index < 0 || spec.nodes <= can) {
    return std::min(can, spec.nodes);
  }
  FreeNodes all(state.fabric);
  for (const Node& node : state.nodes) {
    if (node.state != NodeState::kRemoved && CanHold(node.identity.capacity, spec)) {
      all.Add(node.id);
    }
  }
  const FabricGroup& group = state.fabric.groups[static_cast<size_t>(index)];
  ChainRequest request{group.first_zone,
                       group.first_zone + group.zone_count,
                       spec.nodes,
                       ZonesMax(spec.zone),
                       &boundaries};
  const ZoneChain chain = ChooseChain(all, request);
  if (!chain.parts.empty() || chain.gave_up) {
    return spec.nodes;
  }
  for (uint32_t cannot = spec.nodes; cannot - can > 1;) {
    request.nodes = can + (cannot - can) / 2;
    (HasChain(all, request) ? can : cannot) = request.nodes;
  }
  return can;
}

Status CheckEverCrosses(ClusterState& state, const Policy& policy, const JobSpec& spec) {
  if (policy.boundaries.empty() || !MayLieAcross(spec.zone) || spec.nodes == 1) {
    return {};
  }
  RefreshFabric(state);
  JobSpec within = spec;
  within.zone = kSingleZone;
  if (spec.nodes <= LargestGangEver(state, within) || spec.nodes > LargestGangEver(state, spec)) {
    return {};  // it need not cross, or is refused for its size alone
  }
  const uint32_t most =
      LargestGangAcross(state, spec, BoundaryUse(policy.boundaries, state.fabric));
  if (spec.nodes <= most) {
    return {};
  }
  return Fail(ErrorCode::kNeverFits,
              "resources.nodes: " + std::to_string(spec.nodes) + " nodes of group " + spec.group +
                  " can never be had across the boundaries between zones (fabric.boundaries of the "
                  "cluster file); ask for " +
                  std::to_string(most));
}

}  // namespace tide
