#include "scheduler/core/decide.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "scheduler/core/doomed.h"
#include "scheduler/core/evacuation.h"
#include "scheduler/core/incidents.h"
#include "scheduler/core/model/index.h"
#include "scheduler/core/policy/answers.h"
#include "scheduler/core/policy/capacity.h"
#include "scheduler/core/policy/crossing.h"
#include "scheduler/core/policy/evidence.h"
#include "scheduler/core/policy/leaving.h"
#include "scheduler/core/policy/maintenance_plan.h"
#include "scheduler/core/policy/master_ports.h"
#include "scheduler/core/policy/order.h"
#include "scheduler/core/policy/pass_claims.h"
#include "scheduler/core/policy/quota.h"
#include "scheduler/core/policy/refusals.h"
#include "scheduler/core/policy/replacement.h"
#include "scheduler/core/policy/runners.h"
#include "scheduler/core/policy/size.h"
#include "scheduler/core/policy/victims.h"
#include "scheduler/core/policy/waiting_classes.h"
#include "scheduler/core/removed_users.h"
#include "scheduler/core/timers.h"

namespace tide {
namespace {

// Claims of one pass: a search for victims costs some 0.1 ms on ten thousand nodes.
constexpr uint32_t kClaimsMax = 32;

// One pass over the waiting jobs. Keeps its own picture of what is taken, so that the proposals
// of one pass never contradict each other.
class Planner {
 public:
  Planner(const ClusterState& state, const Policy& policy, Instant now)
      : state_(state),
        fabric_(state.fabric),
        policy_(policy),
        now_(now),
        shares_(state, policy, now),
        quotas_(state, state.fabric, policy, now),
        capacity_(state, state.fabric),
        kept_(state),
        evidence_(state, capacity_, quotas_, now),
        claims_(state, quotas_),
        maintenance_(state, now),
        crossing_(state, policy, quotas_, claims_.all()) {}

  Decision Run() {
    for (const auto& [keeper, nodes] : kept_.all()) {
      capacity_.Withhold(nodes);
    }
    EvacuateDrainingNodes(state_, policy_, now_, asked_, decision_);
    WakeForRights(state_.queue.FirstVariedAfter(now_ - policy_.minimum_run));
    const WaitingClasses classes(state_, policy_, shares_, quotas_);
    for (const auto& [priority, owners] : classes.all()) {
      PlanClass(priority, owners);
    }
    LetVictimsGoOn();
    decision_.wake_at = std::min(decision_.wake_at, quotas_.NextChange());
    if (runners_) {
      // Else nobody waits for what runs, and in which class that stands makes no difference.
      decision_.wake_at = std::min(decision_.wake_at, runners_->NextDemotion());
    }
    decision_.looked = true;
    return std::move(decision_);
  }

 private:
  void PlanClass(int32_t priority, const std::vector<OwnerJobs>& owners) {
    refusals_.Clear();
    ahead_.clear();
    const AfterFault after_fault(owners);
    WaitingOrder first(after_fault.owners(), shares_);
    while (const WaitingJob* next = first.Next()) {
      const Job& job = state_.jobs.at(next->id);
      if (Plan(job, after_fault.owners()[first.owner()].owner, next)) {
        first.Charge(policy_.minimum_run.millis() * ChargedGpus(job.spec));
      }
    }
    refusals_.Clear();  // those had a right that others lack
    ClassAnswers answers({state_, policy_, quotas_, ahead_, now_},
                         [this]() -> const Runners& { return runners(); });
    WaitingOrder order(owners, shares_);
    while (const WaitingJob* next = order.Next()) {
      if (next->after_fault) {
        continue;
      }
      const uint32_t owner = owners[order.owner()].owner;
      Bar(maintenance_.empty() ? 0 : maintenance_.CountBarred(state_.jobs.at(next->id)));
      const ClassAnswers::Known known = answers.Find(*next, owner, turn_, barred_);
      if (known.reasons != nullptr) {
        WakeForRights(next->since);
        if (order.bundle() && maintenance_.empty()) {  // else their time limits tell them apart
          PassOver(order, {priority, owner}, *next, known);
        } else {
          decision_.explanations.Add(next->id, known.reasons->List(known.reasons->CountAhead()));
        }
        continue;
      }
      const uint64_t turn = turn_;
      order_turn_ = order.turn();
      const Job& job = state_.jobs.at(next->id);
      if (Plan(job, owner, next)) {
        order.Charge(policy_.minimum_run.millis() * ChargedGpus(job.spec));
      } else if (next->plain) {
        answers.Add(next->shape,
                    {turn,
                     &job,
                     HoldingOf(job),
                     standing_,
                     refused_ ? refused_->since : next->since,
                     refused_ ? refused_->footing : FootingOf(job),
                     barred_,
                     told_,
                     found_,
                     {{row_set_, waits_}}});
      }
      if (turn_ != turn) {
        order.TakeUp();
      }
    }
    if (std::ranges::any_of(ahead_, [](const auto& each) { return !each.second->empty(); })) {
      decision_.wake_at = std::min(decision_.wake_at, runners().NextChange(priority));
    }
  }

