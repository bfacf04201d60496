#include "scheduler/server/scheduler_service.h"

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "common/log/log.h"
#include "proto/wire/convert.h"
#include "proto/wire/people_change.h"
#include "proto/wire/plan.h"
#include "proto/wire/ranks.h"
#include "scheduler/core/requests.h"
#include "scheduler/server/answer_queue.h"
#include "scheduler/server/people/project_rules.h"
#include "scheduler/server/plan_worker.h"
#include "tide/v1/scheduler.grpc.pb.h"

namespace tide {
namespace {

constexpr uint32_t kAuditMost = 1000;          // entries in an answer
constexpr uint64_t kNoticeMsMax = 86'400'000;  // policy caps it further; this keeps it a number

// One reader of the view. Deltas merge by themselves while a write is under way or the minimum
// interval has not passed, and are made by gRPC's threads: the loop only tells that there is news.
// Owned by itself until gRPC is done with it; the view's listener only holds a weak reference,
// because it may still be called a moment later.
class WatchStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                          public std::enable_shared_from_this<WatchStream> {
 public:
  using Admit = std::function<grpc::Status()>;

  //   admit: is the caller still one who may watch? Called for each part until OnDone.
  WatchStream(ViewHub& view, uint32_t min_interval_ms, Admit admit)
      : view_(view), min_interval_ms_(min_interval_ms), admit_(std::move(admit)) {}

  void Begin() {
    self_ = shared_from_this();
    listener_ = view_.Subscribe([weak = weak_from_this()] {
      if (const auto stream = weak.lock()) {
        stream->Wake(false);
      }
    });
    Wake(false);
  }

  void OnWriteDone(bool ok) override {
    message_.Clear();
    if (!ok) {
      OnCancel();
    }
    if (ok && min_interval_ms_ > 0 && !part_.more) {
      ContinueIn(min_interval_ms_);
    } else {
      Continue();
    }
  }

  void OnCancel() override { Wake(true); }

  void OnDone() override {
    view_.Unsubscribe(listener_);
    self_.reset();
  }

 private:
  // In a message.
  static constexpr size_t kObjectsMost = 2000;
  static constexpr size_t kBytesMost = 4 << 20;

  void Wake(bool cancel) {
    {
      const MutexLock lock(mutex_);
      news_ = true;
      cancelled_ = cancelled_ || cancel;
      if (busy_) {
        return;
      }
      busy_ = true;
    }
    ContinueIn(0);
  }

  void ContinueIn(uint32_t ms) {
    alarm_.Set(std::chrono::system_clock::now() + std::chrono::milliseconds(ms),
               [this](bool /*fired*/) { Continue(); });
  }

  // Starts the next operation, if one is due. For the one thread that has set `busy_`.
  void Continue() {
    while (true) {
      {
        const MutexLock lock(mutex_);
        if (cancelled_) {
          break;
        }
        if (!news_ && !part_.more) {
          busy_ = false;
          return;
        }
        news_ = false;
      }
      if (const grpc::Status admitted = admit_(); !admitted.ok()) {
        Finish(admitted);
        return;
      }
      const uint64_t before = reader_.rev;
      part_ = view_.Next(reader_, kObjectsMost, kBytesMost);
      if (part_.reset || reader_.rev != before) {
        const grpc::Slice bytes(part_.delta);
        std::string().swap(part_.delta);
        message_ = grpc::ByteBuffer(&bytes, 1);
        StartWrite(&message_);
        return;
      }
    }
    Finish(grpc::Status::CANCELLED);
  }

