#include "sim/replay/replay.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "common/fabric/comm_plan.h"
#include "scheduler/core/proof.h"
#include "scheduler/core/step.h"
#include "sim/replay/agenda.h"
#include "sim/replay/agents.h"
#include "sim/replay/fault_story.h"
#include "sim/replay/node_ledger.h"
#include "sim/replay/virtual_time.h"

namespace tide::sim {
namespace {

// Steps in a row at one moment without an event: more than any timer needs.
constexpr int kIdleStepsMax = 1000;
// Steps without the end of a job: more than any trace needs, less than anybody waits.
constexpr uint64_t kStepsPerEndMax = 20'000'000;
constexpr int64_t kRetryMs = 60'000;
constexpr int64_t kOperatorMs = 600'000;  // until people look again at what comes back by itself
int32_t PriorityOf(const TraceJob& job) {
  const auto priority = ParsePriority(job.kind);
  return priority ? *priority : JobSpec().priority;
}

}  // namespace

class Replay {
 public:
  Replay(const Trace& trace, const ClusterShape& shape, const ReplayOptions& options)
      : trace_(trace),
        shape_(shape),
        options_(options),
        costs_without_saves_(options.costs),
        agents_(shape, options, agenda_),
        ledger_(shape),
        faults_(options.faults, static_cast<uint32_t>(shape.nodes.size()), options.seed) {
    costs_without_saves_.checkpoint_every_ms = 0;
    run_.policy = "time-sharing";
    run_.meter = UsageMeter(shape.capacity());
    policy_ = options.policy;
    policy_.cross_zone_jobs_max = shape.fabric.cross_zone_jobs_max;
    policy_.boundaries = shape.fabric.boundaries;
    // The record is made from all jobs at the end.
    policy_.keep_finished = Duration::Minutes(int64_t{10'000} * 24 * 60);
    policy_.finished_max = std::numeric_limits<uint32_t>::max();
  }

  Result<RunRecord> Run() {
    TIDE_TRY(Prepare());
    while (done_ < gangs().size()) {
      const int64_t next = std::min(agenda_.empty() ? kNeverMs : agenda_.NextAt(), wake_ms_);
      if (next == kNeverMs) {
        return Stuck("comes to rest");
      }
      idle_steps_ = next > now_ms_ ? 0 : idle_steps_ + 1;
      if (idle_steps_ > kIdleStepsMax) {
        return Stuck("spins");
      }
      if (run_.events > last_end_ + kStepsPerEndMax) {
        return Stuck("ends no job");
      }
      now_ms_ = std::max(now_ms_, next);
      while (!agenda_.empty() && agenda_.NextAt() <= now_ms_) {
        Handle(agenda_.Take());
      }
      do {
        TIDE_TRY(Turn());
      } while (!batch_.empty());
      run_.meter.Observe(now_ms_, ledger_.Now());
    }
    run_.faults = story_.Finish();
    run_.faults.faults = faults_seen_;
    for (Gang& gang : gangs()) {
      run_.jobs.push_back(std::move(gang.record));
    }
    return std::move(run_);
  }

 private:
  std::vector<Gang>& gangs() { return agents_.gangs; }

  // Jobs are numbered from 1 in the order of the trace.
  static JobId IdOf(size_t index) { return JobId(index + 1); }

  Status Prepare() {
    for (size_t i = 0; i < trace_.jobs.size(); ++i) {
      const TraceJob& job = trace_.jobs[i];
      const uint32_t nodes = (job.gpus + job.gpus_per_node - 1) / job.gpus_per_node;
      gangs().emplace_back(job.saves ? options_.costs : costs_without_saves_,
                           job.saves,
                           nodes,
                           job.gpus_per_node,
                           job.duration_s * 1000);
      agenda_.Add(job.submit_s * 1000, Happening::kSubmit, static_cast<uint32_t>(i));
    }
    finished_.assign(gangs().size(), false);
    now_ms_ = trace_.jobs.front().submit_s * 1000;
    for (uint32_t node = 0; node < shape_.nodes.size(); ++node) {
      batch_.emplace_back(NodeJoined{NodeId(node), shape_.nodes[node], {}});
    }
    TIDE_TRY(Turn());
    run_.meter.Observe(now_ms_, ledger_.Now());
    ScheduleFault();
    return {};
  }

  void ScheduleFault() {
    next_fault_ = faults_.Next();
    if (next_fault_) {
      agenda_.Add(std::max(next_fault_->at_ms, now_ms_), Happening::kFault, next_fault_->node);
    }
  }

  void Handle(const AgendaItem& item) {
    if (item.what == Happening::kSubmit) {
      Submit(item.subject);
    } else if (item.what == Happening::kFault) {
      agents_.Break(*next_fault_, now_ms_);
      ++faults_seen_;
      ScheduleFault();
    } else if (item.what == Happening::kReadmit) {
      Readmit(NodeId(item.subject));
    } else {
      agents_.Handle(item, now_ms_, batch_);
    }
    TakeReleases();
  }

  void Submit(size_t index) {
    const TraceJob& job = trace_.jobs[index];
    Gang& gang = gangs()[index];
    gang.Submit(now_ms_);
    ledger_.AddDemand(DemandOf(gang), gang.gpus());
    JobSpec spec;
    spec.name = "job-" + job.id;
    spec.command = {"train"};
    spec.group = shape_.group;
    spec.nodes = gang.nodes();
    spec.gpus_per_node = gang.gpus_per_node();
    spec.zone = options_.zone;
    if (!job.project.empty()) {
      spec.project = job.project;
    }
    spec.priority = PriorityOf(job);
    spec.suspend_notice =
        std::max(spec.suspend_notice, Duration::Millis(2 * options_.costs.save_ms));
    // Nothing of the job itself fails: whatever ends its ranks, it goes on.
    spec.retry_hardware_max = spec.retry_failure_max = UINT32_MAX;
    spec.retry_backoff = Duration();
    batch_.emplace_back(JobSubmitted{IdOf(index), std::move(spec), job.user, ""});
  }

  // Part of a node, or whole nodes.
  [[nodiscard]] Shape DemandOf(const Gang& gang) const {
    return gang.nodes() == 1 ? ShapeOf(gang.gpus_per_node(), shape_.gpus_per_node)
                             : Shape{gang.nodes(), 0};
  }

  // An operator brings a repaired node back that does not come by itself: through a validation, as
  // soon as that may start.
  void Readmit(NodeId node) {
    const Node& at = state_.nodes[node.value()];
    if (agents_.IsBroken(node)) {
      return;
    }
    if (TakesWork(at)) {
      LookAgain(node);
      return;
    }
    if (ReturnsByItself(at) || at.state == NodeState::kValidating) {
      agenda_.Add(now_ms_ + kOperatorMs, Happening::kReadmit, node.value());
      return;
    }
    story_.NotePerson(node);
    batch_.emplace_back(ValidationRequested{node, "repaired", "operator"});
  }

  // What is not decided yet, or held, may still take the node out of service.
  void LookAgain(NodeId node) {
    const auto& open = state_.open_incidents;
    const bool waits = std::ranges::any_of(
        open.On(node), [&](IncidentId id) { return open.undecided.contains(id); });
    if (waits) {
      agenda_.Add(now_ms_ + kRetryMs, Happening::kReadmit, node.value());
    }
  }

  Status Turn() {
    std::vector<Event> events;
    events.reserve(batch_.size());
    for (EventBody& body : batch_) {
      events.push_back({At(now_ms_), std::move(body)});
    }
    batch_.clear();
    const int64_t began = MonotonicNanos();
    const StepResult result = Step(state_, events, policy_, At(now_ms_), Deciding::kOneLook);
    run_.decide_ns.push_back(MonotonicNanos() - began);
    ++run_.events;
    TIDE_TRY(CheckReplies(events, result));
    for (const Event& event : result.log) {
      Note(event.body);
    }
    for (const NodeId node : result.changed.nodes) {
      ledger_.SetInService(node, TakesWork(state_.nodes[node.value()]));
    }
    story_.Observe(state_, result.changed.nodes, At(now_ms_), [this](NodeId node) {
      return agents_.IsBroken(node);
    });
    for (const Command& command : result.commands) {
      agents_.Obey(command, now_ms_, batch_);
    }
    TakeReleases();
    TIDE_TRY(CountFinished(result));
    wake_ms_ = ToMs(result.wake_at);
    if (options_.watch) {
      options_.watch(state_, policy_, At(now_ms_));
    }
    return {};
  }

  Status CheckReplies(const std::vector<Event>& events, const StepResult& result) {
    for (size_t i = 0; i < events.size(); ++i) {
      if (result.results[i].has_value()) {
        continue;
      }
      const Error& error = result.results[i].error();
      if (const auto* asked = std::get_if<ValidationRequested>(&events[i].body)) {
        agenda_.Add(now_ms_ + kRetryMs, Happening::kReadmit, asked->node.value());
      } else if (const auto* job = std::get_if<JobSubmitted>(&events[i].body)) {
        const TraceJob& line = trace_.jobs[job->job.value() - 1];
        return Fail(error.code,
                    trace_.path + ":" + std::to_string(line.line) +
                        ":1: the scheduler refuses job " + line.id + ": " + error.message);
      } else {
        return Fail(ErrorCode::kInternal,
                    "the scheduler refuses " + std::string(EventName(events[i].body)) + ": " +
                        error.message);
      }
    }
    return {};
  }

  // What the scheduler decided, from its log.
  void Note(const EventBody& body) {
    if (const auto* placed = std::get_if<JobPlaced>(&body)) {
      Place(*placed);
    } else if (const auto* asked = std::get_if<SuspendRequested>(&body)) {
      if (asked->cause == StopCause::kPreempted) {
        ++gangs()[asked->job.value() - 1].record.preemptions;
      }
    } else if (const auto* kept = std::get_if<SuspendWithdrawn>(&body)) {
      --gangs()[kept->job.value() - 1].record.preemptions;
    }
  }

  void Place(const JobPlaced& placed) {
    const size_t index = placed.job.value() - 1;
    Gang& gang = gangs()[index];
    ledger_.RemoveDemand(DemandOf(gang), gang.gpus());
    for (const NodeId node : placed.allocation.nodes) {
      ledger_.Take(node, gang.gpus_per_node());
    }
    agents_.Place(index, placed.epoch, placed.allocation.nodes, now_ms_);
    std::vector<uint32_t> zones;
    for (const NodeId node : placed.allocation.nodes) {
      zones.push_back(shape_.zone_of[node.value()]);
    }
    if (std::adjacent_find(zones.begin(), zones.end(), std::not_equal_to<>()) != zones.end()) {
      crossing_.insert(placed.job);
      CrossZone& cross = run_.cross_zone;
      ++cross.jobs_total;
      cross.jobs_max = std::max(cross.jobs_max, static_cast<uint32_t>(crossing_.size()));
      // Per boundary: a job in k zones crosses k - 1 of them.
      const std::set<uint32_t> distinct(zones.begin(), zones.end());
      const auto boundaries = static_cast<uint32_t>(distinct.size()) - 1;
      cross.pairs_max = std::max(cross.pairs_max, CountCrossZonePairs(zones).plan / boundaries);
    }
  }

  // GPUs that tasks have given back.
  void TakeReleases() {
    for (const SimAgents::Release& release : agents_.TakeReleases()) {
      const Gang& gang = gangs()[release.job];
      ledger_.Release(release.node, gang.gpus_per_node());
      if (release.last) {
        crossing_.erase(IdOf(release.job));
        if (gang.phase() == GangPhase::kWaiting) {
          ledger_.AddDemand(DemandOf(gang), gang.gpus());
        }
      }
    }
  }

  Status CountFinished(const StepResult& result) {
    for (const JobId id : result.changed.jobs) {
      const auto* finished = std::get_if<Finished>(&state_.jobs.at(id).phase);
      if (finished == nullptr) {
        continue;
      }
      if (finished->outcome != Outcome::kSucceeded) {
        const TraceJob& line = trace_.jobs[id.value() - 1];
        return Fail(ErrorCode::kInternal,
                    "the scheduler let job " + line.id + " fail: " + state_.jobs.at(id).detail);
      }
      if (!finished_[id.value() - 1]) {
        finished_[id.value() - 1] = true;
        ++done_;
        last_end_ = run_.events;
      }
    }
    return {};
  }

  std::unexpected<Error> Stuck(const std::string& how) {
    std::string waiting;
    for (const JobId id : state_.waiting) {
      waiting += " " + trace_.jobs[id.value() - 1].id;
      if (waiting.size() > 60) {
        waiting += " …";
        break;
      }
    }
    return Fail(ErrorCode::kInternal,
                "the scheduler " + how + " after " + std::to_string(now_ms_ / 1000) + " s with " +
                    std::to_string(gangs().size() - done_) + " jobs left; waiting:" + waiting);
  }

  const Trace& trace_;
  const ClusterShape& shape_;
  const ReplayOptions& options_;
  RunCosts costs_without_saves_;
  Policy policy_;
  ClusterState state_;
  Agenda agenda_;
  SimAgents agents_;
  NodeLedger ledger_;
  FaultSource faults_;
  uint64_t faults_seen_ = 0;
  FaultStory story_;
  std::optional<NodeFault> next_fault_;
  std::vector<EventBody> batch_;  // for the next step
  std::set<JobId> crossing_;      // jobs in several zones now
  int64_t now_ms_ = 0;
  int64_t wake_ms_ = kNeverMs;
  int idle_steps_ = 0;
  std::vector<bool> finished_;
  size_t done_ = 0;
  uint64_t last_end_ = 0;  // step at which a job last ended
  RunRecord run_;
};

Result<RunRecord> ReplayTrace(const Trace& trace,
                              const ClusterShape& shape,
                              const ReplayOptions& options) {
  return Replay(trace, shape, options).Run();
}

}  // namespace tide::sim