  // Leaves out what the job at hand may not start on.
  void Bar(size_t nodes) {
    if (barred_ != nodes) {
      barred_ = nodes;
      maintenance_.Bar(nodes, capacity_);
    }
  }

  // Tells jobs of a bundle what the first of them is told. Of jobs that have not run those that ask
  // others to leave are told apart: the first of the others shows when time alone changes that.
  void PassOver(WaitingOrder& order,
                const WaitingJobs::Key& queue,
                const WaitingJob& job,
                const ClassAnswers::Known& known) {
    const Bundle bundle = *order.bundle();
    decision_.explanations.AddBundle(queue, bundle, job.id, known.reasons, order.turn());
    const bool all = bundle.varied || IsPatient(job.since);
    order.PassOver({.first_since = known.since,
                    .last_since = all ? Instant::Never() : now_ - policy_.minimum_run,
                    .slowdown = known.slowdown,
                    .now = now_,
                    .minimum_run = policy_.minimum_run});
  }

  [[nodiscard]] bool IsPatient(Instant since) const {
    return tide::IsPatient(since, policy_, now_);
  }

  // Time alone lets it ask others to leave.
  void WakeForRights(Instant since) {
    if (const Instant asks = AsksFrom(since, policy_); asks > now_) {
      decision_.wake_at = std::min(decision_.wake_at, asks);
    }
  }

  void Explain(const Job& job, const std::vector<Reason>& reasons) {
    found_.clear();
    waits_ = std::make_shared<WaitingReasons>(reasons, nullptr);
    decision_.explanations.Add(job.id, waits_->List(0));
  }

  // --- who may use what ----------------------------------------------------------------------

  [[nodiscard]] int32_t ClassOf(const Job& job) const { return quotas_.ClassOf(job); }
  [[nodiscard]] uint32_t UserOf(uint32_t owner) const { return state_.owners.UserNumber(owner); }
  [[nodiscard]] int32_t ClassOf(JobId job) const { return ClassOf(state_.jobs.at(job)); }

  // Can `job` count on the nodes of `other`? Not when `other` leaves for somebody else of its class
  // or a higher one only: it goes on when that one gives up.
  [[nodiscard]] bool LeavesFor(const Job& job, const Job& other) const {
    return IsLeaving(other) &&
           (!MayGoOn(other) || BeneficiaryOf(other) == job.id || ClassOf(other) < ClassOf(job));
  }

  // For a gang of its own or a higher class, which goes on as soon as its tasks are gone.
  [[nodiscard]] bool IsKeptFrom(const Job& job, NodeId node) const {
    const JobId keeper = kept_.KeeperOf(node);
    return keeper != JobId() && ClassOf(keeper) >= ClassOf(job);
  }

  // Healthy, not taken in this pass, not claimed by, or kept for, another job of its own or a
  // higher class.
  [[nodiscard]] bool MayUse(const Job& job, NodeId node) const {
    const bool takes_work = (state_.node_flags[node.value()] & kTakesWork) != 0;
    if (!takes_work || capacity_.IsTaken(node) || IsKeptFrom(job, node) ||
        maintenance_.IsBarred(node, barred_)) {
      return false;
    }
    return !claims_.IsKeptFrom(job.id, ClassOf(job), node);
  }