  ViewHub& view_;
  const uint32_t min_interval_ms_;
  const Admit admit_;
  uint64_t listener_ = 0;
  std::shared_ptr<WatchStream> self_;
  grpc::Alarm alarm_;
  Mutex mutex_;
  bool busy_ TIDE_GUARDED_BY(mutex_) = false;  // a write, a pause or the end is under way
  bool cancelled_ TIDE_GUARDED_BY(mutex_) = false;
  bool news_ TIDE_GUARDED_BY(mutex_) = false;
  // Touched only by the thread that set `busy_`.
  ViewHub::Reader reader_;
  ViewHub::Part part_;
  grpc::ByteBuffer message_;  // a tide::v1::ViewDelta
};

// Words of the audit.
std::string_view JobVerbWord(tide::v1::JobVerb verb) {
  return verb == tide::v1::JOB_VERB_SUSPEND  ? "suspend"
         : verb == tide::v1::JOB_VERB_RESUME ? "resume"
         : verb == tide::v1::JOB_VERB_CANCEL ? "cancel"
                                             : "move";
}
std::string_view NodeVerbWord(tide::v1::NodeVerb verb) {
  return verb == tide::v1::NODE_VERB_DRAIN     ? "drain"
         : verb == tide::v1::NODE_VERB_UNDRAIN ? "undrain"
         : verb == tide::v1::NODE_VERB_REMOVE  ? "remove"
         : verb == tide::v1::NODE_VERB_VOUCH   ? "vouch"
                                               : "validate";
}
std::string MomentWord(const Moment& moment) {
  return moment.at.is_set() ? FormatRfc3339(moment.at) : "in " + FormatDuration(moment.in);
}
// What is asked for beside the verb: times of a drain.
std::string Planned(std::string_view verb, const NodeOrder& order) {
  return std::string(verb) + (order.deadline ? ", jobs leave " + MomentWord(*order.deadline) : "") +
         (order.from ? ", maintenance from " + MomentWord(*order.from) : "") +
         (order.until ? ", maintenance until " + MomentWord(*order.until) : "");
}
std::optional<Moment> MomentOf(bool is_named, const tide::v1::Moment& message) {
  constexpr uint64_t kMillisMax = 1ULL << 40U;  // 34 years: longer is refused in the same way
  if (!is_named) {
    return std::nullopt;
  }
  const auto in_ms = static_cast<int64_t>(std::min<uint64_t>(message.in_ms(), kMillisMax));
  return Moment{Instant::FromUnixNanos(message.at()), Duration::Millis(in_ms)};
}
std::string Described(std::string_view verb, const std::string& reason) {
  return std::string(verb) + (reason.empty() ? "" : ": " + reason);
}

// Watch sends bytes that are ready.
using Service =
    tide::v1::Scheduler::WithRawCallbackMethod_Watch<tide::v1::Scheduler::CallbackService>;

class SchedulerService final : public Service {
 public:
  SchedulerService(Loop& loop, ViewHub& view, rpc::Security security, StoreReader::Open open_store)
      : loop_(loop),
        view_(view),
        security_(std::move(security)),
        planner_(loop),
        reader_(std::move(open_store)) {}

  grpc::ServerUnaryReactor* SubmitJob(grpc::CallbackServerContext* context,
                                      const tide::v1::SubmitJobRequest* request,
                                      tide::v1::SubmitJobResponse* response) override {
    return Handle(
        context,
        {request->caller(), Operation::kSubmitJob, "job " + request->spec().name()},
        [request, this](BatchContext& batch,
                        Reply& reply,
                        const Actor& actor) -> Result<std::vector<EventBody>> {
          JobSpec spec = wire::FromProto(request->spec());
          const std::string& key = request->idempotency_key();
          TIDE_TRY(SettleProject(*loop_.people().Snapshot(), loop_.policy(), actor, spec));
          if (!IsKnownSubmission(batch, actor.user, key)) {
            TIDE_TRY(loop_.secrets().Check(actor.user, spec.secrets));
            TIDE_TRY(loop_.open_jobs().Promise(actor.user, spec));
          }
          return MakeSubmit(batch, reply, spec, actor.user, key);
        },
        [response, this](const Reply& reply) {
          response->set_job_id(reply.job.value());
          response->set_existed(reply.existed);
          response->set_rev(reply.rev);
          if (const std::string job = view_.BytesOf(reply.job); !job.empty()) {
            (void)response->mutable_job()->ParseFromString(job);
          }
        });
  }

