// One bidirectional stream per agent (jobs.md section 4). Reports are acknowledged after commit.

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/cluster_id.h"
#include "common/log/log.h"
#include "common/people/token_text.h"
#include "common/spec/secret_name.h"
#include "proto/wire/commands.h"
#include "proto/wire/ranks.h"
#include "proto/wire/state.h"
#include "scheduler/core/hello_order.h"
#include "scheduler/core/isolation.h"
#include "scheduler/server/scheduler_service.h"
#include "tide/v1/agent.grpc.pb.h"

namespace tide {
namespace {

struct LinkContext {
  Loop& loop;
  ViewHub& view;
  SessionRegistry& sessions;
  rpc::Security security;
  Duration heartbeat;
  const Admission& admission;
  BeatPort* beats = nullptr;       // null = heartbeats come on the stream alone
  uint64_t streams_joined = 0;     // loop thread only
  HelloOrder hellos;               // loop thread only
  wire::TopologyCache topologies;  // loop thread only
  // Secrets of the newest groups that are validated. Loop thread only.
  std::deque<std::pair<std::string, std::string>> fabric_tokens = {};  // id, token

  // Returns the secret of a request's group. It is in no log: after a change of the leader the
  // members that it tells again do not meet the others, and say so.
  const std::string& FabricToken(const std::string& request_id) {
    constexpr size_t kKept = 64;
    for (const auto& [id, token] : fabric_tokens) {
      if (id == request_id) {
        return token;
      }
    }
    if (fabric_tokens.size() == kKept) {
      fabric_tokens.pop_front();
    }
    return fabric_tokens.emplace_back(request_id, RandomHex(kTokenSecretBytes)).second;
  }
};

constexpr size_t kKeptImagesMax = 256;  // of a node
constexpr size_t kImageNameMax = 1024;  // bytes
constexpr size_t kPreparingMax = 512;   // bytes of a text that everybody's view gets

// By this machine's clock: those of nodes differ.
Instant TickedAt(const tide::v1::Progress& progress, Instant now) {
  constexpr uint64_t kAgeMaxMs = 1ULL << 40U;
  const uint64_t age_ms = std::min(progress.tick_age_ms(), kAgeMaxMs);
  return age_ms == 0 ? Instant() : now - Duration::Millis(static_cast<int64_t>(age_ms));
}

// By either way. Returns the answer, without a body where there is none: an answer to each, so the
// agent knows that it is not cut off, but none from a scheduler that may have been replaced, as its
// successor gives the tasks of agents that it does not hear up.
tide::v1::SchedulerMessage TakeHeartbeat(LinkContext& link,
                                         NodeId node,
                                         const tide::v1::Heartbeat& heartbeat) {
  link.sessions.Touch(node, MonotonicNanos());
  const Instant now = SystemNow();
  for (const tide::v1::Progress& each : heartbeat.progress()) {
    link.view.SetProgress(JobId(each.job_id()),
                          Epoch(each.epoch()),
                          each.task(),
                          {.step = each.step(),
                           .total_steps = each.total_steps(),
                           .loss = each.loss(),
                           .preparing = each.preparing().substr(0, kPreparingMax),
                           .memory_bytes = each.memory_bytes(),
                           .cpu_millis = each.cpu_millis(),
                           .ticked_at = TickedAt(each, now),
                           .phase = each.phase(),
                           .failed_saves = each.failed_saves(),
                           .save_errno = each.save_errno()});
    if (each.has_loss_news()) {
      link.view.SetLossNews(JobId(each.job_id()),
                            Epoch(each.epoch()),
                            each.task(),
                            node,
                            wire::FromProto(each.loss_news()));
    }
    if (each.has_ranks()) {
      link.view.SetRanks(JobId(each.job_id()),
                         Epoch(each.epoch()),
                         each.task(),
                         node,
                         {now, wire::FromProto(each.ranks())});
    }
  }
  tide::v1::SchedulerMessage answer;
  if (link.loop.LeaseHolds()) {
    answer.set_term(link.loop.term().value());
    answer.mutable_ack()->set_heartbeat(heartbeat.number());
  }
  return answer;
}

using Reactor = grpc::ServerBidiReactor<tide::v1::AgentMessage, tide::v1::SchedulerMessage>;

// The part of a stream that others may hold longer than gRPC keeps the reactor: its node, and the
// queue of messages to it.
class Session final : public AgentSession {
 public:
  Session(Reactor* reactor, LinkContext& link) : link_(link), reactor_(reactor) {}

