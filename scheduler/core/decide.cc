#include "scheduler/core/decide.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "scheduler/core/policy/capacity.h"
#include "scheduler/core/policy/order.h"
#include "scheduler/core/policy/quota.h"
#include "scheduler/core/policy/runners.h"
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

JobId BeneficiaryOf(const Job& job) {
  const auto* saving = std::get_if<Saving>(&job.phase);
  return saving != nullptr ? saving->beneficiary : JobId();
}

// What could not be had: a job that wants as much of the same, and goes no further before, cannot
// have it either. So the search for victims is not made for each of thousands of waiting jobs.
struct Refusal {
  std::string zone;
  uint32_t nodes = 0;
  std::optional<Part> part;
  int64_t use = 0;
  Standing standing = Standing::kNoRow;
  std::vector<Reason> reasons;
};

// One pass over the waiting jobs. Keeps its own picture of what is taken, so that the proposals
// of one pass never contradict each other.
class Planner {
 public:
  Planner(const ClusterState& state, const Fabric& fabric, const Policy& policy, Instant now)
      : state_(state),
        fabric_(fabric),
        policy_(policy),
        now_(now),
        shares_(state, policy, now),
        quotas_(state, fabric, policy, now),
        capacity_(state, fabric),
        runners_(state, policy, shares_, quotas_, now) {}

  Decision Run() {
    ReadState();
    EvacuateDrainingNodes();
    std::map<int32_t, std::vector<const Job*>, std::greater<>> classes;
    for (const JobId id : state_.waiting) {
      const Job& job = state_.jobs.at(id);
      classes[ClassOf(job)].push_back(&job);
    }
    for (const auto& [priority, jobs] : classes) {
      refusals_.clear();
      ahead_.clear();
      WaitingOrder order(jobs, shares_);
      while (const Job* job = order.Next()) {
        if (Plan(*job)) {
          order.Charge(policy_.minimum_run.millis() * ChargedGpus(job->spec));
        }
      }
      if (!ahead_.empty()) {
        decision_.wake_at = std::min(decision_.wake_at, runners_.NextChange(priority));
      }
    }
    LetVictimsGoOn();
    decision_.wake_at =
        std::min({decision_.wake_at, quotas_.NextChange(), runners_.NextDemotion()});
    return std::move(decision_);
  }

 private:
  void ReadState() {
    for (const JobId id : state_.waiting) {
      const Job& job = state_.jobs.at(id);
      if (const auto& claim = std::get<Queued>(job.phase).claim) {
        claims_[id] = *claim;
      }
    }
    for (const JobId id : state_.live) {
      const Job& job = state_.jobs.at(id);
      if (job.spec.nodes > 1 && fabric_.Crosses(AllocationOf(job)->nodes)) {
        ++cross_zone_jobs_;
      }
    }
    for (const Node& node : state_.nodes) {
      if (!TakesWork(node)) {
        ++out_of_service_[node.identity.group];
      }
    }
  }

  // An operator's drain asks the job on the node to save and move; a fault's drain waits for its
  // end (health.md section 2).
  void EvacuateDrainingNodes() {
    for (const Node& node : state_.nodes) {
      if (node.state != NodeState::kDraining || node.actor == "tide") {
        continue;
      }
      for (const Occupant& occupant : state_.uses[node.id.value()].tasks) {
        const Job& job = state_.jobs.at(occupant.job);
        if (!IsLeaving(job) && asked_.insert(job.id).second) {
          decision_.proposals.emplace_back(
              SuspendRequested{job.id,
                               StopCause::kDrained,
                               JobId(),
                               now_ + NoticeOf(job),
                               node.identity.name + " is being drained: " + node.reason});
        }
      }
    }
  }

  [[nodiscard]] Duration NoticeOf(const Job& job) const {
    return std::min(job.spec.suspend_notice, policy_.suspend_notice_max);
  }

  void Explain(const Job& job, std::vector<Reason> reasons) {
    decision_.explanations.push_back({job.id, std::move(reasons)});
  }

  // --- who may use what ----------------------------------------------------------------------

