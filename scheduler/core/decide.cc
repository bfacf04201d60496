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
        for (const NodeId node : claim->nodes) {
          claimed_by_[node] = &job;
        }
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

  // Nodes a job may use now: idle, healthy, not taken in this pass, not claimed by a job of its
  // own or a higher class.
  [[nodiscard]] bool MayUse(const Job& job, const Node& node) const {
    if (!TakesWork(node) || taken_.contains(node.id)) {
      return false;
    }
    const auto claim = claimed_by_.find(node.id);
    return claim == claimed_by_.end() || claim->second == &job ||
           claim->second->spec.priority < job.spec.priority;
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

  [[nodiscard]] std::vector<NodeId> LeavingFor(const Job& job) const {
    std::vector<NodeId> nodes;
    for (const JobId id : state_.live) {
      const Job& other = state_.jobs.at(id);
      if (IsLeaving(other)) {
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

  [[nodiscard]] PlacementRequest RequestOf(const Job& job) const {
    PlacementRequest request;
    request.nodes = job.spec.nodes;
    request.gpus_per_node = job.spec.gpus_per_node;
    request.group = job.spec.group;
    request.zone = job.spec.zone;
    request.cross_zone_free = cross_zone_jobs_ < policy_.cross_zone_jobs_max;
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
    if (const JobId beneficiary = queued.after_beneficiary; beneficiary != JobId() &&
                                                            state_.waiting.contains(beneficiary) &&
                                                            !placed_.contains(beneficiary)) {
      Explain(job, ReasonYielded(beneficiary));
      return;
    }
    const std::pair queue(job.spec.group, job.spec.priority);
    if (const auto ahead = blocked_.find(queue); ahead != blocked_.end() && !queued.claim) {
      Explain(job, ReasonAhead(ahead->second));
      return;
    }
    const std::vector<NodeId> idle = IdleFor(job);
    PlacementResult placement = Place(state_, RequestOf(job), idle);
    if (!placement.nodes.empty()) {
      Start(job, placement.nodes);
      return;
    }
    if (queued.claim && ClaimHolds(job, *queued.claim)) {
      taken_.insert(queued.claim->nodes.begin(), queued.claim->nodes.end());
      Explain(job, ReasonClaim(state_, *queued.claim));
      return;
    }
    if (queued.claim) {
      DropClaim(job);
      Explain(job, ReasonReplanning());
      return;  // Step decides again on the state without it
    }
    if (!Claim(job, idle)) {
      blocked_.emplace(queue, job.id);
      Explain(job, ReasonNoRoom(state_, job, placement.unplaced));
    }
  }

  // A claim is worth keeping while each of its nodes is idle or about to be.
  [[nodiscard]] bool ClaimHolds(const Job& job, const tide::Claim& claim) const {
    return std::all_of(claim.nodes.begin(), claim.nodes.end(), [&](NodeId id) {
      const JobId occupant = state_.occupants[id.value()].job;
      return MayUse(job, state_.nodes[id.value()]) &&
             (occupant == JobId() || IsLeaving(state_.jobs.at(occupant)));
    });
  }

  void Start(const Job& job, const std::vector<NodeId>& nodes) {
    BreakClaims(job, nodes);
    const auto& queued = std::get<Queued>(job.phase);
    if (queued.claim) {
      WithdrawVictims(job, *queued.claim);
    }
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
    placed_.insert(job.id);
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
    std::set<const Job*> losers;
    for (const NodeId node : nodes) {
      const auto it = claimed_by_.find(node);
      if (it != claimed_by_.end() && it->second != &job) {
        losers.insert(it->second);
      }
    }
    for (const Job* loser : losers) {
      decision_.proposals.emplace_back(ClaimDropped{loser->id});
      std::erase_if(claimed_by_, [&](const auto& entry) { return entry.second == loser; });
    }
  }

  void DropClaim(const Job& job) {
    decision_.proposals.emplace_back(ClaimDropped{job.id});
    WithdrawVictims(job, *std::get<Queued>(job.phase).claim);
    std::erase_if(claimed_by_, [&](const auto& entry) { return entry.second == &job; });
  }

  // Victims that have not reached their stop step yet go on.
  void WithdrawVictims(const Job& job, const tide::Claim& claim) {
    for (const JobId id : claim.victims) {
      const Job& victim = state_.jobs.at(id);
      const auto* saving = std::get_if<Saving>(&victim.phase);
      if (saving != nullptr && saving->cause == StopCause::kPreempted &&
          saving->beneficiary == job.id && !victim.attempts.back().parked_at.is_set()) {
        decision_.proposals.emplace_back(SuspendWithdrawn{id});
      }
    }
  }

  const ClusterState& state_;
  const Policy& policy_;
  Instant now_;
  Decision decision_;
  std::map<NodeId, const Job*> claimed_by_;
  std::set<NodeId> taken_;                                    // by this pass
  std::set<JobId> placed_;                                    // by this pass
  std::set<JobId> asked_;                                     // to leave, by this pass
  std::map<std::pair<std::string, int32_t>, JobId> blocked_;  // group and class → job in front
  uint32_t cross_zone_jobs_ = 0;
};

}  // namespace

Decision Decide(const ClusterState& state, const Policy& policy, Instant now) {
  return Planner(state, policy, now).Run();
}

}  // namespace tide
