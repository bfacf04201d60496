// Unary calls to the scheduler, and its Watch stream.

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "api/upstream/grpc_upstream.h"
#include "common/log/log.h"
#include "common/rpc/rpc.h"
#include "tide/v1/scheduler.grpc.pb.h"

namespace tide::api {
namespace {

// A commit takes milliseconds; the scheduler may be behind a busy disk or changing its leader.
constexpr auto kCallTimeout = std::chrono::seconds(10);
constexpr auto kFirstBackoff = std::chrono::milliseconds(50);
constexpr auto kLongestBackoff = std::chrono::milliseconds(2000);
// Where there are several schedulers, each is tried as often: a standby takes over within seconds.
constexpr auto kTurnBackoff = std::chrono::milliseconds(200);
// Short enough for who waits for the end of a job, long enough to merge the progress of many jobs.
constexpr uint32_t kMergeMillis = 5;

class GrpcScheduler final : public Scheduler {
 public:
  GrpcScheduler(const Schedulers& schedulers, rpc::Security security)
      : schedulers_(schedulers), security_(std::move(security)) {}

  Result<v1::SubmitJobResponse> Submit(const v1::SubmitJobRequest& request) override {
    v1::SubmitJobResponse response;
    TIDE_TRY(Call(&v1::Scheduler::Stub::SubmitJob, request, response));
    return response;
  }
  Result<v1::PlanJobResponse> Plan(const v1::PlanJobRequest& request) override {
    v1::PlanJobResponse response;
    TIDE_TRY(Call(&v1::Scheduler::Stub::PlanJob, request, response));
    return response;
  }
  Result<v1::Job> Archived(const v1::GetArchivedJobRequest& request) override {
    v1::GetArchivedJobResponse response;
    TIDE_TRY(Call(&v1::Scheduler::Stub::GetArchivedJob, request, response));
    return response.job();
  }
  Result<v1::GetRanksResponse> Ranks(const v1::GetRanksRequest& request) override {
    v1::GetRanksResponse response;
    TIDE_TRY(Call(&v1::Scheduler::Stub::GetRanks, request, response));
    return response;
  }
  Result<uint64_t> Control(const v1::ControlJobRequest& request) override {
    v1::MutationResponse response;
    TIDE_TRY(Call(&v1::Scheduler::Stub::ControlJob, request, response));
    return response.rev();
  }
  Result<uint64_t> Control(const v1::ControlNodeRequest& request) override {
    v1::MutationResponse response;
    TIDE_TRY(Call(&v1::Scheduler::Stub::ControlNode, request, response));
    return response.rev();
  }

  Result<v1::SecretEntry> SetSecret(const v1::SetSecretRequest& request) override {
    v1::SetSecretResponse response;
    TIDE_TRY(Call(&v1::Scheduler::Stub::SetSecret, request, response));
    return response.secret();
  }
  Result<v1::ListSecretsResponse> ListSecrets(const v1::ListSecretsRequest& request) override {
    v1::ListSecretsResponse response;
    TIDE_TRY(Call(&v1::Scheduler::Stub::ListSecrets, request, response));
    return response;
  }
  Status RemoveSecret(const v1::RemoveSecretRequest& request) override {
    v1::RemoveSecretResponse response;
    return Call(&v1::Scheduler::Stub::RemoveSecret, request, response);
  }
  Result<v1::ChangePeopleResponse> ChangePeople(const v1::ChangePeopleRequest& request) override {
    v1::ChangePeopleResponse response;
    TIDE_TRY(Call(&v1::Scheduler::Stub::ChangePeople, request, response));
    return response;
  }
  Status RecordAudit(const v1::RecordAuditRequest& request) override {
    v1::RecordAuditResponse response;
    return Call(&v1::Scheduler::Stub::RecordAudit, request, response);
  }
  Result<v1::ReadAuditResponse> ReadAudit(const v1::ReadAuditRequest& request) override {
    v1::ReadAuditResponse response;
    TIDE_TRY(Call(&v1::Scheduler::Stub::ReadAudit, request, response));
    return response;
  }

 private:
  template <typename Method, typename Request, typename Response>
  Status Call(Method method, const Request& request, Response& response) {
    grpc::ClientContext context;
    security_.Attach(context);
    context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
    const Schedulers::Leader leader = schedulers_.leader();
    const auto stub = v1::Scheduler::NewStub(leader.channel);
    const grpc::Status status = (stub.get()->*method)(&context, request, &response);
    if (status.ok()) {
      return {};
    }
    Error error = rpc::FromGrpc(status, context);
    if (error.code == ErrorCode::kUnavailable && !rpc::IsFromPeer(context)) {
      error.message = "the scheduler at " + leader.address +
                      " does not answer; running jobs continue; try again in a moment (" +
                      error.message + ")";
    }
    return std::unexpected(std::move(error));
  }