  [[nodiscard]] int32_t ClassOf(const Job& job) const { return quotas_.ClassOf(job); }
  [[nodiscard]] int32_t ClassOf(JobId job) const { return ClassOf(state_.jobs.at(job)); }

  // Can `job` count on the nodes of `other`? Not when `other` leaves for somebody else of its class
  // or a higher one only: it goes on when that one gives up.
  [[nodiscard]] bool LeavesFor(const Job& job, const Job& other) const {
    return IsLeaving(other) &&
           (!MayGoOn(other) || BeneficiaryOf(other) == job.id || ClassOf(other) < ClassOf(job));
  }

  // Healthy, not taken in this pass, not claimed by another job of its own or a higher class.
  [[nodiscard]] bool MayUse(const Job& job, NodeId node) const {
    return TakesWork(state_.nodes[node.value()]) && !capacity_.IsTaken(node) &&
           std::ranges::none_of(ClaimantsOf(node), [&](JobId claimant) {
             return claimant != job.id && ClassOf(claimant) >= ClassOf(job);
           });
  }

  // As this pass leaves them.
  [[nodiscard]] std::vector<JobId> ClaimantsOf(NodeId node) const {
    std::vector<JobId> claimants = state_.uses[node.value()].claimants;
    if (const auto made = made_claims_.find(node); made != made_claims_.end()) {
      claimants.push_back(made->second);
    }
    std::erase_if(claimants, [&](JobId claimant) { return !claims_.contains(claimant); });
    return claimants;
  }

  // Idle nodes with those that only lower classes, or the job itself, have claimed.
  [[nodiscard]] FreeNodes IdleFor(const Job& job) const {
    FreeNodes free = capacity_.idle();
    for (const auto& [claimant, claim] : claims_) {
      for (const NodeId node : claim.nodes) {
        if (state_.uses[node.value()].idle() && MayUse(job, node) && !capacity_.IsParted(node)) {
          free.Add(node);
        }
      }
    }
    return free;
  }

  // Claims count like jobs: nobody is asked to leave for a gang that may not start then.
  [[nodiscard]] bool MayCross(const Job& job) const {
    uint32_t crossing = cross_zone_jobs_;
    for (const auto& [claimant, claim] : claims_) {
      if (claimant != job.id && claim.nodes.size() > 1 && fabric_.Crosses(claim.nodes) &&
          ClassOf(claimant) >= ClassOf(job)) {
        ++crossing;
      }
    }
    return crossing < policy_.cross_zone_jobs_max;
  }

  [[nodiscard]] PlacementRequest RequestOf(const Job& job) const {
    PlacementRequest request;
    request.nodes = job.spec.nodes;
    request.group = job.spec.group;
    request.zone = job.spec.zone;
    request.cross_zone_free = job.spec.nodes == 1 || MayCross(job);
    if (!job.attempts.empty()) {
      for (const Task& task : job.attempts.back().tasks) {
        request.former.push_back(task.node);
      }
    }
    return request;
  }

  // The part it takes on the largest nodes of its group, or nothing: whole nodes.
  [[nodiscard]] std::optional<Part> WantedPart(const Job& job) const {
    const int group = fabric_.FindGroup(job.spec.group);
    return group < 0 ? std::nullopt
                     : PartOf(job.spec, fabric_.groups[static_cast<size_t>(group)].largest);
  }

  // --- one job -------------------------------------------------------------------------------

