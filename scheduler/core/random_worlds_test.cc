// Random events with delayed and repeated reports. After every event the invariants hold; the same
// step twice is the same; the log alone gives the same state; and once the faults end, every job
// finishes. TIDE_SEEDS=N runs more seeds.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <set>
#include <stdexcept>

#include "common/base/prng.h"
#include "common/health/fault_rules.h"
#include "common/spec/zone_rule.h"
#include "scheduler/core/fabric_peers.h"
#include "scheduler/core/policy/boundary_use.h"
#include "scheduler/core/policy/job_class.h"
#include "scheduler/core/proof.h"
#include "scheduler/core/testing/compare.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

constexpr uint64_t kSeeds = 300;
constexpr int kEvents = 300;
constexpr size_t kUnfinishedMax = 10;
constexpr uint32_t kNodesMax = 5;  // of a job

Cluster RandomCluster(Prng& prng) {
  Cluster cluster;
  if (prng.Below(2) == 0) {
    cluster.Witness(Duration::Seconds(static_cast<int64_t>(20 + prng.Below(200))));
  }
  cluster.Zone("A").Leaf(static_cast<uint32_t>(1 + prng.Below(3)));
  cluster.Leaf(static_cast<uint32_t>(1 + prng.Below(3)));
  cluster.Zone("B").Leaf(static_cast<uint32_t>(1 + prng.Below(4)));
  if (prng.Below(2) == 0) {
    cluster.Zone("C").Leaf(static_cast<uint32_t>(1 + prng.Below(2)));
  }
  return cluster;
}

// Rules by which other nodes are needed to prove a fault gone.
std::shared_ptr<const health::FaultRules> FabricRules() {
  const auto rules = health::FaultRulesFromText(
      "version: 1\nrules:\n"
      "  - { kind: xid, code: 79, meaning: m, action: drain_now, covers: [fabric] }\n"
      "  - { kind: link_down, meaning: m, action: drain_after, covers: [links, fabric] }\n",
      "rules");
  return rules ? *rules : throw std::logic_error(rules.error().message);
}

class RandomWorld : public World {
 public:
  size_t in_class = 0;            // suspensions for others of the same class
  size_t over_quota = 0;          // decisions in which a job waited for its quota
  size_t crossed = 0;             // jobs that crossed a boundary with limits, seen after a turn
  size_t barred = 0;              // nodes whose maintenance is to come, seen after a turn
  size_t before_maintenance = 0;  // tasks that were placed on such nodes with a time limit

  explicit RandomWorld(Prng& prng) : World(RandomCluster(prng)), prng_(prng) {
    if (prng_.Below(2) == 0) {
      LimitRandomly();
    }
    if (prng_.Below(2) == 0) {
      ShareOften();
    }
    if (prng_.Below(2) == 0) {
      BoundRandomly(prng_, policy);
    }
    if (state.nodes.size() % 2 == 0) {
      policy.faults.rules = FabricRules();
    }
    if (prng_.Below(2) == 0) {
      policy.finished_max = static_cast<uint32_t>(1 + prng_.Below(5));
      policy.keep_finished = Duration::Minutes(static_cast<int64_t>(1 + prng_.Below(60)));
      policy.keep_incidents = policy.keep_finished;
    }
  }