  [[nodiscard]] bool IsIdleFor(const Job& job, NodeId node) const {
    return state_.uses[node.value()].idle() && MayUse(job, node) && !capacity_.IsParted(node);
  }

  // Idle nodes with those that only lower classes, or the job itself, have claimed or keep.
  [[nodiscard]] FreeNodes IdleFor(const Job& job) const {
    FreeNodes free = capacity_.idle();
    const auto add = [&](const std::vector<NodeId>& nodes) {
      for (const NodeId node : nodes) {
        if (IsIdleFor(job, node)) {
          free.Add(node);
        }
      }
    };
    for (const auto& [claimant, claim] : claims_.all()) {
      add(claim.nodes);
    }
    for (const auto& [keeper, nodes] : kept_.all()) {
      if (ClassOf(keeper) < ClassOf(job)) {
        add(nodes);
      }
    }
    return free;
  }

  // What nobody has claimed; of its former nodes also those that it claims itself, or a lower
  // class.
  [[nodiscard]] FreeNodes UnclaimedFor(const Job& job, const PlacementRequest& request) const {
    FreeNodes free = capacity_.idle();
    for (const NodeId node : request.former) {
      if (IsIdleFor(job, node)) {
        free.Add(node);
      }
    }
    return free;
  }

  [[nodiscard]] PlacementRequest RequestOf(const Job& job) {
    PlacementRequest request;
    request.nodes = job.spec->nodes;
    request.group = job.spec->group;
    request.zone = job.spec->zone;
    request.cross_zone_free = job.spec->nodes == 1 || crossing_.MayCross(job);
    request.boundaries = job.spec->nodes == 1 ? nullptr : crossing_.LeftFor(job);
    request.warm = &state_.warm;
    request.image = job.spec->image;
    AskForFormer(state_, job, request);
    return request;
  }

  // The part it takes on the largest nodes of its group, or nothing: whole nodes.
  [[nodiscard]] std::optional<Part> WantedPart(const Job& job) const {
    const int group = fabric_.FindGroup(job.spec->group);
    return group < 0 ? std::nullopt
                     : PartOf(job.spec, fabric_.groups[static_cast<size_t>(group)].largest);
  }

  // --- one job -------------------------------------------------------------------------------

  // True when nodes were found, now or with victims.
  bool Plan(const Job& job, uint32_t owner, const WaitingJob* line) {
    owner_ = owner;
    row_set_ = quotas_.RowSetOf(owner);
    slowdown_ = &line->slowdown;
    footing_.reset();
    refused_ = nullptr;
    told_ = Told{UserOf(owner), {}, {}, false};
    Bar(maintenance_.CountBarred(job));
    const auto& queued = std::get<Queued>(job.phase);
    if (queued.not_before > now_) {
      decision_.wake_at = std::min(decision_.wake_at, queued.not_before);
      Explain(job, {{.code = ReasonCode::kBackoff, .until = queued.not_before}});
      return false;
    }
    // A transaction that was given up frees its victims: they do not wait for what cannot start.
    if (claims_.Has(queued.after_beneficiary)) {
      Explain(job, {{.code = ReasonCode::kPreemptYielded, .other = queued.after_beneficiary}});
      return false;
    }
    if (claims_.Has(job.id) && !ClaimHolds(job)) {
      DropClaim(job.id);
    }
    const std::optional<Part> part = WantedPart(job);
    const Standing standing = standing_ = quotas_.Check(row_set_, job);
    if (standing == Standing::kOverLimit) {
      RefuseOverQuota(job, part);
      return false;
    }
    if (claims_.Has(job.id) && StartOnClaim(job)) {
      return true;
    }
    WakeForRights(job.state_since);
    // Else its own reasons, but no search for victims where one for less was in vain.
    const auto [in_vain, same] = FindRefusal(job, part, standing);
    if (same != nullptr) {
      refused_ = &same->wish;
      told_ = same->told;
      ExplainWaiting(job, same->reasons);
      return false;
    }
    const PlacementRequest request = RequestOf(job);
    Refusal refusal;
    if (part ? StartPart(job, request) : StartWhole(job, request, standing, refusal.reasons)) {
      return true;
    }
    if (claims_.Has(job.id)) {
      Explain(job, {WaitsFor(claims_.At(job.id))});
      return true;
    }
    if (!in_vain && runners().MayTakeAny(ContenderOf(job, standing)) && MayClaim() &&
        Claim(job, part, request, standing)) {
      return true;
    }
    if (part) {
      refusal.reasons.push_back(FragmentationFor(job, request, *line));
    }
    maintenance_.Tell({job, request, part.has_value()}, barred_, capacity_, refusal.reasons);
    refusal.wish = WishOf(job, part, standing);
    const Contender contender = ContenderOf(job, standing);
    evidence_.AddGroup(contender, runners(), request.boundaries.get(), refusal.reasons);
    told_.safest_user = evidence_.SafestUser(contender, runners());
    told_.turn_user = evidence_.TurnUser(contender, runners());
    told_.spares_own = SparesOwn(contender, runners());
    refusal.told = told_;
    ExplainWaiting(job, refusal.reasons);
    AheadIn(ahead_, job.spec->group)->Add({job.id, job.queue_rank, order_turn_});
    if (!IsRetry(job)) {
      refusals_.Add(job.spec->group, std::move(refusal));
    }
    return false;
  }