  const Schedulers& schedulers_;
  const rpc::Security security_;
};

}  // namespace

// Until the Watcher knows better, the first is asked.
Schedulers::Schedulers(std::vector<std::string> addresses, rpc::Security security)
    : addresses_(std::move(addresses)),
      security_(std::move(security)),
      leader_{addresses_.front(), Connect(addresses_.front())} {}

std::shared_ptr<grpc::Channel> Schedulers::Connect(const std::string& address) const {
  return security_.Connect(address, {rpc::Role::kScheduler, ""});
}

Schedulers::Leader Schedulers::leader() const {
  const std::scoped_lock lock(mutex_);
  return leader_;
}

void Schedulers::SetLeader(Leader leader) {
  const std::scoped_lock lock(mutex_);
  leader_ = std::move(leader);
}

std::unique_ptr<Scheduler> MakeGrpcScheduler(const Schedulers& schedulers, rpc::Security security) {
  return std::make_unique<GrpcScheduler>(schedulers, std::move(security));
}

class Watcher::Impl {
 public:
  Impl(Schedulers& schedulers, rpc::Security security, ViewStore& store)
      : schedulers_(schedulers),
        security_(std::move(security)),
        store_(store),
        thread_([this] { Run(); }) {}

  ~Impl() {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
      if (context_ != nullptr) {
        context_->TryCancel();
      }
    }
    wake_.notify_all();
    thread_.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

 private:
  void Run() {
    log::Info("connecting to the scheduler", {{"address", Address()}});
    const auto longest = schedulers_.addresses().size() > 1 ? kTurnBackoff : kLongestBackoff;
    auto backoff = kFirstBackoff;
    bool told = false;  // one line for each loss, not for each attempt
    while (true) {
      bool got_snapshot = false;
      const Error error = WatchOnce(got_snapshot);
      if (error.code == ErrorCode::kUnauthenticated) {
        // An open connection shows the certificate that it was made with.
        schedulers_.SetLeader({Address(), schedulers_.Connect(Address())});
      }
      store_.MarkBroken();
      backoff = got_snapshot ? kFirstBackoff : std::min(backoff * 2, longest);
      std::unique_lock lock(mutex_);
      if (stopping_) {
        return;
      }
      if (got_snapshot || !told) {
        log::Warning("no stream from the scheduler, reconnecting",
                     {{"address", Address()}, {"error", error.message}});
        told = true;
      }
      turn_ = (turn_ + 1) % schedulers_.addresses().size();
      if (wake_.wait_for(lock, backoff, [this] { return stopping_; })) {
        return;
      }
    }
  }

  Error WatchOnce(bool& got_snapshot) {
    grpc::ClientContext context;
    security_.Attach(context);
    // The channel knows best when the address can be reached again; but of several the next may.
    context.set_wait_for_ready(schedulers_.addresses().size() == 1);
    {
      const std::scoped_lock lock(mutex_);
      if (stopping_) {
        return {};
      }
      context_ = &context;
    }
    v1::WatchRequest request;
    request.set_min_interval_ms(kMergeMillis);
    // A new connection each time where there are several: an old one would first wait out the
    // back-off of its failures.
    const auto channel = schedulers_.addresses().size() == 1 ? schedulers_.leader().channel
                                                             : schedulers_.Connect(Address());
    const auto stub = v1::Scheduler::NewStub(channel);
    const auto stream = stub->Watch(&context, request);
    v1::ViewDelta delta;
    for (v1::ViewDelta part; stream->Read(&part);) {
      if (part.reset()) {
        delta.Clear();
      }
      delta.MergeFrom(part);
      if (part.more()) {
        continue;
      }
      delta.clear_more();
      if (!got_snapshot && !delta.reset()) {
        delta.Clear();
        continue;  // a delta without its snapshot says nothing
      }
      if (!got_snapshot) {  // first: who sees its view may ask it at once
        schedulers_.SetLeader({Address(), channel});
      }
      store_.Apply(delta);
      if (!got_snapshot) {
        got_snapshot = true;
        store_.MarkConnected();
        log::Info("following the scheduler", {{"address", Address()}, {"rev", delta.rev()}});
      }
      delta.Clear();
    }
    const grpc::Status status = stream->Finish();
    const std::scoped_lock lock(mutex_);
    context_ = nullptr;
    return rpc::FromGrpc(status, context);
  }

  [[nodiscard]] const std::string& Address() const { return schedulers_.addresses()[turn_]; }

  Schedulers& schedulers_;
  const rpc::Security security_;
  ViewStore& store_;
  size_t turn_ = 0;  // of the scheduler that is tried; the thread's own
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  grpc::ClientContext* context_ = nullptr;  // of the stream that is open now
  std::thread thread_;                      // last: it uses the members above
};

Watcher::Watcher(Schedulers& schedulers, rpc::Security security, ViewStore& store)
    : impl_(std::make_unique<Impl>(schedulers, std::move(security), store)) {}
Watcher::~Watcher() = default;

}  // namespace tide::api
