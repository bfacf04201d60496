#include "scheduler/server/scheduler_service.h"

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "common/log/log.h"
#include "proto/wire/convert.h"
#include "proto/wire/plan.h"
#include "scheduler/core/requests.h"
#include "scheduler/server/plan_worker.h"
#include "tide/v1/scheduler.grpc.pb.h"

namespace tide {
namespace {

constexpr uint64_t kNoticeMsMax = 86'400'000;  // policy caps it further; this keeps it a number

// One reader of the view. Deltas merge by themselves while a write is under way or the minimum
// interval has not passed, and are made by gRPC's threads: the loop only tells that there is news.
// Owned by itself until gRPC is done with it; the view's listener only holds a weak reference,
// because it may still be called a moment later.
class WatchStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                          public std::enable_shared_from_this<WatchStream> {
 public:
  WatchStream(ViewHub& view, uint32_t min_interval_ms)
      : view_(view), min_interval_ms_(min_interval_ms) {}

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

// Watch sends bytes that are ready.
using Service =
    tide::v1::Scheduler::WithRawCallbackMethod_Watch<tide::v1::Scheduler::CallbackService>;

class SchedulerService final : public Service {
 public:
  SchedulerService(Loop& loop,
                   ViewHub& view,
                   rpc::ClusterToken token,
                   ArchiveReader::Open open_archive)
      : loop_(loop),
        view_(view),
        token_(std::move(token)),
        planner_(loop),
        archive_(std::move(open_archive)) {}

