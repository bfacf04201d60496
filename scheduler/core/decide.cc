#include "scheduler/core/decide.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "scheduler/core/policy/placement.h"
#include "scheduler/core/policy/reasons.h"
#include "scheduler/core/policy/victims.h"
#include "scheduler/core/timers.h"

namespace tide {
namespace {

bool IsLeaving(const Job& job) {
  return std::holds_alternative<Saving>(job.phase) || std::holds_alternative<Stopping>(job.phase);
}

// A victim that does not wait at its stop step yet may still be told to go on.
bool MayGoOn(const Job& job) {
  const auto* saving = std::get_if<Saving>(&job.phase);
  return saving != nullptr && saving->cause == StopCause::kPreempted &&
         !job.attempts.back().parked_at.is_set();
}

// Can `job` count on the nodes of `other`? Not when `other` leaves for somebody else of a higher
// class only: it goes on when that one gives up.
bool LeavesFor(const Job& job, const Job& other) {
  return IsLeaving(other) && (!MayGoOn(other) || other.spec.priority < job.spec.priority);
}

// One pass over the waiting jobs. Keeps its own picture of what is taken, so that the proposals
// of one pass never contradict each other.
class Planner {
 public:
  Planner(const ClusterState& state, const Policy& policy, Instant now)
      : state_(state), policy_(policy), now_(now) {}

  Decision Run() {
    CollectDue(state_, policy_, now_, decision_);
    if (!decision_.proposals.empty()) {
      return std::move(decision_);  // time changes the state first; Step decides again
    }
    ReadState();
    EvacuateDrainingNodes();
    for (const Job* job : WaitingInOrder()) {
      Plan(*job);
    }
    LetVictimsGoOn();
    for (const auto& [id, job] : state_.jobs) {
      if (StateOf(job) == JobState::kHeld) {
        Explain(job, ReasonHeld(job));
      }
    }
    return std::move(decision_);
  }

 private:
  void ReadState() {
    for (const JobId id : state_.waiting) {
      const Job& job = state_.jobs.at(id);
      if (const auto& claim = std::get<Queued>(job.phase).claim) {
        KeepClaim(job, claim->nodes);
      }
    }
    for (const JobId id : state_.live) {
      const Job& job = state_.jobs.at(id);
      if (CrossesZones(state_, AllocationOf(job)->nodes)) {
        ++cross_zone_jobs_;
      }
    }
  }

  // An operator's drain asks the job on the node to save and move; a fault's drain waits for its
  // end (health.md section 2).
  void EvacuateDrainingNodes() {
    for (const Node& node : state_.nodes) {
      const JobId occupant = state_.occupants[node.id.value()].job;
      if (node.state != NodeState::kDraining || node.actor == "tide" || occupant == JobId()) {
        continue;
      }
      const Job& job = state_.jobs.at(occupant);
      if (!IsLeaving(job) && asked_.insert(occupant).second) {
        decision_.proposals.emplace_back(
            SuspendRequested{job.id,
                             StopCause::kDrained,
                             JobId(),
                             now_ + NoticeOf(job),
                             node.identity.name + " is being drained: " + node.reason});
      }
    }
  }

  [[nodiscard]] Duration NoticeOf(const Job& job) const {
    return std::min(job.spec.suspend_notice, policy_.suspend_notice_max);
  }

  [[nodiscard]] std::vector<const Job*> WaitingInOrder() const {
    std::vector<const Job*> jobs;
    for (const JobId id : state_.waiting) {
      jobs.push_back(&state_.jobs.at(id));
    }
    std::stable_sort(jobs.begin(), jobs.end(), [](const Job* a, const Job* b) {
      return a->spec.priority > b->spec.priority;
    });
    return jobs;
  }

  void Explain(const Job& job, std::vector<Reason> reasons) {
    decision_.explanations.push_back({job.id, std::move(reasons)});
  }

  // Nodes a job may use: healthy, not taken in this pass, not claimed by a job of its own or a
  // higher class.
  [[nodiscard]] bool MayUse(const Job& job, const Node& node) const {
    if (!TakesWork(node) || taken_.contains(node.id)) {
      return false;
    }
    const auto claim = claimed_by_.find(node.id);
    return claim == claimed_by_.end() || claim->second == &job ||
           claim->second->spec.priority < job.spec.priority;
  }

  [[nodiscard]] bool IsClaimedByOther(const Job& job, NodeId node) const {
    const auto claim = claimed_by_.find(node);
    return claim != claimed_by_.end() && claim->second != &job;
  }

  [[nodiscard]] std::vector<NodeId> IdleFor(const Job& job) const {
    std::vector<NodeId> nodes;
    for (const Node& node : state_.nodes) {
      if (MayUse(job, node) && state_.occupants[node.id.value()].job == JobId()) {
        nodes.push_back(node.id);
      }
    }
    return nodes;
  }