  // Returns what no node has enough of: for all plain jobs of a shape the same, until something is
  // taken.
  [[nodiscard]] Reason FragmentationFor(const Job& job,
                                        const PlacementRequest& request,
                                        const WaitingJob& line) {
    if (!line.plain || barred_ > 0) {
      return evidence_.Fragmentation(job, request);
    }
    auto& [turn, reason] = fragmentation_[line.shape];
    if (turn != turn_) {
      turn = turn_;
      reason = evidence_.Fragmentation(job, request);
    }
    return reason;
  }

  // It does not stand before others: they could start without it, and it not without its quota.
  void RefuseOverQuota(const Job& job, const std::optional<Part>& part) {
    if (claims_.Has(job.id)) {
      DropClaim(job.id);  // its quota ended while its victims left
    }
    std::vector<Reason> reasons = quotas_.ReasonsFor(job);
    // What it would lack with a quota, as if it had just come: the same for its owner's other jobs
    // of its shape.
    Wish wish = WishOf(job, part, Standing::kOverLimit);
    wish.since = now_;
    wish.footing = {kNotSlowed, INT64_MAX};
    if (const Refusal* same = refusals_.Find(job.spec->group, wish, UserOf(owner_)).same) {
      told_ = same->told;
      for (Reason reason : same->reasons) {
        reason.beside = true;
        reasons.push_back(std::move(reason));
      }
    }
    Explain(job, reasons);
  }

  // Where thousands may ask others to leave, the next pass goes on: requests are answered
  // meanwhile.
  bool MayClaim() {
    if (claims_made_ < kClaimsMax) {
      return true;
    }
    decision_.goes_on = true;
    return false;
  }

  [[nodiscard]] Wish WishOf(const Job& job, const std::optional<Part>& part, Standing standing) {
    return {.zone = job.spec->zone,
            .gpu_model = job.spec->gpu_model,
            .disk_bytes = job.spec->disk_bytes_per_node,
            .nodes = job.spec->nodes,
            .gpus_per_node = job.spec->gpus_per_node,
            .part = part,
            .bounded = crossing_.IsBounded() && MayLieAcross(job.spec->zone),
            .named_cpus = job.spec->cpus_per_node,
            .named_memory = job.spec->memory_bytes_per_node,
            .since = job.state_since,
            .footing = FootingOf(job),
            .standing = standing,
            .barred = barred_};
  }

  [[nodiscard]] Refusals::Known FindRefusal(const Job& job,
                                            const std::optional<Part>& part,
                                            Standing standing) {
    return claims_.Has(job.id) || refusals_.empty()
               ? Refusals::Known()
               : refusals_.Find(job.spec->group, WishOf(job, part, standing), UserOf(owner_));
  }