  void Act() {
    switch (prng_.Below(26)) {
      case 0:
      case 1:
      case 2:
        SubmitRandom();
        break;
      case 3:
        Checked({CancelRequested{AnyJob(), "ada", ""}});
        break;
      case 4:
        Checked({HoldRequested{AnyJob(), now + Duration::Seconds(60), "ada", ""}});
        break;
      case 5:
      case 6:
        Checked({ReleaseRequested{AnyJob(), "ada"}});
        break;
      case 7:
        prng_.Below(4) == 0 ? Recover() : Break();
        break;
      case 8:
        DrainRandom();
        break;
      case 9:
      case 10:
        Checked({UndrainRequested{AnyNode(), "op"}});
        break;
      case 11:
      case 12:
        TestIdle();
        Checked({ValidationRequested{AnyNode(), "v" + std::to_string(prng_.Below(1000)), "op"}});
        break;
      case 13:
        FallSilent();
        break;
      case 14:
      case 15:
        ComeBack();
        break;
      case 16:
        LeaveRandom();
        break;
      case 17:
        agents.saves = prng_.Below(3) > 0;
        agents.stops = prng_.Below(3) > 0;
        agents.starts = prng_.Below(4) > 0;
        agents.verdict = prng_.Below(4) > 0 ? "pass" : "fail";
        break;
      case 18:
        PassTime();
        break;
      case 19:
        Checked({JobMoved{AnyWaiting(), prng_.Below(2) == 0 ? JobId() : AnyWaiting(), "ada"}});
        break;
      case 20:
        prng_.Below(2) == 0 ? StallRandom() : StepRandom();
        break;
      case 21:
        NoteRandom();
        break;
      default:
        Deliver();
        break;
    }
  }

  // No more faults: every job must come to its end.
  void Calm() {
    agents.saves = agents.stops = agents.starts = agents.validates = true;
    agents.verdict = "pass";
    const auto cut = agents.cut;
    for (const auto& [node, since] : cut) {
      Rejoin(node.value());
    }
    for (auto& [node, queue] : pending_) {
      Checked({queue.begin(), queue.end()});
    }
    Run();
    for (int round = 0; round < 100 && !AllFinished(); ++round) {
      Repair();
      const std::set<JobId> held = state.held;
      std::ranges::for_each(held, [this](JobId id) { Release(id); });
      const std::set<JobId> live = state.live;
      for (const JobId id : live) {
        if (state.live.contains(id) && Is(id) == JobState::kRunning) {
          Finish(id);
        }
      }
      Pass(Duration::Minutes(2));
    }
  }

  [[nodiscard]] bool AllFinished() const {
    return std::all_of(state.jobs.begin(), state.jobs.end(), [](const auto& entry) {
      return StateOf(entry.second) == JobState::kFinished;
    });
  }

 private:
  JobId AnyJob() { return JobId(1 + prng_.Below(state.next_job_id)); }
  JobId AnyWaiting() {
    if (state.waiting.empty() || prng_.Below(8) == 0) {
      return AnyJob();
    }
    const auto chosen = static_cast<int64_t>(prng_.Below(state.waiting.size()));
    return *std::next(state.waiting.begin(), chosen);
  }
  // A job is said to stand still, to get on again, or to have stood still for too long.
  void StallRandom() {
    const JobId id = AnyJob();
    const Job* job = state.FindJob(id);
    if (job == nullptr || job->attempts.empty()) {
      return;
    }
    const uint64_t kind = prng_.Below(3);
    Checked({JobStalled{id,
                        job->attempts.back().epoch,
                        kind == 0 ? Instant() : now,
                        kind == 0 ? "" : "stands still",
                        kind == 2}});
  }
  // Ranks of a job are seen to have made their first step, some time ago.
  void StepRandom() {
    const JobId id = AnyJob();
    if (const Job* job = state.FindJob(id); job != nullptr && !job->attempts.empty()) {
      const Duration ago = Duration::Seconds(static_cast<int64_t>(prng_.Below(100)));
      Checked({JobStepped{id, job->attempts.back().epoch, now - ago}});
    }
  }
  // Something is seen in the training of a job; its loss may be bad, and send it back.
  void NoteRandom() {
    const JobId id = AnyJob();
    if (const Job* job = state.FindJob(id); job != nullptr && !job->attempts.empty()) {
      const auto step = static_cast<int64_t>(1 + prng_.Below(100));
      const auto kind = static_cast<NoteKind>(prng_.Below(4));
      Checked({JobNoted{id, job->attempts.back().epoch, kind, step, step - 1, "seen"}});
    }
  }
  NodeId AnyNode() { return NodeId(static_cast<uint32_t>(prng_.Below(state.nodes.size()))); }

  // Turns inside a class, in worlds that last less than an hour.
  void ShareOften() {
    policy.minimum_run = Duration::Seconds(60);
    policy.assumed_cost = Duration::Seconds(1);
  }