  grpc::ServerUnaryReactor* PlanJob(grpc::CallbackServerContext* context,
                                    const tide::v1::PlanJobRequest* request,
                                    tide::v1::PlanJobResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    if (const grpc::Status admitted = security_.Admit(*context, rpc::Role::kApi); !admitted.ok()) {
      reactor->Finish(admitted);
      return reactor;
    }
    const auto people = loop_.people().Snapshot();
    const auto actor = CheckCaller(*people, request->caller(), Operation::kPlanJob);
    PlanWorker::Question question;
    question.spec = wire::FromProto(request->spec());
    question.user = request->caller().user();
    const Status settled = actor ? SettleProject(*people, loop_.policy(), *actor, question.spec)
                                 : std::unexpected(actor.error());
    if (!settled) {
      reactor->Finish(rpc::ToGrpc(settled.error(), context));
      return reactor;
    }
    question.answer = [context, reactor, response](const Result<JobPlan>& plan) {
      if (plan) {
        *response = wire::ToProto(*plan);
        reactor->Finish(grpc::Status::OK);
      } else {
        reactor->Finish(rpc::ToGrpc(plan.error(), context));
      }
    };
    if (!planner_.Ask(std::move(question))) {
      reactor->Finish(rpc::ToGrpc(
          {ErrorCode::kExhausted, "too many plans are asked for; try again in a second"}, context));
    }
    return reactor;
  }

  grpc::ServerUnaryReactor* ControlJob(grpc::CallbackServerContext* context,
                                       const tide::v1::ControlJobRequest* request,
                                       tide::v1::MutationResponse* response) override {
    JobOrder order;
    order.job = JobId(request->job_id());
    order.count = std::clamp(request->count(), 1U, kArrayCountMax);
    order.actor = request->caller().user();
    order.reason = request->reason();
    order.notice =
        Duration::Millis(static_cast<int64_t>(std::min(request->notice_ms(), kNoticeMsMax)));
    if (request->verb() == tide::v1::JOB_VERB_RESUME) {
      order.verb = JobVerb::kResume;
      order.resume_step = request->has_resume_step() ? request->resume_step() : -1;
      if (request->has_resume_step() && order.resume_step < 0) {
        return Refuse(context, {ErrorCode::kInvalidArgument, "a step to go back to is 0 or more"});
      }
    } else if (request->verb() == tide::v1::JOB_VERB_CANCEL) {
      order.verb = JobVerb::kCancel;
    } else if (request->verb() == tide::v1::JOB_VERB_MOVE) {
      order.verb = JobVerb::kMove;
      order.before = JobId(request->before());
    } else if (request->verb() != tide::v1::JOB_VERB_SUSPEND) {
      return Refuse(context, {ErrorCode::kInvalidArgument, "unknown verb for a job"});
    }
    return Handle(
        context,
        {request->caller(),
         Operation::kControlJob,
         FormatJobName(order.job.value()),
         Described(JobVerbWord(request->verb()), order.reason)},
        [order, this](BatchContext& batch, Reply& /*reply*/, const Actor& /*actor*/) {
          return MakeJobOrder(batch, order, loop_.current_policy());
        },
        [response](const Reply& reply) { response->set_rev(reply.rev); });
  }

  grpc::ServerUnaryReactor* ControlNode(grpc::CallbackServerContext* context,
                                        const tide::v1::ControlNodeRequest* request,
                                        tide::v1::MutationResponse* response) override {
    NodeOrder order;
    order.node = request->node();
    order.actor = request->caller().user();
    order.reason = request->reason();
    order.deadline = MomentOf(request->has_deadline(), request->deadline());
    order.from = MomentOf(request->has_from(), request->from());
    order.until = MomentOf(request->has_until(), request->until());
    order.request_id = "v" + std::to_string(loop_.term().value()) + "-" +
                       std::to_string(next_validation_.fetch_add(1));
    if (request->verb() == tide::v1::NODE_VERB_UNDRAIN) {
      order.verb = NodeVerb::kUndrain;
    } else if (request->verb() == tide::v1::NODE_VERB_VALIDATE) {
      order.verb = NodeVerb::kValidate;
      order.with.assign(request->with().begin(), request->with().end());
    } else if (request->verb() == tide::v1::NODE_VERB_REMOVE) {
      order.verb = NodeVerb::kRemove;
    } else if (request->verb() == tide::v1::NODE_VERB_VOUCH) {
      order.verb = NodeVerb::kVouch;
      order.incident = IncidentId(request->incident());
    } else if (request->verb() != tide::v1::NODE_VERB_DRAIN) {
      return Refuse(context, {ErrorCode::kInvalidArgument, "unknown verb for a node"});
    }
    return Handle(
        context,
        {request->caller(),
         Operation::kControlNode,
         "node " + order.node,
         Described(Planned(NodeVerbWord(request->verb()), order), order.reason)},
        [order](BatchContext& batch, Reply& /*reply*/, const Actor& /*actor*/) {
          return MakeNodeOrder(batch, order);
        },
        [response](const Reply& reply) { response->set_rev(reply.rev); });
  }