  void Send(const Command& command, const ClusterState& state, Instant now) override {
    tide::v1::SchedulerMessage message;
    *message.mutable_command() = wire::ToProto(state, command, link_.topologies);
    if (message.command().has_start()) {
      AddAccount(*message.mutable_command()->mutable_start());
      if (const TaskExit failed = AddSecrets(*message.mutable_command()->mutable_start());
          failed.reason != ExitReason::kNone) {
        FailStart(command, failed, now);
        return;
      }
    }
    if (message.command().validate().has_fabric()) {
      message.mutable_command()->mutable_validate()->mutable_fabric()->set_token(
          link_.FabricToken(command.request_id));
    }
    if (message.command().has_suspend() && command.deadline.is_set()) {
      // What is left of it, for an agent whose clock is not this one's. By loop time: the system
      // clock may have stepped away from it, and then nothing would be left.
      const Duration left = command.deadline - now;
      message.mutable_command()->mutable_suspend()->set_remaining_ms(
          static_cast<uint64_t>(std::max<int64_t>(1, left.millis())));
    }
    Push(std::move(message));
  }

  // Sends what is queued, then ends the stream.
  void Close() override {
    {
      const MutexLock lock(mutex_);
      finish_wanted_ = true;
    }
    Continue();
  }

  void Push(tide::v1::SchedulerMessage message) {
    {
      const MutexLock lock(mutex_);
      if (finish_wanted_) {
        return;
      }
      message.set_term(link_.loop.term().value());
      queue_.push_back(std::move(message));
    }
    Continue();
  }

  //   newest_hello: what the number of its next Hello must be above; 0 = that is not why.
  void Refuse(const std::string& why, uint64_t newest_hello = 0) {
    log::Warning("Agent refused", {{"Reason", why}});
    tide::v1::SchedulerMessage message;
    message.mutable_refused()->set_message(why);
    message.mutable_refused()->set_newest_hello(newest_hello);
    Push(std::move(message));
    Close();
  }

  void OnWriteDone(bool ok) {
    {
      const MutexLock lock(mutex_);
      writing_ = false;
      queue_.pop_front();
      if (!ok) {
        queue_.clear();
        finish_wanted_ = true;
      }
    }
    Continue();
  }

  // gRPC is done with the stream.
  void OnDone() {
    {
      const MutexLock lock(mutex_);
      reactor_ = nullptr;
    }
    Leave();
  }

  // Loop thread, before the commands of the step that let the node join are sent.
  //   faults_taken: of its Hello; they are committed.
  void Join(NodeId node,
            uint32_t faults_taken,
            const std::vector<tide::v1::TaskRef>& strangers,
            const AgentPlace& place,
            const std::shared_ptr<Session>& self) {
    {
      const MutexLock lock(mutex_);
      node_ = node;
      stream_ = ++link_.streams_joined;
    }
    tide::v1::SchedulerMessage message;
    tide::v1::Welcome* welcome = message.mutable_welcome();
    welcome->set_node_id(node.value());
    welcome->set_heartbeat_ms(static_cast<uint32_t>(link_.heartbeat.millis()));
    welcome->set_isolation_timeout_ms(
        static_cast<uint64_t>(link_.loop.policy().isolation_timeout.millis()));
    welcome->set_witness_timeout_ms(
        static_cast<uint64_t>(WitnessTimeoutOf(0, link_.loop.policy()).millis()));
    welcome->mutable_strangers()->Assign(strangers.begin(), strangers.end());
    welcome->set_faults_taken(faults_taken);
    welcome->set_cluster_id(link_.loop.cluster_id());
    OfferBeatPort(node, *welcome);
    Push(std::move(message));
    link_.view.SetConnected(node, link_.streams_joined, true);
    link_.sessions.Attach(node, self, MonotonicNanos(), place);
    log::Info("Agent connected", {{"NodeId", node.value()}});
    bool gone = false;
    {
      const MutexLock lock(mutex_);
      gone = reactor_ == nullptr;
    }
    if (gone) {
      Leave();
    }
  }

  // As its Hello says, before it joins.
  void SetTakesSecrets(bool takes) {
    const MutexLock lock(mutex_);
    takes_secrets_ = takes;
  }

  // The node of this stream once it has joined.
  [[nodiscard]] std::optional<NodeId> node() {
    const MutexLock lock(mutex_);
    return stream_ != 0 ? std::optional(node_) : std::nullopt;
  }