  // What nobody has claimed comes first: the claim of a lower class is broken only for need.
  [[nodiscard]] PlacementResult PlaceOnIdle(const Job& job, const std::vector<NodeId>& idle) const {
    std::vector<NodeId> unclaimed = idle;
    std::erase_if(unclaimed, [&](NodeId node) { return IsClaimedByOther(job, node); });
    PlacementResult placement = Place(state_, RequestOf(job), unclaimed);
    if (placement.nodes.empty() && unclaimed.size() < idle.size()) {
      placement = Place(state_, RequestOf(job), idle);
    }
    return placement;
  }

  [[nodiscard]] std::vector<NodeId> LeavingFor(const Job& job) const {
    std::vector<NodeId> nodes;
    for (const JobId id : state_.live) {
      const Job& other = state_.jobs.at(id);
      if (LeavesFor(job, other)) {
        AppendNodesOf(job, other, nodes);
      }
    }
    return nodes;
  }

  // Only nodes the task still holds: a task that has exited left its node already.
  void AppendNodesOf(const Job& job, const Job& other, std::vector<NodeId>& nodes) const {
    for (const NodeId id : AllocationOf(other)->nodes) {
      if (state_.occupants[id.value()].job == other.id && MayUse(job, state_.nodes[id.value()])) {
        nodes.push_back(id);
      }
    }
  }

  // Claims count like jobs: nobody is asked to leave for a gang that may not start then.
  [[nodiscard]] bool MayCross(const Job& job) const {
    uint32_t crossing = cross_zone_jobs_;
    for (const auto& [claimant, nodes] : claims_) {
      if (claimant != job.id && CrossesZones(state_, nodes) &&
          state_.jobs.at(claimant).spec.priority >= job.spec.priority) {
        ++crossing;
      }
    }
    return crossing < policy_.cross_zone_jobs_max;
  }

  [[nodiscard]] PlacementRequest RequestOf(const Job& job) const {
    PlacementRequest request;
    request.nodes = job.spec.nodes;
    request.gpus_per_node = job.spec.gpus_per_node;
    request.group = job.spec.group;
    request.zone = job.spec.zone;
    request.cross_zone_free = MayCross(job);
    if (!job.attempts.empty()) {
      for (const Task& task : job.attempts.back().tasks) {
        request.former.push_back(task.node);
      }
    }
    return request;
  }

  void Plan(const Job& job) {
    const auto& queued = std::get<Queued>(job.phase);
    if (queued.not_before > now_) {
      decision_.wake_at = std::min(decision_.wake_at, queued.not_before);
      Explain(job, ReasonBackoff(queued.not_before - now_));
      return;
    }
    // A transaction that was given up frees its victims: they do not wait for what cannot start.
    if (claims_.contains(queued.after_beneficiary)) {
      Explain(job, ReasonYielded(queued.after_beneficiary));
      return;
    }
    const std::pair queue(job.spec.group, job.spec.priority);
    const auto ahead = blocked_.find(queue);
    bool claimed = claims_.contains(job.id);
    if (claimed && !ClaimHolds(job, *queued.claim)) {
      DropClaim(job);
      claimed = false;
    }
    if (ahead != blocked_.end() && !claimed) {
      Explain(job, ReasonAhead(ahead->second));
      return;
    }
    if (claimed && IsIdle(*queued.claim)) {
      Start(job, queued.claim->nodes);
      return;
    }
    const std::vector<NodeId> idle = IdleFor(job);
    PlacementResult placement = PlaceOnIdle(job, idle);
    if (!placement.nodes.empty()) {
      Start(job, placement.nodes);
    } else if (claimed) {
      taken_.insert(queued.claim->nodes.begin(), queued.claim->nodes.end());
      Explain(job, ReasonClaim(state_, *queued.claim));
    } else if (!Claim(job, idle)) {
      blocked_.emplace(queue, job.id);
      Explain(job, ReasonNoRoom(state_, job, placement.unplaced));
    }
  }

  // A claim is worth keeping while each of its nodes is idle or about to be.
  [[nodiscard]] bool ClaimHolds(const Job& job, const tide::Claim& claim) const {
    return std::all_of(claim.nodes.begin(),
                       claim.nodes.end(),
                       [&](NodeId id) {
                         const JobId occupant = state_.occupants[id.value()].job;
                         return MayUse(job, state_.nodes[id.value()]) &&
                                (occupant == JobId() || LeavesFor(job, state_.jobs.at(occupant)));
                       }) &&
           (!CrossesZones(state_, claim.nodes) || MayCross(job));
  }

  [[nodiscard]] bool IsIdle(const tide::Claim& claim) const {
    return std::all_of(claim.nodes.begin(), claim.nodes.end(), [&](NodeId id) {
      return state_.occupants[id.value()].job == JobId();
    });
  }

  void Start(const Job& job, const std::vector<NodeId>& nodes) {
    BreakClaims(job, nodes);
    ForgetClaim(job);  // starting ends it
    const uint64_t last = job.attempts.empty() ? 0 : job.attempts.back().epoch.value();
    JobPlaced placed{job.id, Epoch(last + 1), {nodes, 0}};
    const NodeIdentity& first = state_.nodes[nodes.front().value()].identity;
    if (first.port_low > 0 && first.port_high >= first.port_low) {
      // Another attempt takes another port: a port still in use is not met twice.
      const uint64_t count = first.port_high - first.port_low + 1;
      placed.allocation.master_port =
          first.port_low +
          static_cast<uint32_t>((job.id.value() * 31 + placed.epoch.value()) % count);
    }
    taken_.insert(nodes.begin(), nodes.end());
    if (CrossesZones(state_, nodes)) {
      ++cross_zone_jobs_;
    }
    decision_.proposals.emplace_back(std::move(placed));
  }