  // No row is below the largest job, so that every job finishes.
  void LimitRandomly() {
    policy.projects = {{"llm", {"", 2}}, {"chat", {"llm", 1}}};
    const auto add = [&](QuotaRow::Subject subject, const char* name) {
      QuotaRow row;
      row.subject = subject;
      row.name = name;
      row.nodes = static_cast<uint32_t>(prng_.Below(8));
      row.limit = std::max(row.nodes, kNodesMax) + static_cast<uint32_t>(prng_.Below(2));
      if (prng_.Below(2) == 0) {
        row.priority = prng_.Below(2) == 0 ? 10 : 30;
      }
      policy.quotas.push_back(row);
    };
    add(QuotaRow::Subject::kProject, "llm");
    add(QuotaRow::Subject::kProject, "default");
    add(QuotaRow::Subject::kUser, "ada");
  }

  // What runs is within the limits: they are never lowered here.
  void CheckQuotas() {
    for (const QuotaRow& row : policy.quotas) {
      int64_t used = 0;
      for (const JobId id : state.live) {
        const Job& job = At(id);
        const bool owns = row.subject == QuotaRow::Subject::kUser
                              ? job.user == row.name
                              : job.spec->project == row.name ||
                                    (row.name == "llm" && job.spec->project == "chat");
        if (owns && (!row.priority || row.priority == job.spec->priority)) {
          const uint32_t gpus = job.spec->gpus_per_node;
          used += gpus == 0 || gpus == 8 ? job.spec->nodes * 1000 : gpus * 125;
        }
      }
      REQUIRE(used <= int64_t{*row.limit} * 1000);
    }
  }

  // Checks that jobs that cross keep the limits of each boundary, and their own of zones.
  void CheckBoundaries() {
    for (const JobId id : state.crossing) {
      BoundaryUse others(policy.boundaries, state.fabric);
      std::set<uint32_t> zones;
      for (const NodeId node : AllocationOf(At(id))->nodes) {
        zones.insert(state.fabric.ZoneIndexOf(node));
      }
      REQUIRE(zones.size() <= ZonesMax(At(id).spec->zone));
      if (policy.boundaries.empty()) {
        continue;
      }
      for (const JobId other : state.crossing) {
        if (other != id) {
          others.Add(AllocationOf(At(other))->nodes);
        }
      }
      REQUIRE(others.Allows(AllocationOf(At(id))->nodes));
      crossed += 1;
    }
  }

  void Checked(const std::vector<EventBody>& bodies) {
    const ClusterState before = state;
    Turn(bodies);
    if (prng_.Below(4) == 0) {
      CheckDeterminism(before, bodies);
    }
    REQUIRE(last.wake_at > now);
    for (const Event& event : last.log) {
      if (const auto* asked = std::get_if<SuspendRequested>(&event.body);
          asked != nullptr && asked->cause == StopCause::kPreempted &&
          // Else it has started on what another claim gave up later in the pass.
          StateOf(At(asked->beneficiary)) == JobState::kQueued) {
        CheckMayBeAsked(At(asked->job), At(asked->beneficiary));
      }
    }
    CheckExplained();
    CheckQuotas();
    CheckBoundaries();
    CheckMaintenance(before);
  }

  // A lower class at once; one's own only when it started later, or has had its time.
  void CheckMayBeAsked(const Job& victim, const Job& beneficiary) {
    if (!policy.quotas.empty() &&
        (victim.spec->priority == kAutoPriority || beneficiary.spec->priority == kAutoPriority)) {
      return;  // its class depends on what all the others use
    }
    const int32_t asked = Demote(victim.spec->priority, RunTimeAt(victim, now), policy);
    const int32_t asking = Demote(beneficiary.spec->priority, RunTimeAt(beneficiary, now), policy);
    REQUIRE(asked <= asking);
    if (asked == asking) {
      const Attempt& attempt = victim.attempts.back();
      ++in_class;
      const auto& queued = std::get<Queued>(beneficiary.phase);
      const bool passed_after_fault = queued.next_start == StartReason::kFault &&
                                      attempt.opportunistic && attempt.running_at.is_set();
      const bool waited = beneficiary.state_since + policy.minimum_run <= now;
      const bool later = beneficiary.state_since <= attempt.placed_at && waited &&
                         ChargedGpus(victim.spec) < ChargedGpus(beneficiary.spec);
      const bool others = victim.user != beneficiary.user;
      const bool put_first = !others && beneficiary.state_since <= attempt.placed_at;
      const bool had_its_time = attempt.running_at.is_set() && (others || put_first) &&
                                attempt.running_at + policy.minimum_run <= now &&
                                (!policy.quotas.empty() || waited);
      REQUIRE((passed_after_fault || later || had_its_time));
    }
  }