 private:
  void AddAccount(tide::v1::StartTask& start) {
    const auto people = link_.loop.people().Snapshot();
    if (const User* user = people->FindUser(start.user())) {
      start.mutable_account()->set_number(user->number);
      start.mutable_account()->set_uid(user->uid);
      start.mutable_account()->mutable_gids()->Assign(user->gids.begin(), user->gids.end());
    }
  }

  // Their values as they are now: what was changed counts from the next start on. The job's own
  // token goes the same way.
  // Returns why the task cannot start, or no reason.
  [[nodiscard]] TaskExit AddSecrets(tide::v1::StartTask& start) {
    const std::string own_token =
        link_.loop.job_tokens().TextOf(JobId(start.job_id()), Epoch(start.epoch()));
    {
      const MutexLock lock(mutex_);
      if (!takes_secrets_ && start.spec().secrets().empty()) {
        return {};  // it does without its token
      }
      if (!takes_secrets_) {
        return {.reason = ExitReason::kNodeFault,
                .message =
                    "its agent is of an older release and would start the job without its "
                    "secrets: upgrade it"};
      }
    }
    for (const std::string& name : start.spec().secrets()) {
      Result<std::string> value = link_.loop.secrets().Open({start.user(), name});
      if (!value) {
        return {.reason = ExitReason::kStartFailed, .message = std::move(value.error().message)};
      }
      tide::v1::Secret* secret = start.add_secrets();
      secret->set_name(name);
      secret->set_value(*std::move(value));
    }
    if (!own_token.empty()) {
      start.mutable_spec()->add_secrets(std::string(kJobTokenSecret));
      tide::v1::Secret* secret = start.add_secrets();
      secret->set_name(std::string(kJobTokenSecret));
      secret->set_value(own_token);
    }
    return {};
  }

  // In the name of the agent, which hears nothing of this start.
  void FailStart(const Command& command, const TaskExit& exit, Instant now) {
    TaskReported report;
    report.node = command.node;
    report.job = command.job;
    report.epoch = command.epoch;
    report.task = command.task;
    report.state = TaskState::kExited;
    report.exit = exit;
    report.at = now;
    Request request;
    request.make = [report](BatchContext&, Reply&) -> Result<std::vector<EventBody>> {
      return std::vector<EventBody>{report};
    };
    request.done = [](const Reply&) {};
    if (!link_.loop.Enqueue(std::move(request))) {
      Close();  // the next stream is sent the command again
    }
  }

  void OfferBeatPort(NodeId node, tide::v1::Welcome& welcome) {
    if (link_.beats == nullptr) {
      return;
    }
    auto port = link_.beats->Admit(node);
    if (!port) {
      log::Warning("Heartbeats come on the stream", {{"Error", port.error().message}});
      return;
    }
    {
      const MutexLock lock(mutex_);
      beat_session_ = port->session();
    }
    *welcome.mutable_beat_port() = *std::move(port);
  }

  void Leave() {
    NodeId left;
    uint64_t stream = 0;
    std::optional<uint64_t> beat_session;
    {
      const MutexLock lock(mutex_);
      left = node_;
      stream = stream_;
      beat_session = beat_session_;
    }
    if (beat_session) {
      link_.beats->Dismiss(*beat_session);
    }
    if (stream != 0 && link_.sessions.Detach(left, this)) {
      link_.view.SetConnected(left, stream, false);
      log::Info("Agent disconnected", {{"NodeId", left.value()}});
    }
  }

  // Starts the next write or the end. The flags are set first, so only one thread does, and the
  // reactor cannot go away before: gRPC is done only after Finish.
  void Continue() {
    Reactor* reactor = nullptr;
    const tide::v1::SchedulerMessage* message = nullptr;
    {
      const MutexLock lock(mutex_);
      if (reactor_ == nullptr || writing_ || finished_) {
        return;
      }
      if (!queue_.empty()) {
        writing_ = true;
        message = &queue_.front();
      } else if (finish_wanted_) {
        finished_ = true;
      } else {
        return;
      }
      reactor = reactor_;
    }
    if (message != nullptr) {
      reactor->StartWrite(message);
    } else {
      reactor->Finish(grpc::Status::OK);
    }
  }