  grpc::ServerUnaryReactor* GetRanks(grpc::CallbackServerContext* context,
                                     const tide::v1::GetRanksRequest* request,
                                     tide::v1::GetRanksResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    if (const grpc::Status admitted = security_.Admit(*context, rpc::Role::kApi); !admitted.ok()) {
      reactor->Finish(admitted);
      return reactor;
    }
    const auto actor =
        CheckCaller(*loop_.people().Snapshot(), request->caller(), Operation::kSeeInside);
    if (!actor) {
      reactor->Finish(rpc::ToGrpc(actor.error(), context));
      return reactor;
    }
    const Instant now = SystemNow();
    const JobRanks ranks = view_.RanksOf(JobId(request->job_id()));
    response->set_epoch(ranks.epoch.value());
    for (const auto& [task, each] : ranks.tasks) {
      tide::v1::TaskTicks* added = response->add_tasks();
      added->set_task(task);
      *added->mutable_ranks() = wire::ToProto(each.ranks, now - each.seen_at);
    }
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerUnaryReactor* GetArchivedJob(grpc::CallbackServerContext* context,
                                           const tide::v1::GetArchivedJobRequest* request,
                                           tide::v1::GetArchivedJobResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    if (const grpc::Status admitted = security_.Admit(*context, rpc::Role::kApi); !admitted.ok()) {
      reactor->Finish(admitted);
      return reactor;
    }
    const auto actor =
        CheckCaller(*loop_.people().Snapshot(), request->caller(), Operation::kSeeJobs);
    if (!actor) {
      reactor->Finish(rpc::ToGrpc(actor.error(), context));
      return reactor;
    }
    return Read(context, reactor, [request, response](Database& database) -> Status {
      TIDE_ASSIGN(*response->mutable_job(), ReadArchivedJob(database, JobId(request->job_id())));
      return {};
    });
  }

  grpc::ServerUnaryReactor* SetSecret(grpc::CallbackServerContext* context,
                                      const tide::v1::SetSecretRequest* request,
                                      tide::v1::SetSecretResponse* response) override {
    return Handle(
        context,
        {request->caller(), Operation::kUseSecrets, "secret " + request->name()},
        [request, response, this](
            BatchContext& batch, Reply&, const Actor& actor) -> Result<std::vector<EventBody>> {
          TIDE_TRY(
              loop_.secrets().Set({actor.user, request->name()}, request->value(), batch.now()));
          *response->mutable_secret() =
              ToProto({request->name(), request->value().size(), batch.now()});
          return std::vector<EventBody>{};
        },
        [request](const Reply&) {
          log::Info("Secret set", {{"User", request->caller().user()}, {"Name", request->name()}});
        });
  }

  grpc::ServerUnaryReactor* ListSecrets(grpc::CallbackServerContext* context,
                                        const tide::v1::ListSecretsRequest* request,
                                        tide::v1::ListSecretsResponse* response) override {
    return Handle(
        context,
        {request->caller(), Operation::kUseSecrets},
        [response, this](
            BatchContext&, Reply&, const Actor& actor) -> Result<std::vector<EventBody>> {
          for (const SecretVault::Entry& entry : loop_.secrets().List(actor.user)) {
            *response->add_secrets() = ToProto(entry);
          }
          return std::vector<EventBody>{};
        },
        [](const Reply&) {});
  }

  grpc::ServerUnaryReactor* RemoveSecret(grpc::CallbackServerContext* context,
                                         const tide::v1::RemoveSecretRequest* request,
                                         tide::v1::RemoveSecretResponse* /*response*/) override {
    return Handle(
        context,
        {request->caller(), Operation::kUseSecrets, "secret " + request->name()},
        [request, this](
            BatchContext&, Reply&, const Actor& actor) -> Result<std::vector<EventBody>> {
          TIDE_TRY(loop_.secrets().Remove({actor.user, request->name()}));
          return std::vector<EventBody>{};
        },
        [request](const Reply&) {
          log::Info("Secret removed",
                    {{"User", request->caller().user()}, {"Name", request->name()}});
        });
  }

  grpc::ServerUnaryReactor* ChangePeople(grpc::CallbackServerContext* context,
                                         const tide::v1::ChangePeopleRequest* request,
                                         tide::v1::ChangePeopleResponse* response) override {
    const auto asked = DescribeChange(*request, *loop_.people().Snapshot());
    if (!asked) {
      return Refuse(context, asked.error());
    }
    Asked about{request->caller(), asked->operation, asked->object};
    about.owner = asked->owner;
    about.by_api = asked->by_api;
    about.detail = asked->detail;
    return Handle(
        context,
        std::move(about),
        [request, response, this](
            BatchContext& batch, Reply&, const Actor& actor) -> Result<std::vector<EventBody>> {
          TIDE_TRY(ApplyChange(*request, actor, batch.now(), loop_.people(), *response));
          return std::vector<EventBody>{};
        },
        [response](const Reply& reply) { response->set_rev(reply.rev); });
  }

  grpc::ServerUnaryReactor* RecordAudit(grpc::CallbackServerContext* context,
                                        const tide::v1::RecordAuditRequest* request,
                                        tide::v1::RecordAuditResponse* /*response*/) override {
    Asked api{request->caller(), Operation::kSeeSelf};
    api.by_api = true;
    return Handle(
        context,
        std::move(api),
        [request, this](
            BatchContext& batch, Reply&, const Actor&) -> Result<std::vector<EventBody>> {
          AuditEntry entry = EntryOf(request->caller(), batch.now());
          entry.operation = request->operation();
          entry.object = request->object();
          entry.owner = request->owner();
          entry.outcome = request->outcome();
          entry.detail = request->detail();
          loop_.AuditLook(std::move(entry));
          return std::vector<EventBody>{};
        },
        [](const Reply&) {});
  }

  grpc::ServerUnaryReactor* ReadAudit(grpc::CallbackServerContext* context,
                                      const tide::v1::ReadAuditRequest* request,
                                      tide::v1::ReadAuditResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    if (const grpc::Status admitted = security_.Admit(*context, rpc::Role::kApi); !admitted.ok()) {
      reactor->Finish(admitted);
      return reactor;
    }
    const auto actor =
        CheckCaller(*loop_.people().Snapshot(), request->caller(), Operation::kReadAudit);
    if (!actor) {
      reactor->Finish(rpc::ToGrpc(actor.error(), context));
      return reactor;
    }
    return Read(context, reactor, [request, response](Database& database) -> Status {
      TIDE_ASSIGN(const std::vector<AuditEntry> entries,
                  tide::ReadAudit(database, QueryOf(*request)));
      for (const AuditEntry& entry : entries) {
        *response->add_entries() = ToProto(entry);
      }
      return {};
    });
  }

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Watch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request) override {
    class Refused final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
     public:
      explicit Refused(const grpc::Status& status) { Finish(status); }
      void OnDone() override { delete this; }
    };
    // gRPC reactors own themselves until OnDone.
    if (const grpc::Status admitted = security_.Admit(*context, rpc::Role::kApi); !admitted.ok()) {
      return new Refused(admitted);
    }
    tide::v1::WatchRequest asked;
    grpc::ByteBuffer bytes(*request);
    if (!grpc::SerializationTraits<tide::v1::WatchRequest>::Deserialize(&bytes, &asked).ok()) {
      return new Refused({grpc::StatusCode::INVALID_ARGUMENT, "not a WatchRequest"});
    }
    const auto stream =
        std::make_shared<WatchStream>(view_, asked.min_interval_ms(), [this, context] {
          return security_.Admit(*context, rpc::Role::kApi);
        });
    stream->Begin();
    return stream.get();
  }

