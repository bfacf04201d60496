#include "sim/chaos/sim_scheduler.h"

#include <algorithm>
#include <utility>

#include "common/base/cluster_id.h"
#include "scheduler/core/proof.h"

namespace tide::chaos {

SimScheduler::SimScheduler(
    Context& context, Network& network, Checkers& checkers, Stores stores, uint32_t index)
    : context_(context),
      network_(network),
      checkers_(checkers),
      stores_(stores),
      store_(&stores_.home),
      index_(index),
      skew_(context.Between(Duration() - context.plan.skew_max, context.plan.skew_max)),
      policy_(context.plan.policy) {
  if (context_.mutation == Mutation::kEarlyIsolation) {
    policy_.isolation_timeout = Duration();
    policy_.isolation_margin = Duration();
  }
  Network::Ends& ends = network_.scheduler_ends[index_];
  ends.at_scheduler = [this](uint64_t stream, const ToScheduler& message) {
    Post([this, stream, message] { OnUp(stream, message); });
  };
  ends.lost_by_scheduler = [this](uint64_t stream) { Post([this, stream] { OnLost(stream); }); };
}

std::function<void()> SimScheduler::Posted(std::function<void()> action) {
  return [this, life = life_, action = std::move(action)] {
    if (!alive_ || life != life_) {
      return;
    }
    if (paused_) {
      backlog_.push_back(Posted(action));
      return;
    }
    action();
  };
}

void SimScheduler::Post(std::function<void()> action) {
  Posted(std::move(action))();
}

// --- life ---------------------------------------------------------------------------------------

void SimScheduler::Start() {
  if (alive_) {
    return;
  }
  ++life_;
  alive_ = true;
  store_ = std::exchange(swap_, false) ? &stores_.other : &stores_.home;
  context_.Note(IsHome() ? "scheduler starts" : "scheduler starts on another store",
                {{"scheduler", index_}});
  TryToLead();
}

void SimScheduler::TryToLead() {
  const auto term = store_->Acquire(index_ + 1, Wall(), context_.plan.schedulers == 1);
  if (!term) {
    context_.After(context_.BetweenMs(500, 1500), Posted([this] { TryToLead(); }));
    return;
  }
  if (IsHome()) {
    checkers_.OnTerm(*term);
  }
  context_.After(context_.BetweenMs(10, 300), Posted([this, term = *term] { Lead(term); }));
}

void SimScheduler::Lead(Term term) {
  Result<ClusterState> loaded = store_->Load();
  if (!loaded) {
    // It ends, and so does each next one, until somebody puts the row back.
    context_.After(context_.BetweenMs(1000, 20'000), [this] {
      context_.Note("row put back", {});
      stores_.home.Restore();
    });
    Crash("scheduler does not start on a damaged row");
    return;
  }
  context_.Note("scheduler leads", {{"scheduler", index_}, {"term", term.value()}});
  term_ = term;
  state_ = *std::move(loaded);
  checkers_.OnState(state_);
  if (IsHome()) {
    checkers_.OnLoaded(state_, *store_);
  }
  if (context_.mutation == Mutation::kDoubleAllocation) {
    for (NodeUse& use : state_.uses) {
      use = NodeUse{};
    }
  }
  liveness_ = std::make_unique<Liveness>(LivenessPolicy{}, context_.now().unix_nanos());
  clock_.emplace(Wall(), context_.now().unix_nanos());
  state_.led_since = Wall();
  renew_at_ = Wall() + kLeaseRenewal;
  lease_until_ = context_.now() + kLeaseRenewal;
  leading_ = true;
  TurnWithin(Duration());
}

void SimScheduler::Crash(std::string_view why) {
  if (!alive_) {
    return;
  }
  context_.Note(why, {{"scheduler", index_}});
  alive_ = false;
  leading_ = false;
  paused_ = false;
  loop_paused_ = false;
  sends_left_ = -1;
  backlog_.clear();
  inbox_.clear();
  sessions_.clear();
  last_heard_ns_.clear();
  committing_ = false;
  turn_at_ = Instant::Never();
  joined_.clear();
  hellos_.Clear();
  network_.CloseAllOf(index_);
  if (context_.mutation == Mutation::kLostRow && committed_at_.is_set() &&
      context_.now() - committed_at_ < Duration::Seconds(2)) {
    store_->UndoLast();
  }
  const Duration down =
      context_.faults_on ? context_.BetweenMs(200, 15'000) : Duration::Millis(500);
  context_.After(down, [this] { Start(); });
}

void SimScheduler::SwapStore() {
  if (alive_ && IsHome()) {
    swap_ = true;
    Crash("scheduler's store is swapped");
    context_.After(context_.BetweenMs(20'000, 60'000), [this] { PutStoreRight(); });
  }
}

void SimScheduler::PutStoreRight() {
  swap_ = false;
  if (!IsHome()) {
    Crash("scheduler's store is put right");
  }
}

void SimScheduler::Pause(Duration span, bool loop_only) {
  if (!alive_ || paused_ || loop_paused_) {
    return;
  }
  context_.Note(loop_only ? "scheduler's loop hangs" : "scheduler stopped",
                {{"scheduler", index_}, {"ms", static_cast<uint64_t>(span.millis())}});
  (loop_only ? loop_paused_ : paused_) = true;
  context_.After(span, [this, life = life_] {
    if (life == life_) {
      Resume();
    }
  });
}

void SimScheduler::Resume() {
  if (!paused_ && !loop_paused_) {
    return;
  }
  context_.Note("scheduler goes on", {{"scheduler", index_}});
  paused_ = false;
  const bool loop_waited = std::exchange(loop_paused_, false);
  for (const auto& action : std::exchange(backlog_, {})) {
    action();
  }
  if (loop_waited && leading_) {
    TurnWithin(Duration());
  }
}

void SimScheduler::StepClock(Duration step) {
  context_.Note("clock steps",
                {{"scheduler", index_}, {"ms", static_cast<uint64_t>(step.millis())}});
  step_ = step;
}

// --- the loop -----------------------------------------------------------------------------------

void SimScheduler::Ask(Request request) {
  Post([this, request = std::move(request)] {
    if (leading_ && IsHome()) {  // people see at once that none of their jobs is there
      Enqueue(request);
    }
  });
}

void SimScheduler::Enqueue(Request request) {
  inbox_.push_back(std::move(request));
  TurnWithin(context_.BetweenMs(0, 3));
}

void SimScheduler::TurnWithin(Duration wait) {
  const Instant at = context_.now() + wait;
  if (turning_ || (turn_at_ <= at && turn_at_ > context_.now())) {
    return;
  }
  turn_at_ = at;
  context_.After(wait, Posted([this, serial = ++turn_serial_] {
                   if (serial == turn_serial_) {
                     Turn();
                   }
                 }));
}

void SimScheduler::Turn() {
  turn_at_ = Instant::Never();
  if (loop_paused_ || committing_ || !leading_ || !clock_) {
    return;
  }
  const Instant now = clock_->Read(Wall(), context_.now().unix_nanos());
  turn_began_ = context_.now();
  if (!context_.Strikes(context_.plan.faults.slow_commit)) {
    const std::deque<Request> batch = std::exchange(inbox_, {});
    FinishTurn(now, batch);
    return;
  }
  // The batch is taken and the time is stamped; the disk takes its time, and the world goes on.
  const Duration wait = context_.BetweenMs(100, 20'000);
  context_.Note("commit is slow",
                {{"scheduler", index_}, {"ms", static_cast<uint64_t>(wait.millis())}});
  committing_ = true;
  context_.After(wait, Posted([this, now, batch = std::exchange(inbox_, {})] {
                   committing_ = false;
                   FinishTurn(now, batch);
                 }));
}

void SimScheduler::FinishTurn(Instant now, const std::deque<Request>& batch) {
  const FaultPlan& faults = context_.plan.faults;
  sends_left_ = context_.Strikes(faults.scheduler_crash_point)
                    ? static_cast<int>(context_.prng.Below(4))
                    : -1;
  turning_ = true;
  const Deciding deciding =
      context_.Strikes(faults.decision_later) ? Deciding::kLater : Deciding::kOneLook;
  const Result<Instant> wake_at = RunTurn(state_, policy_, now, batch, *this, deciding);
  turning_ = false;
  if (!wake_at) {
    Crash("scheduler dies: " + wake_at.error().message);
    return;
  }
  if (sends_left_ >= 0) {
    Crash("scheduler dies after sending");
    return;
  }
  Duration until = *wake_at == Instant::Never() ? Liveness::check_interval() : *wake_at - now;
  if (!inbox_.empty()) {
    until = Duration();
  }
  TurnWithin(std::clamp(until, Duration::Millis(1), Liveness::check_interval()));
}

std::vector<EventBody> SimScheduler::Notice(const ClusterState& state) {
  std::vector<EventBody> events = liveness_->Check(state, last_heard_ns_, turn_began_.unix_nanos());
  if (turn_began_ - idle_looked_ >= IdleTestWatch::check_interval()) {
    idle_looked_ = turn_began_;
    std::ranges::move(idle_tests_.Check(state, policy_, Wall()), std::back_inserter(events));
  }
  return events;
}

Status SimScheduler::Commit(const ClusterState& state, const StepResult& step, Instant now) {
  checkers_.OnState(state);
  if (step.changed.empty() && step.log.empty() && now < renew_at_) {
    return {};
  }
  const FaultPlan& faults = context_.plan.faults;
  if (context_.Strikes(faults.scheduler_crash_point)) {
    return Fail(ErrorCode::kInternal, "before its commit");
  }
  const bool fails = context_.Strikes(faults.commit_failure);
  if (fails && context_.prng.Below(2) == 0) {
    return Fail(ErrorCode::kStorage, "its commit failed");
  }
  TIDE_TRY(store_->Commit(term_, state, step, now));
  for (const Event& event : step.log) {
    NoteEvent(event);
  }
  if (IsHome()) {
    checkers_.OnCommitted(term_, *store_, step);
  }
  committed_at_ = context_.now();
  renew_at_ = now + kLeaseRenewal;
  lease_until_ = turn_began_ + kLeaseDuration;
  if (fails) {
    return Fail(ErrorCode::kStorage, "its commit was not answered");
  }
  if (context_.Strikes(faults.scheduler_crash_point)) {
    return Fail(ErrorCode::kInternal, "after its commit");
  }
  return {};
}

void SimScheduler::NoteEvent(const Event& event) {
  if (const auto* asked = std::get_if<ValidationRequested>(&event.body);
      asked != nullptr && !asked->peers.empty()) {
    context_.Note("validation beside idle nodes", {{"scheduler", index_}});
  }
  std::visit(
      [&](const auto& body) {
        uint64_t job = 0;
        uint64_t node = 0;
        if constexpr (requires { body.job.value(); }) {
          job = body.job.value();
        }
        if constexpr (requires { body.node.value(); }) {
          node = body.node.value();
        }
        context_.Note(EventName(event.body), {{"scheduler", index_}, {"job", job}, {"node", node}});
      },
      event.body);
}

uint64_t SimScheduler::Publish(const ClusterState& state, const StepResult& step) {
  for (const NodeId node : step.changed.nodes) {
    const auto session = sessions_.find(node);
    if (session != sessions_.end() && state.nodes[node.value()].state == NodeState::kRemoved) {
      const uint64_t stream = session->second.stream;  // it outlived the node's loss
      network_.CloseByScheduler(stream);
      OnLost(stream);
    }
  }
  return ++rev_;
}

void SimScheduler::Send(const Command& command, const ClusterState& state, Instant now) {
  const auto session = sessions_.find(command.node);
  if (session == sessions_.end() || sends_left_ == 0 || !session->second.sent.Note(command)) {
    return;
  }
  sends_left_ -= sends_left_ > 0 ? 1 : 0;
  ToAgent message;
  message.kind = ToAgent::Kind::kCommand;
  message.command = command;
  message.remaining = std::max(Duration::Millis(1), command.deadline - now);
  if (command.kind == CommandKind::kStartTask) {
    const Job& job = state.jobs.at(command.job);
    message.start.id = {command.job.value(), command.epoch.value(), command.task};
    message.start.submitted_at = job.submitted_at.unix_nanos();
    if (const Allocation* allocation = AllocationOf(job); allocation != nullptr) {
      message.start.devices = allocation->part ? allocation->part->devices : 0;
    }
    message.start.training = TrainingOf(job.spec);
    for (const Task& task : job.attempts.back().tasks) {
      message.start.nodes.push_back(AgentOf(state.nodes[task.node.value()]));
    }
  }
  Push(session->second.stream, std::move(message));
}

// --- agents -------------------------------------------------------------------------------------

void SimScheduler::Push(uint64_t stream, ToAgent message) {
  message.term = term_.value();
  message.cluster = store_->cluster();
  network_.SendDown(stream, std::move(message));
}

void SimScheduler::OnUp(uint64_t stream, const ToScheduler& message) {
  if (!leading_) {
    return;
  }
  switch (message.kind) {
    case ToScheduler::Kind::kHello:
      OnHello(stream, message);
      break;
    case ToScheduler::Kind::kReport:
      OnReport(stream, message);
      break;
    case ToScheduler::Kind::kHeartbeat:
      if (const auto node = joined_.find(stream); node != joined_.end()) {
        last_heard_ns_[node->second] = context_.now().unix_nanos();
        if (context_.now() < lease_until_) {
          ToAgent answer;
          answer.heartbeat = message.number;
          Push(stream, std::move(answer));
        }
      }
      break;
  }
}

void SimScheduler::OnHello(uint64_t stream, const ToScheduler& message) {
  if (message.highest_term > term_.value()) {
    Refuse(stream, 0);
    return;
  }
  if (context_.mutation != Mutation::kStrangerObeyed &&
      !MayDealWith(message.ids.cluster, store_->cluster())) {
    context_.Note("agent of another cluster refused", {{"scheduler", index_}});
    Refuse(stream, 0);
    return;
  }
  const NodeIdentity identity = IdentityOf(stream, message);
  const AgentPlace place = PlaceOf(identity, identity.endpoint);
  const auto newest = std::make_shared<uint64_t>(0);  // it was refused for that
  Request request;
  request.make = [this, identity, place, newest, message](
                     BatchContext& batch, Reply& reply) -> Result<std::vector<EventBody>> {
    TIDE_TRY(CheckIsTheOne(batch.state(), identity, place));
    const std::string& name = identity.name;
    if (!hellos_.Take(name, message.number)) {
      context_.Note("old hello refused", {{"scheduler", index_}});
      *newest = hellos_.Newest(name);
      return Fail(ErrorCode::kConflict, "it has joined anew since");
    }
    NodeJoined joined;
    joined.identity = identity;
    joined.node = reply.node = batch.NodeFor(name);
    // As the service does: the faults come before the tasks that they explain.
    std::vector<EventBody> events;
    for (EventBody& body : EventsOf(joined.node, message)) {
      if (auto* task = std::get_if<TaskReported>(&body)) {
        joined.tasks.push_back(std::move(*task));
      } else {
        events.push_back(std::move(body));
      }
    }
    const bool known = batch.state().FindNode(name) != nullptr;
    events.insert(known ? events.end() : events.begin(), std::move(joined));
    return events;
  };
  request.done =
      [this, place, newest, stream, xids_taken = message.xids.size()](const Reply& reply) {
        if (reply.status) {
          Join(stream, reply.node, place, xids_taken);
        } else {
          Refuse(stream, *newest);
        }
      };
  Enqueue(std::move(request));
}

NodeIdentity SimScheduler::IdentityOf(uint64_t stream, const ToScheduler& hello) const {
  NodeIdentity identity;
  identity.name = hello.ids.name;
  identity.zone = "A";
  identity.leaf = "l1";
  identity.capacity.gpus = 8;
  identity.endpoint = std::to_string(network_.AgentOf(stream));
  if (context_.mutation != Mutation::kCopyAdmitted) {
    identity.machine_id = hello.ids.machine;
    identity.state_id = hello.ids.state;
  }
  identity.witness_timeout =
      WitnessTimeoutOf(context_.mutation == Mutation::kRuleAssumed ? 0 : hello.witness_ms, policy_);
  if (context_.mutation != Mutation::kEarlyIsolation) {
    identity.isolation_timeout = IsolationTimeoutOf(hello.isolation_ms, policy_);
  }
  return identity;
}

Status SimScheduler::CheckIsTheOne(const ClusterState& state,
                                   const NodeIdentity& comer,
                                   const AgentPlace& place) const {
  const Node* node = state.FindNode(comer.name);
  const auto connected = node == nullptr ? sessions_.end() : sessions_.find(node->id);
  Status one;
  if (connected != sessions_.end() && AreTwoAgents(connected->second.place, place)) {
    one = Fail(ErrorCode::kConflict, "another agent of that name is connected");
  } else {
    one = CheckMayJoin(state, comer);
  }
  if (!one) {
    context_.Note("second agent refused", {{"scheduler", index_}});
  }
  return one;
}

void SimScheduler::Refuse(uint64_t stream, uint64_t newest_hello) {
  ToAgent refused;
  refused.kind = ToAgent::Kind::kRefused;
  refused.newest_hello = newest_hello;
  Push(stream, std::move(refused));
  network_.CloseByScheduler(stream);
}

void SimScheduler::Join(uint64_t stream, NodeId node, const AgentPlace& place, size_t xids_taken) {
  joined_[stream] = node;
  Session& session = sessions_[node];
  const uint64_t replaced = std::exchange(session.stream, stream);
  session.place = place;
  session.sent.Clear();
  last_heard_ns_[node] = context_.now().unix_nanos();
  ToAgent welcome;
  welcome.kind = ToAgent::Kind::kWelcome;
  welcome.xids_taken = xids_taken;
  welcome.isolation_timeout = context_.plan.policy.isolation_timeout;
  welcome.witness_timeout = WitnessTimeoutOf(0, context_.plan.policy);
  Push(stream, std::move(welcome));
  if (replaced != 0 && replaced != stream) {
    network_.CloseByScheduler(replaced);
  }
  if (!network_.IsOpenAtScheduler(stream)) {
    OnLost(stream);  // it was lost while its Hello waited for the turn
  }
}

void SimScheduler::OnLost(uint64_t stream) {
  const auto joined = joined_.find(stream);
  if (joined == joined_.end()) {
    return;
  }
  const auto session = sessions_.find(joined->second);
  if (session != sessions_.end() && session->second.stream == stream) {
    sessions_.erase(session);
  }
  joined_.erase(joined);
}

void SimScheduler::OnReport(uint64_t stream, const ToScheduler& message) {
  const auto node = joined_.find(stream);
  if (node == joined_.end()) {
    return;
  }
  Request request;
  request.make = [this, node = node->second, message](
                     BatchContext& /*batch*/, Reply& /*reply*/) -> Result<std::vector<EventBody>> {
    return EventsOf(node, message);
  };
  request.done = [this, stream, seq = message.seq](const Reply& /*reply*/) {
    ToAgent ack;
    ack.seq = seq;
    Push(stream, std::move(ack));
  };
  Enqueue(std::move(request));
}

std::vector<EventBody> SimScheduler::EventsOf(NodeId node, const ToScheduler& message) const {
  std::vector<EventBody> events;
  for (const int32_t xid : message.xids) {
    events.emplace_back(FaultObserved{node, FaultKind::kXid, xid, "gpu0", "", Wall()});
  }
  for (const agent::HeldReport& held : message.tasks) {
    TaskReported report;
    report.node = node;
    report.job = JobId(held.id.job);
    report.epoch = Epoch(held.id.epoch);
    report.task = held.id.task;
    report.state = static_cast<TaskState>(held.state);
    report.exit.reason = held.state == agent::HeldState::kExited || held.judged
                             ? static_cast<ExitReason>(held.outcome.reason)
                             : ExitReason::kNone;
    report.exit.code = held.outcome.code;
    report.exit.signal = held.outcome.signal;
    report.exit.rank = held.outcome.rank;
    report.at = Instant::FromUnixNanos(held.at);
    report.parked_at = Instant::FromUnixNanos(held.parked_at);
    report.stop_step = held.stop_step;
    report.saved_step = held.saved_step;
    report.saved_at = Instant::FromUnixNanos(held.saved_at);
    report.stuck = held.stuck;
    events.emplace_back(report);
  }
  if (message.validated) {
    ValidationReported validated{node, *message.validated, {}};
    validated.verdicts.push_back({"gpu", "pass", 1, "", "", 1, Wall()});
    for (const std::string& validator : ProofWanted(state_, node)) {
      validated.verdicts.push_back({validator, "pass", 1, "", "", 1, Wall()});
    }
    events.emplace_back(std::move(validated));
  }
  PlantBugs(events);
  return events;
}

// Mutations of what the scheduler takes from agents.
void SimScheduler::PlantBugs(std::vector<EventBody>& events) const {
  const bool partial = context_.mutation == Mutation::kPartialGang;
  const bool old = context_.mutation == Mutation::kOldEpochBelieved;
  for (size_t i = 0; (partial || old) && i < events.size(); ++i) {
    auto* report = std::get_if<TaskReported>(&events[i]);
    const Job* job = report == nullptr ? nullptr : state_.FindJob(report->job);
    if (job == nullptr || job->attempts.empty()) {
      continue;
    }
    const Attempt& attempt = job->attempts.back();
    if (old) {
      for (uint32_t task = 0; task < attempt.tasks.size(); ++task) {
        if (attempt.tasks[task].node == report->node) {
          report->epoch = attempt.epoch;
          report->task = task;
        }
      }
    } else if (report->state == TaskState::kRunning && report->epoch == attempt.epoch) {
      TaskReported other = *report;
      other.task = (report->task + 1) % static_cast<uint32_t>(attempt.tasks.size());
      other.node = attempt.tasks[other.task].node;
      if (other.task != report->task) {
        events.emplace_back(other);
        return;
      }
    }
  }
}

}  // namespace tide::chaos