  LinkContext& link_;
  Mutex mutex_;
  Reactor* reactor_ TIDE_GUARDED_BY(mutex_);
  NodeId node_ TIDE_GUARDED_BY(mutex_);
  uint64_t stream_ TIDE_GUARDED_BY(mutex_) = 0;  // 0 = has not joined
  bool takes_secrets_ TIDE_GUARDED_BY(mutex_) = false;
  std::optional<uint64_t> beat_session_ TIDE_GUARDED_BY(mutex_);
  std::deque<tide::v1::SchedulerMessage> queue_ TIDE_GUARDED_BY(mutex_);  // front = in flight
  bool writing_ TIDE_GUARDED_BY(mutex_) = false;
  bool finish_wanted_ TIDE_GUARDED_BY(mutex_) = false;
  bool finished_ TIDE_GUARDED_BY(mutex_) = false;
};

// The number is that of a job here, but the task belongs to another job: one of a database that was
// lost, or of the time after the copy that was restored.
bool IsStranger(const ClusterState& state, const tide::v1::TaskReport& task) {
  const Job* job = state.FindJob(JobId(task.job_id()));
  return job != nullptr && task.submitted_at() != 0 &&
         job->submitted_at.unix_nanos() != task.submitted_at();
}

// The node waits for its end, under whatever number.
bool IsLeftover(const ClusterState& state, NodeId node, const tide::v1::TaskReport& task) {
  const Leftover said{JobId(task.job_id()), Epoch(task.epoch()), task.task()};
  const std::vector<Leftover>& left = state.nodes.at(node.value()).leftovers;
  return std::ranges::find(left, said) != left.end();
}

// What this version does not understand is left out, not the message with it: that is acknowledged
// as a whole, and never said again.
template <typename Body>
void AddUnderstood(NodeId node, Result<Body> body, std::vector<EventBody>& events) {
  if (body) {
    events.emplace_back(*std::move(body));
  } else {
    log::Warning("Part of a report ignored",
                 {{"NodeId", node.value()}, {"Error", body.error().message}});
  }
}

template <typename Message>
void AddFaults(NodeId node, const Message& message, std::vector<EventBody>& events) {
  for (const tide::v1::Fault& fault : message.faults()) {
    AddUnderstood(node, wire::FromProto(fault, node), events);
  }
}

// What is found while a Hello is read, to be said to its agent.
struct JoinNotes {
  std::vector<tide::v1::TaskRef> strangers;
  uint64_t newest_hello = 0;         // it was refused for that; 0 = not
  AgentPlace place = {};             // where it comes from
  std::optional<NodeId> taken = {};  // the node whose name it took from another agent
};

// Errors: kConflict: another agent of that name is connected.
Status CheckIsTheOne(const ClusterState& state,
                     const std::string& name,
                     const AgentPlace& place,
                     SessionRegistry& sessions) {
  const Node* node = state.FindNode(name);
  const auto other = node == nullptr ? std::nullopt : sessions.OtherThan(node->id, place);
  if (!other) {
    return {};
  }
  return Fail(
      ErrorCode::kConflict,
      "two agents have the name " + name + ": one at " + other->address +
          ", which is connected, and this one at " + place.address +
          " with another state folder, which is refused; give it another --name, or end the "
          "other first");
}

// Errors: kConflict: another agent of that name is connected, or may still run its tasks.
Status CheckNameIsFree(const ClusterState& state,
                       const NodeIdentity& comer,
                       SessionRegistry& sessions,
                       JoinNotes& notes) {
  Status free = CheckIsTheOne(state, comer.name, notes.place, sessions);
  if (free) {
    free = CheckMayJoin(state, comer);
  }
  if (!free) {
    notes.taken = state.FindNode(comer.name)->id;
  }
  return free;
}

// Faults come before the tasks that they explain: else a job would be over, as failed by itself,
// when its reason is read. Only a node that is new has to join first.
Result<std::vector<EventBody>> MakeJoin(BatchContext& batch,
                                        Reply& reply,
                                        const NodeIdentity& identity,
                                        const tide::v1::Hello& hello,
                                        HelloOrder& order,
                                        JoinNotes& notes) {
  if (!order.Take(identity.name, hello.number())) {
    notes.newest_hello = order.Newest(identity.name);
    return Fail(ErrorCode::kConflict, identity.name + " has joined anew since it said this");
  }
  reply.node = batch.NodeFor(identity.name);
  NodeJoined joined{reply.node, identity, {}};
  for (const tide::v1::TaskReport& task : hello.tasks()) {
    if (IsStranger(batch.state(), task)) {
      tide::v1::TaskRef& stranger = notes.strangers.emplace_back();
      stranger.set_job_id(task.job_id());
      stranger.set_epoch(task.epoch());
      stranger.set_task(task.task());
      continue;
    }
    TIDE_ASSIGN(TaskReported report, wire::FromProto(task, reply.node));
    joined.tasks.push_back(std::move(report));
  }
  std::vector<EventBody> events;
  if (batch.state().FindNode(identity.name) != nullptr) {
    AddFaults(reply.node, hello, events);
    events.emplace_back(std::move(joined));
  } else {
    events.emplace_back(std::move(joined));
    AddFaults(reply.node, hello, events);
  }
  return events;
}

std::vector<EventBody> MakeReport(const ClusterState& state,
                                  NodeId node,
                                  const tide::v1::Report& report) {
  std::vector<EventBody> events;
  AddFaults(node, report, events);
  for (const tide::v1::TaskReport& task : report.tasks()) {
    // Of a stranger the agent learns when it is to start the other.
    if (!IsStranger(state, task) || IsLeftover(state, node, task)) {
      AddUnderstood(node, wire::FromProto(task, node), events);
    }
  }
  if (report.has_validation()) {
    events.emplace_back(wire::FromProto(report.validation(), node));
  }
  return events;
}

class AgentStream final : public Reactor {
 public:
  // context: lives until OnDone
  AgentStream(LinkContext& link, const grpc::CallbackServerContext& context)
      : link_(link),
        context_(context),
        peer_(context.peer()),
        session_(std::make_shared<Session>(this, link)) {
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      session_->Close();
      return;
    }
    if (incoming_.has_hello()) {
      HandleHello(incoming_.hello());
    } else if (!greeted_) {
      session_->Refuse("the first message of a stream is Hello");
    } else if (incoming_.has_report()) {
      HandleReport(incoming_.report());
    } else if (incoming_.has_heartbeat()) {
      HandleHeartbeat(incoming_.heartbeat());
    } else if (incoming_.has_images()) {
      HandleImages(incoming_.images());
    }
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override { session_->OnWriteDone(ok); }
  void OnCancel() override { session_->Close(); }
  void OnDone() override {
    session_->OnDone();
    delete this;
  }