  void CheckDeterminism(const ClusterState& before, const std::vector<EventBody>& bodies) {
    ClusterState twin = before;
    std::vector<Event> events;
    for (const EventBody& body : bodies) {
      events.push_back({now, body});
    }
    const StepResult again = Step(twin, events, policy, now);
    REQUIRE(Difference(state, twin).empty());
    REQUIRE((again.results == last.results && again.log == last.log &&
             again.changed == last.changed && again.commands == last.commands &&
             again.explanations.All(twin) == last.explanations.All(state) &&
             again.wake_at == last.wake_at));
    RebuildDerived(twin);
    REQUIRE(Difference(state, twin).empty());
    CheckUse(twin);
    CheckSharedAnswers();
  }

  // What owners used is the same after a load, but for rounding. Those who have used nothing, and
  // whose jobs are archived, are not known any more.
  void CheckUse(const ClusterState& loaded) {
    for (uint32_t owner = 0; owner < state.owners.size(); ++owner) {
      const auto number = loaded.owners.Find(state.owners.Project(owner), state.owners.User(owner));
      const Account after = number ? loaded.accounts[*number] : Account{};
      const Account& before = state.accounts[owner];
      REQUIRE(after.rate == before.rate);
      const auto use_ms = static_cast<double>(before.UseAt(now, policy.share_half_life));
      const auto loaded_ms = static_cast<double>(after.UseAt(now, policy.share_half_life));
      REQUIRE(std::abs(use_ms - loaded_ms) <= 1000 + use_ms / 1000);
    }
  }

  // A job is told what others like it were told, without a search of its own. With one it would
  // be told the same.
  void CheckSharedAnswers() {
    const ClusterState twin = WithoutAlike(state);
    const Decision searched = Decide(twin, policy, now);
    REQUIRE(searched.proposals.empty());
    REQUIRE(searched.explanations.All(twin) == last.explanations.All(state));
  }

  void CheckExplained() {
    std::set<JobId> explained;
    for (const Explanation& explanation : last.explanations.All(state)) {
      REQUIRE_FALSE(explanation.reasons.empty());
      REQUIRE(explained.insert(explanation.job).second);
      over_quota += explanation.reasons.front().quota ? 1 : 0;
    }
    for (const auto& [id, job] : state.jobs) {
      const bool waits = StateOf(job) == JobState::kQueued || StateOf(job) == JobState::kHeld;
      REQUIRE(waits == explained.contains(id));
    }
  }