 private:
  static tide::v1::SecretEntry ToProto(const SecretVault::Entry& entry) {
    tide::v1::SecretEntry message;
    message.set_name(entry.name);
    message.set_bytes(entry.bytes);
    message.set_changed_at(entry.changed_at.unix_nanos());
    return message;
  }

  grpc::ServerUnaryReactor* Refuse(grpc::CallbackServerContext* context, const Error& error) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    const grpc::Status admitted = security_.Admit(*context, rpc::Role::kApi);
    reactor->Finish(admitted.ok() ? rpc::ToGrpc(error, context) : admitted);
    return reactor;
  }

  // Answers with what `read` fills in, from the store.
  grpc::ServerUnaryReactor* Read(grpc::CallbackServerContext* context,
                                 grpc::ServerUnaryReactor* reactor,
                                 std::function<Status(Database&)> read) {
    StoreReader::Question question;
    question.read = std::move(read);
    question.answer = [context, reactor](const Status& done) {
      reactor->Finish(done ? grpc::Status::OK : rpc::ToGrpc(done.error(), context));
    };
    if (!reader_.Ask(std::move(question))) {
      reactor->Finish(rpc::ToGrpc(
          {ErrorCode::kExhausted, "too much is read from the store; try again in a second"},
          context));
    }
    return reactor;
  }