 private:
  void HandleHello(const tide::v1::Hello& hello) {
    if (greeted_) {
      session_->Refuse("a stream has one Hello");
      return;
    }
    if (const grpc::Status speaks = link_.security.AdmitNode(context_, hello.node().name());
        !speaks.ok()) {
      session_->Refuse(speaks.error_message());
      return;
    }
    auto identity = link_.admission.Admit(wire::IdentityFromProto(hello.node()));
    if (!identity) {
      session_->Refuse(identity.error().message);
      return;
    }
    if (hello.has_witness_timeout_ms()) {
      identity->witness_timeout =
          WitnessTimeoutOf(static_cast<int64_t>(hello.witness_timeout_ms()), link_.loop.policy());
    }
    identity->isolation_timeout =
        IsolationTimeoutOf(hello.has_isolation_timeout_ms()
                               ? std::optional(static_cast<int64_t>(hello.isolation_timeout_ms()))
                               : std::nullopt,
                           link_.loop.policy());
    if (hello.highest_term() > link_.loop.term().value()) {
      session_->Refuse("this scheduler (term " + std::to_string(link_.loop.term().value()) +
                       ") has been replaced by a newer one: the agent has obeyed term " +
                       std::to_string(hello.highest_term()));
      return;
    }
    if (!MayDealWith(hello.cluster_id(), link_.loop.cluster_id())) {
      session_->Refuse("agent " + identity->name + " at " + peer_ + " belongs to cluster " +
                       hello.cluster_id() + ", this is cluster " + link_.loop.cluster_id() +
                       ": was the scheduler started on another store? To have the agent join this "
                       "one, start it once with --join");
      return;
    }
    identity->machine_id = hello.machine_id();
    identity->state_id = hello.state_id();
    greeted_ = true;
    session_->SetTakesSecrets(hello.takes_secrets());
    AskToJoin(hello, *identity);
  }

  void AskToJoin(const tide::v1::Hello& hello, const NodeIdentity& identity) {
    Request request;
    const auto notes = std::make_shared<JoinNotes>();
    notes->place = PlaceOf(identity, peer_);
    request.make = [&link = link_, hello, identity, notes](
                       BatchContext& batch, Reply& reply) -> Result<std::vector<EventBody>> {
      // Before its number counts: what a copy says must not age what the other says next.
      TIDE_TRY(CheckNameIsFree(batch.state(), identity, link.sessions, *notes));
      return MakeJoin(batch, reply, identity, hello, link.hellos, *notes);
    };
    request.done = [&link = link_,
                    session = session_,
                    endpoint = identity.endpoint,
                    peer = peer_,
                    notes,
                    faults = hello.faults_size()](const Reply& reply) {
      if (notes->taken) {
        link.view.SetRefused(*notes->taken, {endpoint, peer, SystemNow()});
      }
      if (reply.status) {
        session->Join(
            reply.node, static_cast<uint32_t>(faults), notes->strangers, notes->place, session);
      } else {
        session->Refuse(reply.status.error().message, notes->newest_hello);
      }
    };
    if (!link_.loop.Enqueue(std::move(request))) {
      session_->Refuse("the scheduler's queue is full");
    }
  }