  void SubmitRandom() {
    size_t unfinished = 0;
    for (const auto& [id, job] : state.jobs) {
      unfinished += StateOf(job) == JobState::kFinished ? 0 : 1;
    }
    if (unfinished >= kUnfinishedMax) {
      return;
    }
    constexpr int32_t kClasses[] = {-1, 0, 10, 20, 30};
    constexpr const char* kProjects[] = {"default", "llm", "chat"};
    constexpr const char* kUsers[] = {"ada", "bob", "eve"};
    AJob job;
    job.Nodes(static_cast<uint32_t>(1 + prng_.Below(kNodesMax))).Priority(kClasses[prng_.Below(5)]);
    job.Project(kProjects[policy.quotas.empty() ? 0 : prng_.Below(3)]);
    constexpr const char* kZones[] = {"cross-ok", "cross-ok:2", "B", "single", "single", "single"};
    job.Zone(kZones[prng_.Below(6)]);
    if (prng_.Below(3) == 0) {
      job.Nodes(1).Gpus(static_cast<uint32_t>(1 + prng_.Below(8)));
    }
    job.RetryFailure(static_cast<uint32_t>(prng_.Below(3)), Duration::Seconds(20));
    job.OnBadLoss(static_cast<OnNan>(prng_.Below(3)));
    for (uint64_t i = prng_.Below(4) == 0 ? 1 + prng_.Below(2) : 0; i > 0; --i) {
      const auto on = static_cast<AfterOutcome>(prng_.Below(3));
      const JobId awaited = AnyJob();
      const Job* known = state.FindJob(awaited);
      const bool array = known != nullptr && known->array != JobId() && prng_.Below(2) == 0;
      array ? job.AfterAll(known->array, on) : job.After(awaited, on);
    }
    if (prng_.Below(6) == 0) {
      job.Count(static_cast<uint32_t>(2 + prng_.Below(3)));
    }
    if (prng_.Below(8) == 0) {
      job.MaxRuntime(Duration::Minutes(30));
    }
    Checked({JobSubmitted{JobId(state.next_job_id), job.Spec(), kUsers[prng_.Below(3)], ""}});
  }

  void Break() {
    constexpr int32_t kXids[] = {13, 63, 79};
    const FaultKind kind = prng_.Below(4) == 0 ? FaultKind::kLinkDown : FaultKind::kXid;
    Checked({FaultObserved{AnyNode(), kind, kXids[prng_.Below(3)], "dev", "text", now}});
  }

  Instant SoonOrLater() {
    return now + Duration::Seconds(static_cast<int64_t>(1 + prng_.Below(2400)));
  }

  void DrainRandom() {
    if (prng_.Below(2) == 0) {
      const Instant leave_at = prng_.Below(2) == 0 ? Instant() : SoonOrLater();
      Checked({DrainRequested{AnyNode(), "op", "fan", leave_at}});
      return;
    }
    const Instant begins_at = prng_.Below(4) == 0 ? now : SoonOrLater();
    Checked({MaintenancePlanned{AnyNode(), begins_at, SoonOrLater(), "op", "fans"}});
  }

  // What was planned when the turn began, and since.
  void CheckMaintenance(const ClusterState& before) {
    for (const Event& event : last.log) {
      const auto* placed = std::get_if<JobPlaced>(&event.body);
      for (const NodeId node :
           placed == nullptr ? std::vector<NodeId>() : placed->allocation.nodes) {
        const Maintenance& planned = state.nodes[node.value()].maintenance;
        const Job& job = At(placed->job);
        const bool is_same = before.nodes[node.value()].maintenance == planned;
        if (is_same && planned.begins_at.is_set() && job.spec->max_runtime.nanos() > 0) {
          REQUIRE(now + job.spec->max_runtime - job.run_time <= planned.begins_at);
          ++before_maintenance;
        }
        if (is_same && planned.begun) {
          REQUIRE_FALSE(TakesWork(state.nodes[node.value()]));
        }
      }
    }
    for (const Node& node : state.nodes) {
      REQUIRE((!node.jobs_leave_at.is_set() || node.state == NodeState::kDraining));
      REQUIRE((!node.maintenance.begun || !IsInService(node)));
      barred += node.maintenance.begins_at.is_set() && !node.maintenance.begun ? 1 : 0;
    }
  }

  void TestIdle() {
    Checked({IdleTestBegun{AnyNode(), "idle-" + std::to_string(now.unix_nanos())}});
  }

  void Recover() {
    if (!state.incidents.empty()) {
      const auto any = std::next(state.incidents.begin(),
                                 static_cast<std::ptrdiff_t>(prng_.Below(state.incidents.size())));
      Checked({IncidentCleared{any->first}});
    }
  }

