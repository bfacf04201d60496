#include "scheduler/server/loop.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "common/log/log.h"
#include "scheduler/core/lease.h"
#include "scheduler/core/policy/estimate.h"
#include "scheduler/store/store_exit_code.h"

namespace tide {
namespace {

constexpr size_t kQueueMax = 65536;
constexpr size_t kBatchMax = 4096;

// A look at when each of thousands of nodes was last heard; a busy loop has a thousand turns a
// second.
constexpr Duration kNoticeEvery = Duration::Millis(100);
constexpr Duration kRefusedShown = Duration::Minutes(1);  // an agent tries again within seconds

// What time alone changes has its moment (StepResult::wake_at); a belt beside those braces.
constexpr Duration kStepEvery = Duration::Seconds(1);

// Estimates are for people: each second is often enough, and they take at most this part of the
// loop's time however long the queue is (10,000 waiting jobs: once in about ten seconds).
constexpr Duration kEstimateEvery = Duration::Seconds(1);
constexpr int64_t kEstimateShare = 400;
// A new leader has agents and clients to take on first: 10 s for 100,000 jobs.
constexpr Duration kFirstEstimatePerJob = Duration::Nanos(100'000);

// Why jobs wait may be shown later where the queue is so long that it takes more than a quarter of
// the loop's time: some of the jobs at once, so that requests wait for milliseconds only.
constexpr int64_t kReasonsShare = 4;
constexpr size_t kReasonsAtOnce = 2000;

// A job id in an event, for the log line of a transition; 0 = none.
template <typename Body>
uint64_t JobOf(const Body& body) {
  if constexpr (requires { body.job.value(); }) {
    return body.job.value();
  } else {
    return 0;
  }
}

template <typename Body>
std::string NodeOf(const ClusterState& state, const Body& body) {
  if constexpr (requires { body.node.value(); }) {
    return state.nodes[body.node.value()].identity.name;
  } else {
    return "";
  }
}

void LogEvent(const ClusterState& state, const Event& event) {
  const uint64_t job = std::visit([](const auto& body) { return JobOf(body); }, event.body);
  const std::string node =
      std::visit([&](const auto& body) { return NodeOf(state, body); }, event.body);
  const Job* found = state.FindJob(JobId(job));
  log::Info(EventName(event.body),
            {{"JobId", job == 0 ? std::string("-") : FormatJobName(job)},
             {"State", found == nullptr ? "-" : JobStateName(StateOf(*found))},
             {"Node", node.empty() ? std::string("-") : node}});
}

}  // namespace

Loop::Loop(std::unique_ptr<Store> store,
           ClusterState state,
           LoopConfig config,
           ViewHub& view,
           SessionRegistry& sessions)
    : store_(std::move(store)),
      state_(std::move(state)),
      secrets_(std::move(config.secrets)),
      people_(std::move(config.people)),
      open_jobs_(config.job_limits),
      config_(std::move(config)),
      policy_(config_.policy),
      liveness_(config_.liveness, MonotonicNanos()),
      view_(view),
      sessions_(sessions),
      term_(store_->term()),
      cluster_id_(store_->cluster_id()) {}

Loop::~Loop() {
  Stop();
}

void Loop::Start() {
  for (const auto& [id, job] : state_.jobs) {
    open_jobs_.Note(job);
  }
  policy_.removed_users = people_.RemovedUsers();
  state_.led_since = Now();
  estimate_at_ =
      state_.led_since + kFirstEstimatePerJob * static_cast<int64_t>(state_.waiting.size());
  view_.PutPeople(people_.All());
  view_.PublishAll(state_, term_);
  lease_until_ns_ = config_.boot_clock() + kLeaseRenewal.nanos();  // until the first turn proves it
  thread_ = std::thread([this] { Run(); });
}

void Loop::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) {
    thread_.join();
    if (const Status released = store_->Release(SystemNow()); !released) {
      log::Warning("Lease not released", {{"Error", released.error().message}});
    }
  }
}

bool Loop::Enqueue(Request request) {
  {
    const MutexLock lock(mutex_);
    if (stopping_ || queue_.size() >= kQueueMax) {
      return false;
    }
    patient_ += request.patient ? 1 : 0;
    // Once the loop has seen one that may wait, more of them need not wake it.
    const bool sees_it_later = request.patient && patient_ > 1;
    queue_.push_back(std::move(request));
    if (sees_it_later) {
      return true;
    }
  }
  wake_.NotifyAll();
  return true;
}