  // True when nodes were found, now or with victims.
  bool Plan(const Job& job) {
    const auto& queued = std::get<Queued>(job.phase);
    if (queued.not_before > now_) {
      decision_.wake_at = std::min(decision_.wake_at, queued.not_before);
      Explain(job, {{.code = ReasonCode::kBackoff, .until = queued.not_before}});
      return false;
    }
    // A transaction that was given up frees its victims: they do not wait for what cannot start.
    if (claims_.contains(queued.after_beneficiary)) {
      Explain(job, {{.code = ReasonCode::kPreemptYielded, .other = queued.after_beneficiary}});
      return false;
    }
    if (claims_.contains(job.id) && !ClaimHolds(job)) {
      DropClaim(job.id);
    }
    const std::optional<Part> part = WantedPart(job);
    const Standing standing = quotas_.Check(job);
    if (standing == Standing::kOverLimit) {
      RefuseOverQuota(job, part);
      return false;
    }
    if (claims_.contains(job.id) && StartOnClaim(job)) {
      return true;
    }
    if (const Refusal* refusal = FindRefusal(job, part, standing)) {
      ExplainWaiting(job, refusal->reasons);
      return false;
    }
    const PlacementRequest request = RequestOf(job);
    Refusal refusal{job.spec.zone, job.spec.nodes, part, shares_.UseOf(job), standing, {}};
    if (part ? StartPart(job, request) : StartWhole(job, request, refusal.reasons)) {
      return true;
    }
    if (const auto own = claims_.find(job.id); own != claims_.end()) {
      Explain(job, {WaitsFor(own->second)});
      return true;
    }
    if (Claim(job, part, request, standing)) {
      return true;
    }
    if (part) {
      refusal.reasons.push_back(Fragmentation(job));
    }
    AddGroupReasons(job, standing, refusal.reasons);
    ExplainWaiting(job, refusal.reasons);
    ahead_[job.spec.group].push_back(job.id);
    if (job.failure_restarts == 0) {
      refusals_[job.spec.group].push_back(std::move(refusal));
    }
    return false;
  }

  // It does not stand before others: they could start without it, and it not without its quota.
  void RefuseOverQuota(const Job& job, const std::optional<Part>& part) {
    if (claims_.contains(job.id)) {
      DropClaim(job.id);  // its quota ended while its victims left
    }
    std::vector<Reason> reasons = quotas_.ReasonsFor(job);
    if (const Refusal* refusal = FindRefusal(job, part, Standing::kOverLimit)) {
      reasons.insert(reasons.end(), refusal->reasons.begin(), refusal->reasons.end());
    }
    Explain(job, std::move(reasons));
  }

  [[nodiscard]] const Refusal* FindRefusal(const Job& job,
                                           const std::optional<Part>& part,
                                           Standing standing) const {
    const auto it = refusals_.find(job.spec.group);
    if (it == refusals_.end() || claims_.contains(job.id)) {
      return nullptr;
    }
    const int64_t use = shares_.UseOf(job);
    const auto found = std::ranges::find_if(it->second, [&](const Refusal& refusal) {
      return refusal.zone == job.spec.zone && refusal.part.has_value() == part.has_value() &&
             (part ? Covers(*part, *refusal.part) : job.spec.nodes >= refusal.nodes) &&
             use >= refusal.use &&
             (standing == Standing::kOverLimit || standing == refusal.standing);
    });
    return found == it->second.end() ? nullptr : &*found;
  }

  bool StartPart(const Job& job, const PlacementRequest& request) {
    const auto placed = capacity_.PlacePart(job, request);
    if (!placed) {
      return false;
    }
    Start(job, {placed->node}, placed->part);
    return true;
  }

  // What nobody has claimed comes first: the claim of a lower class is broken only for need.
  bool StartWhole(const Job& job, const PlacementRequest& request, std::vector<Reason>& reasons) {
    PlacementResult placement = capacity_.PlaceWhole(job, request, capacity_.idle());
    if (placement.nodes.empty() && !claims_.empty()) {
      const FreeNodes idle = IdleFor(job);
      if (Fits(idle, request)) {
        placement = capacity_.PlaceWhole(job, request, idle);
      }
    }
    if (!placement.nodes.empty()) {
      Start(job, placement.nodes, std::nullopt);
      return true;
    }
    if (placement.cross_zone_busy) {
      reasons.push_back({.code = ReasonCode::kCrossZoneBusy});
    }
    reasons.push_back({.code = ReasonCode::kZoneCapacity,
                       .count = MostInOneZone(request),
                       .fits_across = placement.cross_zone_would_fit});
    return false;
  }