  // Claims nodes that are leaving anyway, or preempts lower classes for them.
  bool Claim(const Job& job, const std::vector<NodeId>& idle) {
    std::vector<NodeId> pool = idle;
    const std::vector<NodeId> leaving = LeavingFor(job);
    pool.insert(pool.end(), leaving.begin(), leaving.end());
    PlacementResult placement = Place(state_, RequestOf(job), pool);
    tide::Claim claim;
    if (placement.nodes.empty()) {
      if (job.failure_restarts > 0) {
        return false;  // a job that keeps failing does not stop others on each retry
      }
      const VictimPlan plan = ChooseVictims(state_, RequestOf(job), pool, CandidatesFor(job));
      if (plan.nodes.empty()) {
        return false;
      }
      placement.nodes = plan.nodes;
      claim.victims = plan.victims;
    }
    claim.nodes = placement.nodes;
    BreakClaims(job, claim.nodes);
    KeepClaim(job, claim.nodes);
    decision_.proposals.emplace_back(ClaimMade{job.id, claim});
    for (const JobId victim : claim.victims) {
      const Job& leaver = state_.jobs.at(victim);
      asked_.insert(victim);
      decision_.proposals.emplace_back(SuspendRequested{victim,
                                                        StopCause::kPreempted,
                                                        job.id,
                                                        now_ + NoticeOf(leaver),
                                                        "gives its nodes to " +
                                                            FormatJobName(job.id.value()) + " (" +
                                                            PriorityName(job.spec.priority) + ")"});
    }
    taken_.insert(claim.nodes.begin(), claim.nodes.end());
    Explain(job, ReasonClaim(state_, claim));
    return true;
  }

  [[nodiscard]] std::vector<VictimCandidate> CandidatesFor(const Job& job) const {
    std::vector<VictimCandidate> candidates;
    for (const JobId id : state_.live) {
      const Job& other = state_.jobs.at(id);
      if (IsLeaving(other) || asked_.contains(id) || other.spec.priority >= job.spec.priority ||
          other.spec.group != job.spec.group) {
        continue;
      }
      VictimCandidate candidate{&other, {}};
      AppendNodesOf(job, other, candidate.nodes);
      if (!candidate.nodes.empty()) {
        candidates.push_back(std::move(candidate));
      }
    }
    return candidates;
  }

  // Takes nodes out of the claims of lower classes.
  void BreakClaims(const Job& job, const std::vector<NodeId>& nodes) {
    for (const NodeId node : nodes) {
      const auto it = claimed_by_.find(node);
      if (it != claimed_by_.end() && it->second != &job) {
        DropClaim(*it->second);
      }
    }
  }

  void KeepClaim(const Job& job, const std::vector<NodeId>& nodes) {
    claims_[job.id] = nodes;
    for (const NodeId node : nodes) {
      claimed_by_[node] = &job;
    }
  }

  void ForgetClaim(const Job& job) {
    claims_.erase(job.id);
    std::erase_if(claimed_by_, [&](const auto& entry) { return entry.second == &job; });
  }

  void DropClaim(const Job& job) {
    decision_.proposals.emplace_back(ClaimDropped{job.id});
    ForgetClaim(job);
  }

  // Victims whose nodes no higher class wants any more go on, unless they wait at their stop step
  // already: its beneficiary started elsewhere, was cancelled or held, or gave up.
  void LetVictimsGoOn() {
    for (const JobId id : state_.live) {
      const Job& victim = state_.jobs.at(id);
      if (MayGoOn(victim) && !IsWanted(victim)) {
        decision_.proposals.emplace_back(SuspendWithdrawn{id});
      }
    }
  }

  [[nodiscard]] bool IsWanted(const Job& victim) const {
    const std::vector<NodeId>& nodes = AllocationOf(victim)->nodes;
    return std::any_of(nodes.begin(), nodes.end(), [&](NodeId node) {
      const auto claim = claimed_by_.find(node);
      return claim != claimed_by_.end() && claim->second->spec.priority > victim.spec.priority &&
             state_.occupants[node.value()].job == victim.id;
    });
  }

  const ClusterState& state_;
  const Policy& policy_;
  Instant now_;
  Decision decision_;
  std::map<JobId, std::vector<NodeId>> claims_;               // as this pass leaves them
  std::map<NodeId, const Job*> claimed_by_;                   // the same by node
  std::set<NodeId> taken_;                                    // by this pass
  std::set<JobId> asked_;                                     // to leave, by this pass
  std::map<std::pair<std::string, int32_t>, JobId> blocked_;  // group and class → job in front
  uint32_t cross_zone_jobs_ = 0;
};

}  // namespace

Decision Decide(const ClusterState& state, const Policy& policy, Instant now) {
  return Planner(state, policy, now).Run();
}

}  // namespace tide