  // What is asked, for the permission and the audit.
  struct Asked {
    const tide::v1::Caller& caller;  // of the request's message
    Operation operation;
    std::string object = {};  // "" = a look that is not recorded
    std::string detail = {};
    std::string owner = {};  // where the object is no job
    bool by_api = false;     // for one who has no token: nobody yet, or signed in by a proxy
  };

  // Who calls, by the records of this moment. Errors: kUnauthenticated, kPermissionDenied.
  //   owner, project: of the object; "" = the caller's own.
  static Result<Actor> CheckCaller(const Directory& people,
                                   const tide::v1::Caller& caller,
                                   Operation operation,
                                   const std::string& owner = {},
                                   const std::string& project = {}) {
    TIDE_ASSIGN(Actor actor, people.ActorOf(caller.token(), caller.user(), SystemNow()));
    const std::string& of = owner.empty() ? actor.user : owner;
    TIDE_TRY(CheckAllowed(actor, operation, people.RelationTo(actor.user, of, project), owner));
    return actor;
  }

  // Loop thread.
  Result<Actor> CheckAsked(const Asked& asked, const ClusterState& state) {
    if (asked.by_api) {
      return Actor();
    }
    const auto people = loop_.people().Snapshot();
    if (const auto id = ParseJobName(asked.object);
        id && asked.operation == Operation::kControlJob) {
      if (const Job* job = state.FindJob(JobId(*id))) {
        return CheckCaller(*people, asked.caller, asked.operation, job->user, job->spec->project);
      }
    }
    return CheckCaller(*people, asked.caller, asked.operation, asked.owner);
  }

  static AuditEntry EntryOf(const tide::v1::Caller& caller, Instant now) {
    AuditEntry entry;
    entry.at = now;
    entry.user = caller.user();
    entry.token = caller.token();
    entry.address = caller.address();
    entry.request_id = caller.request_id();
    return entry;
  }

  static tide::v1::AuditEntry ToProto(const AuditEntry& entry) {
    tide::v1::AuditEntry message;
    message.set_seq(entry.seq);
    message.set_at(entry.at.unix_nanos());
    message.set_user(entry.user);
    message.set_token(entry.token);
    message.set_address(entry.address);
    message.set_operation(entry.operation);
    message.set_object(entry.object);
    message.set_owner(entry.owner);
    message.set_outcome(entry.outcome);
    message.set_detail(entry.detail);
    message.set_request_id(entry.request_id);
    return message;
  }