  [[nodiscard]] uint32_t MostInOneZone(const PlacementRequest& request) const {
    uint32_t most = 0;
    const int group = fabric_.FindGroup(request.group);
    if (group >= 0) {
      const FabricGroup& in = fabric_.groups[static_cast<size_t>(group)];
      const bool named = request.zone != "single" && request.zone != "cross-ok";
      for (uint32_t zone = in.first_zone; zone < in.first_zone + in.zone_count; ++zone) {
        if (!named || fabric_.zones[zone].name == request.zone) {
          most = std::max(most, capacity_.idle().CountInZone(zone));
        }
      }
    }
    return most;
  }

  [[nodiscard]] Reason Fragmentation(const Job& job) const {
    Reason reason{.code = ReasonCode::kFragmented};
    for (const Node& node : state_.nodes) {
      if (node.identity.group != job.spec.group || !TakesWork(node)) {
        continue;
      }
      if (const auto room = capacity_.Room(node.id, job.id)) {
        reason.count += room->gpus;
        reason.largest = std::max(reason.largest, room->gpus);
      }
    }
    return reason;
  }

  void AddGroupReasons(const Job& job, Standing standing, std::vector<Reason>& reasons) {
    if (fabric_.FindGroup(job.spec.group) < 0) {
      reasons.push_back({.code = ReasonCode::kGroupUnknown});
    }
    if (const Runner* safe = SafestOfClass(job, standing)) {
      reasons.push_back({.code = ReasonCode::kPreemptProtected,
                         .other = safe->job->id,
                         .until = SafeUntil(*safe, standing)});
    }
    if (const uint32_t count = out_of_service_[job.spec.group]; count > 0) {
      reasons.push_back({.code = ReasonCode::kNodesUnhealthy, .count = count});
    }
  }

  // From waiting jobs of its class that stand so to their quotas.
  [[nodiscard]] static Instant SafeUntil(const Runner& runner, Standing standing) {
    return standing == Standing::kWithin ? std::min(runner.safe_until, runner.reclaimed_until)
                                         : runner.safe_until;
  }

  // A runner of its class that is safe from it for a known time.
  [[nodiscard]] const Runner* SafestOfClass(const Job& job, Standing standing) const {
    const Runner* safest = nullptr;
    const int32_t priority = ClassOf(job);
    for (const Runner& runner : runners_.all()) {
      const Instant until = SafeUntil(runner, standing);
      if (!runner.leaving && runner.priority == priority &&
          runner.job->spec.group == job.spec.group && runner.job->user != job.user &&
          until > now_ && until != Instant::Never() &&
          (safest == nullptr || until > SafeUntil(*safest, standing))) {
        safest = &runner;
      }
    }
    return safest;
  }

  void ExplainWaiting(const Job& job, std::vector<Reason> reasons) {
    const auto ahead = ahead_.find(job.spec.group);
    if (ahead != ahead_.end()) {
      reasons.push_back({.code = ReasonCode::kOrderAhead,
                         .other = ahead->second.front(),
                         .count = static_cast<uint32_t>(ahead->second.size())});
    }
    Explain(job, std::move(reasons));
  }

  void Start(const Job& job, const std::vector<NodeId>& nodes, const std::optional<Part>& part) {
    if (!part) {
      BreakClaims(job, nodes);
    }
    claims_.erase(job.id);  // starting ends it
    quotas_.Add(job);
    const uint64_t last = job.attempts.empty() ? 0 : job.attempts.back().epoch.value();
    JobPlaced placed{job.id, Epoch(last + 1), {nodes, 0, part}, false};
    placed.allocation.master_port = ChoosePort(job, placed.epoch, nodes.front());
    placed.opportunistic = ahead_.contains(job.spec.group);
    if (part) {
      capacity_.TakePart(nodes.front(), *part);
    } else {
      capacity_.TakeWhole(nodes);
    }
    if (nodes.size() > 1 && fabric_.Crosses(nodes)) {
      ++cross_zone_jobs_;
    }
    decision_.proposals.emplace_back(std::move(placed));
  }

