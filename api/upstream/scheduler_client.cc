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
// Short enough for a read after a write, long enough to merge the progress of many jobs.
constexpr uint32_t kMergeMillis = 25;

class GrpcScheduler final : public Scheduler {
 public:
  GrpcScheduler(const std::string& address, rpc::ClusterToken token)
      : address_(address),
        token_(std::move(token)),
        stub_(v1::Scheduler::NewStub(rpc::Connect(address))) {}

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

 private:
  template <typename Method, typename Request, typename Response>
  Status Call(Method method, const Request& request, Response& response) {
    grpc::ClientContext context;
    token_.Attach(context);
    context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    if (status.ok()) {
      return {};
    }
    Error error = rpc::FromGrpc(status, context);
    const bool from_scheduler = context.GetServerTrailingMetadata().contains("x-tide-error-code");
    if (error.code == ErrorCode::kUnavailable && !from_scheduler) {
      error.message = "the scheduler at " + address_ +
                      " does not answer; running jobs continue; try again in a moment (" +
                      error.message + ")";
    }
    return std::unexpected(std::move(error));
  }

  const std::string address_;
  const rpc::ClusterToken token_;
  const std::unique_ptr<v1::Scheduler::Stub> stub_;
};

}  // namespace

std::unique_ptr<Scheduler> MakeGrpcScheduler(const std::string& address,
                                             rpc::ClusterToken cluster_token) {
  return std::make_unique<GrpcScheduler>(address, std::move(cluster_token));
}

class Watcher::Impl {
 public:
  Impl(const std::string& address, rpc::ClusterToken token, ViewStore& store)
      : address_(address),
        token_(std::move(token)),
        store_(store),
        stub_(v1::Scheduler::NewStub(rpc::Connect(address))),
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
    log::Info("connecting to the scheduler", {{"address", address_}});
    auto backoff = kFirstBackoff;
    bool told = false;  // one line for each loss, not for each attempt
    while (true) {
      bool got_snapshot = false;
      const Error error = WatchOnce(got_snapshot);
      store_.MarkBroken();
      backoff = got_snapshot ? kFirstBackoff : std::min(backoff * 2, kLongestBackoff);
      std::unique_lock lock(mutex_);
      if (stopping_) {
        return;
      }
      if (got_snapshot || !told) {
        log::Warning("no stream from the scheduler, reconnecting",
                     {{"address", address_}, {"error", error.message}});
        told = true;
      }
      if (wake_.wait_for(lock, backoff, [this] { return stopping_; })) {
        return;
      }
    }
  }

  Error WatchOnce(bool& got_snapshot) {
    grpc::ClientContext context;
    token_.Attach(context);
    // The channel knows best when the address can be reached again.
    context.set_wait_for_ready(true);
    {
      const std::scoped_lock lock(mutex_);
      if (stopping_) {
        return {};
      }
      context_ = &context;
    }
    v1::WatchRequest request;
    request.set_min_interval_ms(kMergeMillis);
    const auto stream = stub_->Watch(&context, request);
    for (v1::ViewDelta delta; stream->Read(&delta);) {
      if (!got_snapshot && !delta.reset()) {
        continue;  // a delta without its snapshot says nothing
      }
      store_.Apply(delta);
      if (!got_snapshot) {
        got_snapshot = true;
        store_.MarkConnected();
        log::Info("following the scheduler", {{"address", address_}, {"rev", delta.rev()}});
      }
    }
    const grpc::Status status = stream->Finish();
    const std::scoped_lock lock(mutex_);
    context_ = nullptr;
    return rpc::FromGrpc(status, context);
  }

  const std::string address_;
  const rpc::ClusterToken token_;
  ViewStore& store_;
  const std::unique_ptr<v1::Scheduler::Stub> stub_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  grpc::ClientContext* context_ = nullptr;  // of the stream that is open now
  std::thread thread_;                      // last: it uses the members above
};

Watcher::Watcher(const std::string& address, rpc::ClusterToken cluster_token, ViewStore& store)
    : impl_(std::make_unique<Impl>(address, std::move(cluster_token), store)) {}
Watcher::~Watcher() = default;

}  // namespace tide::api