  bool StartPart(const Job& job, const PlacementRequest& request) {
    auto placed = capacity_.PlacePart(job, request);
    if (!placed) {
      placed = PlacePartOnKept(job, request);
    }
    if (!placed) {
      return false;
    }
    Start(job, {placed->node}, placed->part);
    return true;
  }

  // On a node that is kept for a gang of a lower class.
  [[nodiscard]] std::optional<Capacity::PartPlacement> PlacePartOnKept(
      const Job& job, const PlacementRequest& request) {
    for (const auto& [keeper, nodes] : kept_.all()) {
      for (const NodeId node : nodes) {
        if (ClassOf(keeper) >= ClassOf(job) || !IsIdleFor(job, node) ||
            !capacity_.Suits(request, node)) {
          continue;
        }
        capacity_.GiveBack(node);
        if (const auto placed = capacity_.OnNode(job, node)) {
          return placed;
        }
        capacity_.Withhold({node});
      }
    }
    return std::nullopt;
  }

  // What nobody has claimed comes first: the claim of a lower class is broken only for need.
  bool StartWhole(const Job& job,
                  const PlacementRequest& request,
                  Standing standing,
                  std::vector<Reason>& reasons) {
    PlacementResult placement = request.after_fault
                                    ? capacity_.PlaceWhole(job, request, UnclaimedFor(job, request))
                                    : capacity_.PlaceWhole(job, request, capacity_.idle());
    if (placement.nodes.empty() && !(claims_.all().empty() && kept_.all().empty())) {
      const FreeNodes idle = IdleFor(job);
      if (Fits(idle, request)) {
        placement = capacity_.PlaceWhole(job, request, idle);
      }
    }
    if (!placement.nodes.empty()) {
      Start(job, placement.nodes, std::nullopt);
      return true;
    }
    evidence_.AddPlacement(ContenderOf(job, standing),
                           request,
                           placement,
                           placement.cross_zone_busy ? crossing_.InTheWayOf(job) : JobId(),
                           runners(),
                           reasons);
    return false;
  }

  // Returns how the job at hand stands to others; worked out once.
  [[nodiscard]] const Footing& FootingOf(const Job& job) {
    if (!footing_) {
      footing_ =
          Footing{slowdown_->At(now_, policy_.minimum_run), runners().HoldsOf(HoldingOf(job))};
    }
    return *footing_;
  }

  [[nodiscard]] Contender ContenderOf(const Job& job, Standing standing) {
    return {&job, owner_, UserOf(owner_), ClassOf(job), standing, FootingOf(job)};
  }

  // Of all live jobs; most passes do without.
  const Runners& runners() {
    if (!runners_) {
      runners_.emplace(state_, policy_, shares_, quotas_, now_);
      for (const auto& [holding, gpus] : given_) {
        runners_->Give(holding, gpus);
      }
    }
    return *runners_;
  }

  // Beside who comes before it.
  void ExplainWaiting(const Job& job, const std::vector<Reason>& reasons) {
    std::vector<Reason> told = reasons;
    if (IsRetry(job)) {
      evidence_.AddRetry(job.spec->group, ClassOf(job));
      std::erase_if(told, [](const Reason& each) { return each.code == ReasonCode::kTurn; });
    }
    if (!policy_.quotas.empty()) {
      found_ = told;
    }
    waits_ =
        ReasonsBeside({state_, policy_, quotas_, ahead_, now_}, job, row_set_, std::move(told));
    decision_.explanations.Add(job.id, waits_->List(waits_->CountAhead()));
  }

  void Start(const Job& job, const std::vector<NodeId>& nodes, const std::optional<Part>& part) {
    if (!part) {
      BreakClaims(job, nodes);
    }
    ++turn_;
    if (!claims_.Erase(job.id)) {  // starting ends it
      Give(HoldingOf(job), ChargedGpus(job.spec));
    }
    quotas_.Add(job);
    const uint64_t last = job.attempts.empty() ? 0 : job.attempts.back().epoch.value();
    JobPlaced placed{job.id, Epoch(last + 1), {nodes, 0, part}, false};
    placed.allocation.master_port = ports_.Choose(state_, job.id, placed.epoch, nodes.front());
    placed.opportunistic = !AheadIn(ahead_, job.spec->group)->empty();
    if (part) {
      capacity_.TakePart(nodes.front(), *part);
    } else {
      capacity_.TakeWhole(nodes);
    }
    crossing_.Start(nodes);
    decision_.proposals.emplace_back(std::move(placed));
  }