  // Another attempt takes another port: a port still in use is not met twice. Two jobs that begin
  // on one node take different ones.
  [[nodiscard]] uint32_t ChoosePort(const Job& job, Epoch epoch, NodeId node) {
    const NodeIdentity& first = state_.nodes[node.value()].identity;
    if (first.port_low == 0 || first.port_high < first.port_low) {
      return 0;
    }
    std::set<uint32_t>& used = ports_[node];
    for (const Occupant& occupant : state_.uses[node.value()].tasks) {
      used.insert(state_.jobs.at(occupant.job).attempts.back().master_port);
    }
    const uint64_t count = first.port_high - first.port_low + 1;
    const uint64_t start = job.id.value() * 31 + epoch.value();
    for (uint64_t i = 0; i < count; ++i) {
      const uint32_t port = first.port_low + static_cast<uint32_t>((start + i) % count);
      if (used.insert(port).second) {
        return port;
      }
    }
    return first.port_low;
  }

  // --- transactions --------------------------------------------------------------------------

  // Claims nodes that are leaving anyway, or asks victims for them.
  bool Claim(const Job& job,
             const std::optional<Part>& part,
             const PlacementRequest& request,
             Standing standing) {
    const Contender contender{&job, ClassOf(job), standing, shares_.UseOf(job)};
    const TakeRules rules{
        [&](NodeId node) { return MayUse(job, node) && (part || !capacity_.IsParted(node)); },
        [&](const Runner& runner) { return LeavesFor(job, *runner.job); },
        [&](const Runner& runner) {
          // A job that keeps failing does not stop others on each retry.
          return job.failure_restarts == 0 && !asked_.contains(runner.job->id) &&
                 runner.job->spec.group == job.spec.group && runners_.MayTake(contender, runner);
        }};
    VictimPlan plan =
        part ? ChoosePartVictims(state_, capacity_, {job, request}, runners_, rules)
             : ChooseVictims(state_, capacity_, {job, request}, IdleFor(job), runners_, rules);
    if (plan.nodes.empty()) {
      return false;
    }
    const tide::Claim claim{plan.nodes, plan.victims, plan.part};
    BreakClaims(job, claim.nodes);
    claims_[job.id] = claim;
    quotas_.Add(job);
    decision_.proposals.emplace_back(ClaimMade{job.id, claim});
    for (const JobId victim : claim.victims) {
      const Job& leaver = state_.jobs.at(victim);
      asked_.insert(victim);
      decision_.proposals.emplace_back(
          SuspendRequested{victim,
                           StopCause::kPreempted,
                           job.id,
                           now_ + NoticeOf(leaver),
                           "gives its nodes to " + FormatJobName(job.id.value()) + " (" +
                               PriorityName(contender.priority) + ")"});
    }
    KeepForClaim(job.id, claim);
    Explain(job, {WaitsFor(claim)});
    return true;
  }

  // From now on nobody else of this pass takes it.
  void KeepForClaim(JobId job, const tide::Claim& claim) {
    for (const NodeId node : claim.nodes) {
      made_claims_[node] = job;
    }
    if (claim.part) {
      capacity_.TakePart(claim.nodes.front(), *claim.part);
    } else {
      capacity_.TakeWhole(claim.nodes);
    }
  }

  [[nodiscard]] Reason WaitsFor(const tide::Claim& claim) const {
    Reason reason{.code = ReasonCode::kPreemptInProgress,
                  .count = static_cast<uint32_t>(claim.nodes.size())};
    for (const NodeId node : claim.nodes) {
      if (reason.other == JobId()) {
        reason.other = state_.uses[node.value()].first().job;
      }
    }
    return reason;
  }

  // A claim is worth keeping while each of its nodes is idle or about to be.
  [[nodiscard]] bool ClaimHolds(const Job& job) const {
    const tide::Claim& claim = claims_.at(job.id);
    for (const NodeId node : claim.nodes) {
      if (!MayUse(job, node)) {
        return false;
      }
      Part room = capacity_.Room(node, job.id).value_or(Part{});
      bool all_leave = true;
      for (const Occupant& occupant : state_.uses[node.value()].tasks) {
        const Job& other = state_.jobs.at(occupant.job);
        if (!LeavesFor(job, other)) {
          all_leave = false;
        } else if (const auto& part = AllocationOf(other)->part) {
          room.gpus += part->gpus;
          room.cpus += part->cpus;
          room.memory_bytes += part->memory_bytes;
          room.devices |= part->devices;
        }
      }
      if (!all_leave && (!claim.part || !Covers(room, *claim.part))) {
        return false;
      }
    }
    return claim.nodes.size() == 1 || !fabric_.Crosses(claim.nodes) || MayCross(job);
  }