  void FallSilent() {
    const NodeId node = AnyNode();
    agents.cut.emplace(node, now);
    Checked({NodeSilent{node}});
    if (prng_.Below(2) == 0) {
      now = now + Duration::Seconds(10);
      Checked({NodeLost{node}});
      if (prng_.Below(2) == 0) {
        Checked({RemoveRequested{node, "op", "sold"}});  // refused where a task may still run
      }
    }
  }

  void ComeBack() {
    if (agents.cut.empty()) {
      return;
    }
    const NodeId node = agents.cut.begin()->first;
    agents.cut.erase(node);
    if (prng_.Below(4) == 0) {
      agents.Reboot(node);
      pending_[node].clear();
    } else if (prng_.Below(3) == 0) {
      Checked({NodeHeard{node}});
    }
    Checked({NodeJoined{node, state.nodes[node.value()].identity, agents.Held(node)}});
  }

  void LeaveRandom() {
    constexpr ExitReason kReasons[] = {ExitReason::kSucceeded,
                                       ExitReason::kSucceeded,
                                       ExitReason::kFailed,
                                       ExitReason::kOom,
                                       ExitReason::kStartFailed,
                                       ExitReason::kLost,
                                       ExitReason::kCutOff,
                                       ExitReason::kNodeFault,
                                       ExitReason::kSuspended};
    const JobId job = AnyJob();
    const ExitReason reason = kReasons[prng_.Below(std::size(kReasons))];
    const auto first = static_cast<uint32_t>(prng_.Below(3));
    for (uint32_t task = reason == ExitReason::kSucceeded ? 0 : first; task < 5; ++task) {
      agents.Exit(job, task, reason, reason == ExitReason::kSucceeded ? 0 : 1, now);
    }
  }

  void PassTime() {
    now = now + Duration::Seconds(static_cast<int64_t>(1 + prng_.Below(400)));
    agents.Isolate(now, policy.isolation_timeout);
    Checked({});
  }

  // Agents work; some of their reports arrive, some later, some twice.
  void Deliver() {
    (void)agents.Progress(now);
    for (EventBody& body : agents.TakeReports()) {
      const NodeId node = std::visit(
          [](const auto& each) {
            if constexpr (requires { each.node; }) {
              return each.node;
            } else {
              return NodeId();
            }
          },
          body);
      pending_[node].push_back(std::move(body));
    }
    std::vector<EventBody> batch;
    for (auto& [node, queue] : pending_) {
      while (!queue.empty() && !agents.cut.contains(node) && prng_.Below(4) > 0) {
        batch.push_back(queue.front());
        if (prng_.Below(5) == 0) {
          batch.push_back(queue.front());
        }
        delivered_.push_back(std::move(queue.front()));
        queue.pop_front();
      }
    }
    if (!delivered_.empty() && prng_.Below(6) == 0) {
      batch.push_back(delivered_[prng_.Below(delivered_.size())]);  // long after
    }
    Checked(batch);
  }

  // Proves a node sound. The scheduler tests what lies between nodes by itself; when it gives up, a
  // person vouches.
  void Prove(uint32_t node) {
    const std::vector<std::string> wanted = ProofWanted(state, NodeId(node));
    const bool needs_peers = std::ranges::find(wanted, kFabricValidator) != wanted.end();
    if (needs_peers && ReturnsByItself(state.nodes[node])) {
      return;
    }
    const std::vector<IncidentId> open = state.open_incidents.On(NodeId(node));
    for (const IncidentId id : open) {
      if (needs_peers && NeedsProof(state.incidents.at(id))) {
        (void)Do(IncidentVouched{id, "op", "cable replaced"});
      }
    }
    Validate(node);
  }

  void Repair() {
    for (uint32_t node = 0; node < state.nodes.size(); ++node) {
      switch (NodeIs(node)) {
        case NodeState::kQuarantined:
          Prove(node);
          break;
        case NodeState::kDrained:
          if (!ProofWanted(state, NodeId(node)).empty()) {
            Prove(node);
          }
          Undrain(node);
          break;
        case NodeState::kDraining:
          Undrain(node);
          break;
        case NodeState::kSuspect:
          (void)Do(NodeHeard{NodeId(node)});
          break;
        case NodeState::kJoining:
        case NodeState::kValidating:
        case NodeState::kReady:
        case NodeState::kLost:
        case NodeState::kProbation:
        case NodeState::kRemoved:
          break;
      }
    }
  }