Instant Loop::Now() {
  return clock_.Read(SystemNow(), config_.boot_clock());
}

int64_t Loop::IdleNs(Instant due) {
  if (stopping_ || queue_.size() > patient_) {
    return 0;
  }
  const int64_t until_due = (due - Now()).nanos();
  return queue_.empty() ? until_due : std::min(until_due, pace_.WaitNs(MonotonicNanos()));
}

// Waits for requests or the next moment at which time alone matters.
std::deque<Request> Loop::TakeBatch() {
  const MutexLock lock(mutex_);
  const Instant due = std::min(wake_at_, Now() + Liveness::check_interval());
  for (int64_t idle = IdleNs(due); idle > 0; idle = IdleNs(due)) {
    wake_.WaitFor(mutex_, idle);
  }
  std::deque<Request> batch;
  while (!queue_.empty() && batch.size() < kBatchMax) {
    patient_ -= queue_.front().patient ? 1 : 0;
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  pace_.Count(MonotonicNanos());
  return batch;
}

void Loop::Run() {
  while (true) {
    std::deque<Request> batch = TakeBatch();
    {
      const MutexLock lock(mutex_);
      if (stopping_ && batch.empty()) {
        return;
      }
    }
    Turn(batch);
  }
}

void Loop::Turn(const std::deque<Request>& batch) {
  const int64_t began = MonotonicNanos();
  const Instant now = Now();
  noticed_ = LookAround(state_);
  Status done;
  if (batch.empty() && noticed_.empty() && now < step_due_) {
    deciding_ = Deciding::kLater;
    done = Commit(state_, {}, now);  // for the lease
  } else {
    deciding_ = decision_pace_.IsDue(began) ? Deciding::kOneLook : Deciding::kLater;
    const Result<Instant> wake_at = RunTurn(state_, policy_, now, batch, *this, deciding_);
    if (wake_at) {
      const Duration pause = Duration::Nanos(decision_pace_.UntilDueNs(MonotonicNanos()));
      step_due_ = std::max(std::min(*wake_at, now + kStepEvery), Now() + pause);
    } else {
      done = std::unexpected(wake_at.error());
    }
  }
  if (!done) {
    log::Failure("Commit failed, stopping", {{"Error", done.error().message}});
    std::_Exit(StoreExitCode(done.error(), kExitCommitFailed));
  }
  wake_at_ = step_due_;
  ShowReasons(began);
  Estimate();
}

void Loop::ShowReasons(int64_t turn_began) {
  const Instant now = Now();
  if (now >= reasons_at_) {
    if (!explanations_.empty()) {
      made_out_ = std::exchange(explanations_, {}).All(state_);
    }
    if (!changed_since_.empty()) {
      std::erase_if(made_out_, [&](const Explanation& explanation) {
        return changed_since_.contains(explanation.job);
      });
      changed_since_.clear();
    }
    if (view_.PublishReasons(state_, made_out_, kReasonsAtOnce)) {
      made_out_.clear();
    }
    // With the turn, as one more is needed for those that are left.
    const Duration took = Duration::Nanos(MonotonicNanos() - turn_began);
    reasons_at_ = now + took * kReasonsShare;
  }
  if (!explanations_.empty() || !made_out_.empty()) {
    wake_at_ = std::min(wake_at_, reasons_at_);
  }
}

// After the callers were answered: nobody waits for it.
void Loop::Estimate() {
  if (state_.waiting.empty() && state_.held.empty()) {
    return;
  }
  const Instant now = Now();
  if (now < estimate_at_) {
    return;
  }
  const int64_t began = MonotonicNanos();
  view_.PublishEstimates(EstimateStarts(state_, state_.fabric, config_.policy, now), now);
  const Duration took = Duration::Nanos(MonotonicNanos() - began);
  estimate_at_ = now + std::max(kEstimateEvery, took * kEstimateShare);
}

std::vector<EventBody> Loop::Notice(const ClusterState& /*state*/) {
  step_began_ns_ = MonotonicNanos();
  return std::exchange(noticed_, {});
}

std::vector<EventBody> Loop::LookAround(const ClusterState& state) {
  const int64_t now_ns = MonotonicNanos();
  if (now_ns - noticed_ns_ < kNoticeEvery.nanos()) {
    return {};
  }
  noticed_ns_ = now_ns;
  view_.ForgetRefused(SystemNow() - kRefusedShown);
  std::vector<EventBody> events = liveness_.Check(state, sessions_.LastHeard(), now_ns);
  if (now_ns - stalls_looked_ns_ >= StallWatch::check_interval().nanos()) {
    stalls_looked_ns_ = now_ns;
    const auto seen = view_.QuietRanks(health::kStallLeast, stall_watch_.stalled(state));
    std::ranges::move(stall_watch_.Check(state, policy_, seen, Now()), std::back_inserter(events));
    std::ranges::move(NoteLosses(state, view_.StrangeLosses()), std::back_inserter(events));
    std::vector<JobId> starting;
    std::ranges::copy_if(state.live, std::back_inserter(starting), [&](JobId id) {
      return AwaitsFirstStep(state.jobs.at(id));
    });
    std::ranges::move(view_.FirstSteps(starting, Now()), std::back_inserter(events));
  }
  if (now_ns - paces_looked_ns_ >= SlowWatch::window().nanos()) {
    paces_looked_ns_ = now_ns;
    std::ranges::move(slow_watch_.Check(state, view_.Paces()), std::back_inserter(events));
  }
  if (now_ns - idle_looked_ns_ >= IdleTestWatch::check_interval().nanos()) {
    idle_looked_ns_ = now_ns;
    std::ranges::move(idle_tests_.Check(state, policy_, Now()), std::back_inserter(events));
  }
  return events;
}

Status Loop::Commit(const ClusterState& state, const StepResult& step, Instant now) {
  if (deciding_ != Deciding::kLater) {
    const int64_t now_ns = MonotonicNanos();
    decision_pace_.Count(now_ns - step_began_ns_, step.at_rest, now_ns);
  }
  const int64_t asked_ns = config_.boot_clock();
  const uint64_t renewals = store_->renewals();
  for (SecretRow& row : secrets_.TakeChanges()) {
    store_->Stage(std::move(row));
  }
  changed_people_ = people_.TakeChanges();
  for (const PeopleRecord& record : changed_people_) {
    store_->Stage(record);
  }
  std::ranges::move(tally_.Counted(now), std::back_inserter(audit_));
  for (AuditEntry& entry : std::exchange(audit_, {})) {
    store_->Stage(std::move(entry));
  }
  TIDE_TRY(store_->Commit(state, step, now));
  if (store_->renewals() != renewals) {
    lease_until_ns_ = asked_ns + kLeaseDuration.nanos();
  }
  for (const Event& event : step.log) {
    LogEvent(state, event);
  }
  return {};
}

void Loop::Audit(AuditEntry entry) {
  if (entry.outcome == kAuditDone || tally_.Take(entry)) {
    audit_.push_back(std::move(entry));
  }
}

void Loop::AuditLook(AuditEntry entry) {
  if (tally_.Take(entry)) {
    audit_.push_back(std::move(entry));
  }
}

uint64_t Loop::Publish(const ClusterState& state, const StepResult& step) {
  for (const JobId id : step.changed.jobs) {
    open_jobs_.Note(state.jobs.at(id));
  }
  open_jobs_.EndTurn();
  if (!explanations_.empty() || !made_out_.empty()) {
    changed_since_.insert(step.changed.jobs.begin(), step.changed.jobs.end());
  }
  if (!changed_people_.empty()) {
    policy_.removed_users = people_.RemovedUsers();  // for the next turn, a second from now at most
  }
  view_.PutPeople(std::exchange(changed_people_, {}));
  for (const NodeId node : step.changed.nodes) {
    if (state.nodes[node.value()].state == NodeState::kRemoved) {
      sessions_.Close(node);  // a stream that outlived the node's loss: its agent joins anew
    }
  }
  return view_.Publish(state, step, term_);
}

void Loop::Send(const Command& command, const ClusterState& state, Instant now) {
  sessions_.Send(command, state, now);
}

void Loop::Explain(Explanations explanations) {
  explanations_ = std::move(explanations);
  made_out_.clear();
  changed_since_.clear();
}

}  // namespace tide