  // --- transactions --------------------------------------------------------------------------

  // Claims nodes that are leaving anyway, or asks victims for them.
  bool Claim(const Job& job,
             const std::optional<Part>& part,
             const PlacementRequest& request,
             Standing standing) {
    const Contender contender = ContenderOf(job, standing);
    // A job that keeps failing does not stop others on each retry.
    const bool may_ask = !IsRetry(job);
    const auto group = state_.groups.Find(job.spec->group);
    const TakeRules rules{
        [&](NodeId node) { return MayUse(job, node) && (part || !capacity_.IsParted(node)); },
        [&](const Runner& runner) {
          // LeavesFor, without opening most of them.
          return runner.job->leaving && (runner.priority < contender.priority ||
                                         LeavesFor(job, state_.jobs.at(runner.job->id)));
        },
        [&](const Runner& runner) {
          return may_ask && runner.job->group == group && runners_->MayTake(contender, runner) &&
                 !asked_.contains(runner.job->id);
        }};
    const VictimPlan plan =
        part ? ChoosePartVictims(state_, capacity_, {contender, request}, runners(), rules)
             : ChooseGangVictims(contender, request, rules);
    if (plan.nodes.empty()) {
      return false;
    }
    const tide::Claim claim{plan.nodes, plan.victims, plan.part};
    BreakClaims(job, claim.nodes);
    claims_.Make(job, claim);
    crossing_.ClaimsChanged();
    ++claims_made_;
    ++turn_;
    quotas_.Add(job);
    decision_.proposals.emplace_back(ClaimMade{job.id, claim});
    for (const JobId victim : claim.victims) {
      const Job& leaver = state_.jobs.at(victim);
      asked_.insert(victim);
      decision_.proposals.emplace_back(SuspendRequested{
          victim,
          StopCause::kPreempted,
          job.id,
          now_ + NoticeOf(leaver, policy_),
          WhyItLeaves(contender, runners().RightTo(contender, *runners().Find(victim)))});
    }
    for (const JobId victim : claim.victims) {
      const Runner& leaver = *runners().Find(victim);
      Give({leaver.job->owner, leaver.job->group, leaver.priority}, -leaver.job->gpus);
    }
    Give(HoldingOf(job), ChargedGpus(job.spec));
    KeepForClaim(claim);
    Explain(job, {WaitsFor(claim)});
    return true;
  }

  // What a fault broke is replaced in its zone, if too few are idle there.
  [[nodiscard]] VictimPlan ChooseGangVictims(const Contender& contender,
                                             const PlacementRequest& request,
                                             const TakeRules& rules) {
    const FreeNodes pool = IdleFor(*contender.job);
    if (const auto zone = ZoneOfReplacement(fabric_, request)) {
      PlacementRequest there = request;
      there.zone = *zone;
      VictimPlan plan =
          ChooseVictims(state_, capacity_, {contender, there}, pool, runners(), rules);
      if (!plan.nodes.empty()) {
        return plan;
      }
    }
    // One zone first: what crosses does so for as long as it runs.
    if (MayLieAcross(request.zone) && OneZoneHolds(fabric_, contender.job->spec)) {
      PlacementRequest within = request;
      within.zone = kSingleZone;
      VictimPlan plan =
          ChooseVictims(state_, capacity_, {contender, within}, pool, runners(), rules);
      if (!plan.nodes.empty()) {
        return plan;
      }
    }
    return ChooseVictims(state_, capacity_, {contender, request}, pool, runners(), rules);
  }

  [[nodiscard]] Holding HoldingOf(const Job& job) const {
    return tide::HoldingOf(state_, job, ClassOf(job));
  }

  void Give(const Holding& holding, int64_t gpus) {
    if (runners_) {
      runners_->Give(holding, gpus);
    } else {
      given_.emplace_back(holding, gpus);
    }
  }