  void HandleReport(const tide::v1::Report& report) {
    const auto node = session_->node();
    if (!node) {
      session_->Refuse("a report before Welcome");
      return;
    }
    Request request;
    request.patient = true;
    request.make = [node = *node, report](BatchContext& batch,
                                          Reply& /*reply*/) -> Result<std::vector<EventBody>> {
      return MakeReport(batch.state(), node, report);
    };
    request.done = [session = session_, seq = report.seq()](const Reply& reply) {
      if (!reply.status) {
        log::Warning("Part of a report rejected", {{"Error", reply.status.error().message}});
      }
      tide::v1::SchedulerMessage message;
      message.mutable_ack()->set_seq(seq);
      session->Push(std::move(message));
    };
    if (!link_.loop.Enqueue(std::move(request))) {
      session_->Close();  // unacknowledged: the agent sends it again on its next stream
    }
  }

  void HandleHeartbeat(const tide::v1::Heartbeat& heartbeat) {
    const auto node = session_->node();
    if (!node) {
      return;
    }
    if (auto answer = TakeHeartbeat(link_, *node, heartbeat); answer.has_ack()) {
      session_->Push(std::move(answer));
    }
  }

  void HandleImages(const tide::v1::KeptImages& kept) {
    const auto node = session_->node();
    if (!node) {
      return;
    }
    std::vector<std::string> images;
    for (const std::string& name : kept.names()) {
      if (images.size() < kKeptImagesMax && name.size() <= kImageNameMax) {
        images.push_back(name);
      }
    }
    Request request;
    request.patient = true;
    request.make = [&link = link_, node = *node, images = std::move(images)](
                       BatchContext& /*batch*/, Reply& /*reply*/) {
      link.loop.SetImages(node, images);
      return std::vector<EventBody>();
    };
    request.done = [](const Reply&) {};
    static_cast<void>(link_.loop.Enqueue(std::move(request)));  // a hint; the next one says all
  }

  LinkContext& link_;
  const grpc::CallbackServerContext& context_;
  const std::string peer_;  // where it comes from
  const std::shared_ptr<Session> session_;
  tide::v1::AgentMessage incoming_;
  bool greeted_ = false;
};

class AgentLinkService final : public tide::v1::AgentLink::CallbackService {
 public:
  AgentLinkService(LinkContext link, std::unique_ptr<BeatPort> beats)
      : link_(std::move(link)), beats_(std::move(beats)) {
    if (beats_) {
      link_.beats = beats_.get();
      beats_->Start([this](NodeId node, const tide::v1::Heartbeat& heartbeat) {
        return TakeHeartbeat(link_, node, heartbeat);
      });
    }
  }

  Reactor* Connect(grpc::CallbackServerContext* context) override {
    if (const grpc::Status admitted = link_.security.Admit(*context, rpc::Role::kAgent);
        !admitted.ok()) {
      class Refused final : public Reactor {
       public:
        explicit Refused(const grpc::Status& why) { Finish(why); }
        void OnDone() override { delete this; }
      };
      return new Refused(admitted);  // gRPC reactors own themselves until OnDone
    }
    return new AgentStream(link_, *context);
  }

 private:
  LinkContext link_;
  const std::unique_ptr<BeatPort> beats_;  // gone before what its thread uses
};

}  // namespace

std::unique_ptr<grpc::Service> MakeAgentLinkService(Loop& loop,
                                                    ViewHub& view,
                                                    SessionRegistry& sessions,
                                                    const Admission& admission,
                                                    AgentLinkOptions options) {
  return std::make_unique<AgentLinkService>(LinkContext{loop,
                                                        view,
                                                        sessions,
                                                        std::move(options.security),
                                                        options.heartbeat,
                                                        admission,
                                                        nullptr,
                                                        0,
                                                        {},
                                                        {}},
                                            std::move(options.beats));
}

}  // namespace tide