  bool StartOnClaim(const Job& job) {
    const tide::Claim claim = claims_.at(job.id);
    if (!claim.part) {
      const bool idle = std::ranges::all_of(
          claim.nodes, [&](NodeId node) { return state_.uses[node.value()].idle(); });
      if (idle) {
        Start(job, claim.nodes, std::nullopt);
      }
      return idle;
    }
    const auto placed = capacity_.OnNode(job, claim.nodes.front());
    if (placed) {
      // What it takes was kept for it already.
      capacity_.Unclaim(claim);
      Start(job, {placed->node}, placed->part);
    }
    return placed.has_value();
  }

  // Takes nodes out of the claims of lower classes; MayUse has seen that there are no others.
  void BreakClaims(const Job& job, const std::vector<NodeId>& nodes) {
    for (const NodeId node : nodes) {
      for (const JobId claimant : ClaimantsOf(node)) {
        if (ClassOf(claimant) < ClassOf(job)) {
          DropClaim(claimant);
        }
      }
    }
  }

  void DropClaim(JobId claimant) {
    decision_.proposals.emplace_back(ClaimDropped{claimant});
    const tide::Claim claim = claims_.at(claimant);
    claims_.erase(claimant);
    quotas_.Remove(state_.jobs.at(claimant));
    capacity_.Unclaim(claim);
  }

  // Victims whose nodes nobody who may have them wants any more go on, unless they wait at their
  // stop step already: its beneficiary started elsewhere, was cancelled or held, or gave up.
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
    return std::ranges::any_of(claims_, [&](const auto& entry) {
      const auto& [claimant, claim] = entry;
      if (claimant != BeneficiaryOf(victim) && ClassOf(claimant) <= ClassOf(victim)) {
        return false;
      }
      return std::ranges::any_of(claim.nodes, [&](NodeId node) {
        return std::ranges::find(nodes, node) != nodes.end() &&
               std::ranges::find(state_.uses[node.value()].tasks, victim.id, &Occupant::job) !=
                   state_.uses[node.value()].tasks.end();
      });
    });
  }

  const ClusterState& state_;
  const Fabric& fabric_;
  const Policy& policy_;
  Instant now_;
  Shares shares_;
  Quotas quotas_;
  Capacity capacity_;
  Runners runners_;
  Decision decision_;
  std::map<JobId, tide::Claim> claims_;                   // as this pass leaves them
  std::map<NodeId, JobId> made_claims_;                   // by this pass
  std::set<JobId> asked_;                                 // to leave, by this pass
  std::map<std::string, std::vector<Refusal>> refusals_;  // by group, of the class at hand
  std::map<std::string, std::vector<JobId>> ahead_;       // the same: who waits
  std::map<std::string, uint32_t> out_of_service_;        // nodes by group
  std::map<NodeId, std::set<uint32_t>> ports_;
  uint32_t cross_zone_jobs_ = 0;
};

}  // namespace

Decision Decide(const ClusterState& state, const Policy& policy, Instant now) {
  Decision due;
  CollectDue(state, policy, now, due);
  if (!due.proposals.empty()) {
    return due;  // time changes the state first; Step decides again
  }
  std::optional<Fabric> fresh;
  if (state.fabric_stale) {
    fresh = BuildFabric(state.nodes);
  }
  Decision decision = Planner(state, fresh ? *fresh : state.fabric, policy, now).Run();
  decision.wake_at = std::min(decision.wake_at, due.wake_at);
  for (const JobId id : state.held) {
    decision.explanations.push_back({id, {{.code = ReasonCode::kHeldUser}}});
  }
  return decision;
}

}  // namespace tide