  static AuditQuery QueryOf(const tide::v1::ReadAuditRequest& request) {
    return {.from = request.from(),
            .most = std::clamp(request.most(), 1U, kAuditMost),
            .since = Instant::FromUnixNanos(request.since()),
            .until = Instant::FromUnixNanos(request.until()),
            .user = request.user(),
            .operation = request.operation()};
  }

  // Loop thread. Records what was asked and what came of it.
  // Returns the entry, but for the outcome; nothing for what is not recorded.
  static std::optional<AuditEntry> BeginEntry(const Asked& asked,
                                              const ClusterState& state,
                                              Instant now) {
    if (asked.object.empty() || (asked.by_api && asked.caller.user().empty())) {
      return std::nullopt;
    }
    AuditEntry entry = EntryOf(asked.caller, now);
    entry.operation = PermissionOf(asked.operation).name;
    entry.object = asked.object;
    entry.owner = asked.owner;
    const auto id = ParseJobName(asked.object);
    if (const Job* job = id ? state.FindJob(JobId(*id)) : nullptr) {
      entry.owner = job->user;
    }
    entry.detail = asked.detail;
    return entry;
  }

  // Names the job that was made of what asked for one.
  static void NameSubmitted(AuditEntry& entry, JobId job) {
    entry.detail = std::exchange(entry.object, FormatJobName(job.value()));
    entry.owner = entry.user;
  }

  void Audit(AuditEntry entry, const Status& outcome) {
    entry.outcome = outcome ? kAuditDone : ErrorCodeName(outcome.error().code);
    if (!outcome) {
      entry.detail = outcome.error().message;
    }
    loop_.Audit(std::move(entry));
  }

  // The request's messages live until Finish, so the closures may point into them.
  template <typename Make, typename Fill>
  grpc::ServerUnaryReactor* Handle(grpc::CallbackServerContext* context,
                                   Asked asked,
                                   Make make,
                                   Fill fill) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    if (const grpc::Status admitted = security_.Admit(*context, rpc::Role::kApi); !admitted.ok()) {
      reactor->Finish(admitted);
      return reactor;
    }
    Request request;
    struct Entry {
      std::optional<AuditEntry> entry;
      JobId submitted = {};
    };
    const auto record = std::make_shared<Entry>();
    request.make = [asked = std::move(asked), make = std::move(make), record, this](
                       BatchContext& batch, Reply& reply) -> Result<std::vector<EventBody>> {
      record->entry = BeginEntry(asked, batch.state(), batch.now());
      const auto actor = CheckAsked(asked, batch.state());
      if (!actor) {
        return std::unexpected(actor.error());
      }
      auto made = make(batch, reply, *actor);
      record->submitted = reply.job;
      return made;
    };
    request.decided = [record, this](const Status& outcome) {
      if (!record->entry) {
        return;
      }
      if (outcome && record->submitted != JobId()) {
        NameSubmitted(*record->entry, record->submitted);
      }
      Audit(*std::move(record->entry), outcome);
    };
    request.done = [context, reactor, fill = std::move(fill), this](const Reply& reply) {
      answers_.Add([context, reactor, fill, reply] {
        if (reply.status) {
          fill(reply);
          reactor->Finish(grpc::Status::OK);
        } else {
          reactor->Finish(rpc::ToGrpc(reply.status.error(), context));
        }
      });
    };
    if (!loop_.Enqueue(std::move(request))) {
      reactor->Finish(rpc::ToGrpc(
          {ErrorCode::kExhausted, "the scheduler's queue is full; try again in a second"},
          context));
    }
    return reactor;
  }

  Loop& loop_;
  ViewHub& view_;
  const rpc::Security security_;
  std::atomic<uint64_t> next_validation_ = 1;
  PlanWorker planner_;
  StoreReader reader_;
  AnswerQueue answers_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeSchedulerService(Loop& loop,
                                                    ViewHub& view,
                                                    const rpc::Security& security,
                                                    StoreReader::Open open_store) {
  return std::make_unique<SchedulerService>(loop, view, security, std::move(open_store));
}

}  // namespace tide