  grpc::ServerUnaryReactor* SubmitJob(grpc::CallbackServerContext* context,
                                      const tide::v1::SubmitJobRequest* request,
                                      tide::v1::SubmitJobResponse* response) override {
    return Handle(
        context,
        [request, this](BatchContext& batch, Reply& reply) -> Result<std::vector<EventBody>> {
          const JobSpec spec = wire::FromProto(request->spec());
          const std::string& key = request->idempotency_key();
          if (!IsKnownSubmission(batch, request->user(), key)) {
            TIDE_TRY(loop_.secrets().Check(request->user(), spec.secrets));
          }
          return MakeSubmit(batch, reply, spec, request->user(), key);
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
    if (!token_.Matches(*context)) {
      reactor->Finish(rpc::Unauthenticated());
      return reactor;
    }
    PlanWorker::Question question;
    question.spec = wire::FromProto(request->spec());
    question.user = request->user();
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
    order.actor = request->actor();
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
        [order, this](BatchContext& batch, Reply& /*reply*/) {
          return MakeJobOrder(batch, order, loop_.policy());
        },
        [response](const Reply& reply) { response->set_rev(reply.rev); });
  }

  grpc::ServerUnaryReactor* ControlNode(grpc::CallbackServerContext* context,
                                        const tide::v1::ControlNodeRequest* request,
                                        tide::v1::MutationResponse* response) override {
    NodeOrder order;
    order.node = request->node();
    order.actor = request->actor();
    order.reason = request->reason();
    order.request_id = "v" + std::to_string(loop_.term().value()) + "-" +
                       std::to_string(next_validation_.fetch_add(1));
    if (request->verb() == tide::v1::NODE_VERB_UNDRAIN) {
      order.verb = NodeVerb::kUndrain;
    } else if (request->verb() == tide::v1::NODE_VERB_VALIDATE) {
      order.verb = NodeVerb::kValidate;
    } else if (request->verb() != tide::v1::NODE_VERB_DRAIN) {
      return Refuse(context, {ErrorCode::kInvalidArgument, "unknown verb for a node"});
    }
    return Handle(
        context,
        [order](BatchContext& batch, Reply& /*reply*/) { return MakeNodeOrder(batch, order); },
        [response](const Reply& reply) { response->set_rev(reply.rev); });
  }

  grpc::ServerUnaryReactor* GetArchivedJob(grpc::CallbackServerContext* context,
                                           const tide::v1::GetArchivedJobRequest* request,
                                           tide::v1::GetArchivedJobResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    if (!token_.Matches(*context)) {
      reactor->Finish(rpc::Unauthenticated());
      return reactor;
    }
    const auto answer = [context, reactor, response](const Result<tide::v1::Job>& job) {
      if (job) {
        *response->mutable_job() = *job;
        reactor->Finish(grpc::Status::OK);
      } else {
        reactor->Finish(rpc::ToGrpc(job.error(), context));
      }
    };
    if (!archive_.Ask({JobId(request->job_id()), answer})) {
      reactor->Finish(rpc::ToGrpc(
          {ErrorCode::kExhausted, "too many archived jobs are asked for; try again in a second"},
          context));
    }
    return reactor;
  }

  grpc::ServerUnaryReactor* SetSecret(grpc::CallbackServerContext* context,
                                      const tide::v1::SetSecretRequest* request,
                                      tide::v1::SetSecretResponse* response) override {
    return Handle(
        context,
        [request, response, this](BatchContext& batch, Reply&) -> Result<std::vector<EventBody>> {
          TIDE_TRY(loop_.secrets().Set(
              {request->user(), request->name()}, request->value(), batch.now()));
          *response->mutable_secret() =
              ToProto({request->name(), request->value().size(), batch.now()});
          return std::vector<EventBody>{};
        },
        [request](const Reply&) {
          log::Info("Secret set", {{"User", request->user()}, {"Name", request->name()}});
        });
  }

  grpc::ServerUnaryReactor* ListSecrets(grpc::CallbackServerContext* context,
                                        const tide::v1::ListSecretsRequest* request,
                                        tide::v1::ListSecretsResponse* response) override {
    return Handle(
        context,
        [request, response, this](BatchContext&, Reply&) -> Result<std::vector<EventBody>> {
          for (const SecretVault::Entry& entry : loop_.secrets().List(request->user())) {
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
        [request, this](BatchContext&, Reply&) -> Result<std::vector<EventBody>> {
          TIDE_TRY(loop_.secrets().Remove({request->user(), request->name()}));
          return std::vector<EventBody>{};
        },
        [request](const Reply&) {
          log::Info("Secret removed", {{"User", request->user()}, {"Name", request->name()}});
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
    if (!token_.Matches(*context)) {
      return new Refused(rpc::Unauthenticated());
    }
    tide::v1::WatchRequest asked;
    grpc::ByteBuffer bytes(*request);
    if (!grpc::SerializationTraits<tide::v1::WatchRequest>::Deserialize(&bytes, &asked).ok()) {
      return new Refused({grpc::StatusCode::INVALID_ARGUMENT, "not a WatchRequest"});
    }
    const auto stream = std::make_shared<WatchStream>(view_, asked.min_interval_ms());
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
    reactor->Finish(token_.Matches(*context) ? rpc::ToGrpc(error, context)
                                             : rpc::Unauthenticated());
    return reactor;
  }

  // The request's messages live until Finish, so the closures may point into them.
  template <typename Make, typename Fill>
  grpc::ServerUnaryReactor* Handle(grpc::CallbackServerContext* context, Make make, Fill fill) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    if (!token_.Matches(*context)) {
      reactor->Finish(rpc::Unauthenticated());
      return reactor;
    }
    Request request;
    request.make = std::move(make);
    request.done = [context, reactor, fill](const Reply& reply) {
      if (reply.status) {
        fill(reply);
        reactor->Finish(grpc::Status::OK);
      } else {
        reactor->Finish(rpc::ToGrpc(reply.status.error(), context));
      }
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
  const rpc::ClusterToken token_;
  std::atomic<uint64_t> next_validation_ = 1;
  PlanWorker planner_;
  ArchiveReader archive_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeSchedulerService(Loop& loop,
                                                    ViewHub& view,
                                                    const rpc::ClusterToken& token,
                                                    ArchiveReader::Open open_archive) {
  return std::make_unique<SchedulerService>(loop, view, token, std::move(open_archive));
}

}  // namespace tide