  // From now on nobody else of this pass takes it.
  void KeepForClaim(const tide::Claim& claim) {
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
  [[nodiscard]] bool ClaimHolds(const Job& job) {
    const tide::Claim& claim = claims_.At(job.id);
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
    return crossing_.Allows(job, claim.nodes);
  }

  bool StartOnClaim(const Job& job) {
    const tide::Claim claim = claims_.At(job.id);
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
      for (const JobId claimant : claims_.ClaimantsOf(node)) {
        if (ClassOf(claimant) < ClassOf(job)) {
          DropClaim(claimant);
        }
      }
    }
  }

  void DropClaim(JobId claimant) {
    decision_.proposals.emplace_back(ClaimDropped{claimant});
    const tide::Claim claim = claims_.At(claimant);
    claims_.Erase(claimant);
    crossing_.ClaimsChanged();
    ++turn_;
    const Job& job = state_.jobs.at(claimant);
    quotas_.Remove(job);
    Give(HoldingOf(job), -ChargedGpus(job.spec));
    capacity_.Unclaim(claim);
    maintenance_.Bar(barred_, capacity_);
  }

  // Victims whose nodes nobody who may have them wants any more go on, unless they wait at their
  // stop step already: its beneficiary started elsewhere, was cancelled or held, or gave up.
  void LetVictimsGoOn() {
    for (const JobId id : state_.restless) {
      const Job& victim = state_.jobs.at(id);
      if (MayGoOn(victim) && !IsWanted(victim)) {
        decision_.proposals.emplace_back(SuspendWithdrawn{id});
      }
    }
  }

  [[nodiscard]] bool IsWanted(const Job& victim) const {
    const std::vector<NodeId>& nodes = AllocationOf(victim)->nodes;
    return std::ranges::any_of(claims_.all(), [&](const auto& entry) {
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
  KeptNodes kept_;
  std::optional<Runners> runners_;
  std::vector<std::pair<Holding, int64_t>> given_;  // GPUs, before there are runners
  Evidence evidence_;
  Decision decision_;
  uint64_t turn_ = 1;  // counts what this pass has done to the answer of a waiting job
  std::map<uint32_t, std::pair<uint64_t, Reason>> fragmentation_;  // by shape, with the turn
  uint32_t owner_ = 0;                    // of the job at hand, the last one
  uint32_t row_set_ = 0;                  // of that owner
  Standing standing_ = Standing::kNoRow;  // of the job at hand
  std::vector<Reason> found_;             // what it was told, before its owner's quotas
  Told told_;                             // for whom that holds
  const Wish* refused_ =
      nullptr;  // the earlier refusal that it was told; until the next one is added
  const Slowdown* slowdown_ = nullptr;     // of it
  std::shared_ptr<WaitingReasons> waits_;  // of it
  uint64_t order_turn_ = 0;                // of its owner
  std::optional<Footing> footing_;         // of it
  PassClaims claims_;
  MaintenancePlan maintenance_;
  size_t barred_ = 0;         // nodes of it, from the job at hand
  uint32_t claims_made_ = 0;  // by this pass
  std::set<JobId> asked_;     // to leave, by this pass
  Refusals refusals_;         // of the class at hand
  Ahead ahead_;               // of the class at hand
  MasterPorts ports_;
  Crossing crossing_;
};

}  // namespace

Decision Decide(const ClusterState& state, const Policy& policy, Instant now) {
  Decision due;
  CollectDue(state, policy, now, due);
  CollectDoomed(state, due);
  CollectRemovedUsers(state, policy, due);
  JudgeIncidents(state, policy, now, due);
  if (!due.proposals.empty()) {
    return due;  // time changes the state first; Step decides again
  }
  TIDE_CHECK(!state.fabric_stale, "decisions follow the fabric as it is");
  Decision decision = Planner(state, policy, now).Run();
  decision.wake_at = std::min(decision.wake_at, due.wake_at);
  const ReasonList held({{.code = ReasonCode::kHeldUser}});
  for (const JobId id : state.held) {
    decision.explanations.Add(id, held);
  }
  ExplainBlocked(state, decision);
  decision.explanations.Close(state);
  return decision;
}

}  // namespace tide