  Prng& prng_;
  std::map<NodeId, std::deque<EventBody>> pending_;
  std::vector<EventBody> delivered_;
};

void CheckReplay(const World& world) {
  ClusterState replayed;
  for (const Event& event : world.log) {
    const Result<Applied> result = Apply(replayed, event);
    REQUIRE((result && *result == Applied::kChanged));
  }
  REQUIRE(DifferenceOfRows(world.state, replayed).empty());
}

}  // namespace

TEST_CASE("random worlds keep their invariants, replay, and finish every job") {
  const char* asked = std::getenv("TIDE_SEEDS");
  const uint64_t seeds = asked != nullptr ? std::strtoull(asked, nullptr, 10) : kSeeds;
  size_t jobs = 0;
  size_t claims = 0;
  size_t withdrawals = 0;
  size_t after_others = 0;
  size_t arrays = 0;
  size_t doomed = 0;
  size_t moved = 0;
  size_t archivings = 0;
  size_t forgotten = 0;
  size_t with_peers = 0;
  size_t over_quota = 0;
  size_t crossed = 0;
  size_t in_class = 0;
  size_t barred = 0;
  size_t before_maintenance = 0;
  size_t maintained = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    Prng prng(seed);
    RandomWorld world(prng);
    int event = 0;
    INFO("seed " << seed);
    try {
      for (; event < kEvents; ++event) {
        world.Act();
      }
      CheckReplay(world);
      world.Calm();
    } catch (const std::logic_error& broken) {
      FAIL("event " << event << ": " << broken.what());
    }
    CheckReplay(world);
    REQUIRE(world.AllFinished());
    REQUIRE(std::ranges::none_of(world.state.nodes,
                                 [](const Node& node) { return node.idle_test.as_peer; }));
    jobs += world.state.next_job_id - 1;
    over_quota += world.over_quota;
    crossed += world.crossed;
    in_class += world.in_class;
    barred += world.barred;
    before_maintenance += world.before_maintenance;
    for (const Event& each : world.log) {
      claims += std::holds_alternative<ClaimMade>(each.body) ? 1 : 0;
      archivings += std::holds_alternative<JobsArchived>(each.body) ? 1 : 0;
      forgotten += std::holds_alternative<IncidentsForgotten>(each.body) ? 1 : 0;
      maintained += std::holds_alternative<MaintenanceEnded>(each.body) ? 1 : 0;
      moved += std::holds_alternative<JobMoved>(each.body) ? 1 : 0;
      doomed += std::holds_alternative<DependencyFailed>(each.body) ? 1 : 0;
      const auto* validation = std::get_if<ValidationRequested>(&each.body);
      with_peers += validation != nullptr && !validation->peers.empty() ? 1 : 0;
      const auto* submitted = std::get_if<JobSubmitted>(&each.body);
      arrays += submitted != nullptr && submitted->spec->count > 1 ? 1 : 0;
      after_others += submitted != nullptr && !submitted->spec->after.empty() ? 1 : 0;
      withdrawals += std::holds_alternative<SuspendWithdrawn>(each.body) ? 1 : 0;
    }
  }
  // The worlds are worth running: they do preempt, and give up preemptions.
  CHECK(jobs > seeds * 5);
  CHECK(claims > seeds);
  CHECK(withdrawals > 0);
  CHECK(over_quota > seeds);
  CHECK(crossed > seeds);
  CHECK(in_class > seeds / 10);
  CHECK(after_others > seeds);
  CHECK(arrays > seeds);
  CHECK(doomed > seeds / 4);
  CHECK(moved > seeds / 4);
  CHECK(archivings > seeds);
  CHECK(forgotten > seeds / 10);
  CHECK(with_peers > seeds / 4);
  CHECK(barred > seeds);
  CHECK(before_maintenance > 0);
  CHECK(maintained > seeds / 4);
}

}  // namespace tide::testing
