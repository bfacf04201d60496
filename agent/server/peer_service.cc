#include "agent/server/peer_service.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <utility>

#include "agent/runtime/task_folder.h"
#include "agent/server/deadline.h"
#include "agent/server/log_stream.h"
#include "agent/server/start_plan.h"
#include "tide/v1/agent.grpc.pb.h"

namespace tide::agent {
namespace {

// Each holds a thread; a person reads a few, a merged log 64.
constexpr int kMaxLogCalls = 512;

class PeerService final : public tide::v1::AgentPeer::Service {
 public:
  explicit PeerService(PeerServiceOptions options) : options_(std::move(options)) {}

  grpc::Status Agree(grpc::ServerContext* context,
                     const tide::v1::AgreeRequest* request,
                     tide::v1::AgreeResponse* response) override {
    if (grpc::Status admitted = options_.security.Admit(*context, rpc::Role::kAgent);
        !admitted.ok()) {
      return admitted;
    }
    if (request->verb() < tide::v1::AGREE_VERB_PROBE ||
        request->verb() > tide::v1::AGREE_VERB_SIGNAL) {
      return rpc::ToGrpc({ErrorCode::kInvalidArgument, "unknown verb"}, context);
    }
    if (request->order() > tide::v1::AGREE_ORDER_SAVE) {
      return rpc::ToGrpc({ErrorCode::kInvalidArgument, "unknown order"}, context);
    }
    const std::string key = TaskKey(IdOf(*request));
    const auto pages = options_.book.Find(key);
    if (!pages) {
      return rpc::ToGrpc({ErrorCode::kNotFound, "task " + key + " is not here"}, context);
    }
    const auto verb = static_cast<AgreeVerb>(request->verb());
    const int64_t deadline = LocalDeadline(request->deadline(), request->remaining_ms());
    const auto order = static_cast<AgreeOrder>(request->order());
    const AgreeReply reply =
        pages->Hold({verb, request->at_step(), {}, request->round(), order}, deadline);
    if (verb == AgreeVerb::kSignal && reply.answered &&
        !options_.signal_task(IdOf(*request), request->deadline())) {
      return rpc::ToGrpc({ErrorCode::kUnavailable, "task " + key + " has no signal yet"}, context);
    }
    response->set_min_step(reply.min_step);
    response->set_max_step(reply.max_step);
    response->set_any_attached(reply.any_attached);
    response->set_all_attached(reply.all_attached);
    response->set_committed_step(reply.committed_step);
    response->set_all_below(reply.all_below);
    response->set_ranks_gone(reply.ranks_gone);
    response->set_step_ns(reply.step_ns);
    response->set_order(request->order());
    response->set_busy(reply.busy);
    response->set_newest_round(reply.newest_round);
    return grpc::Status::OK;
  }

  grpc::Status Witness(grpc::ServerContext* context,
                       const tide::v1::WitnessRequest* request,
                       tide::v1::WitnessResponse* response) override {
    if (grpc::Status admitted = options_.security.Admit(*context, rpc::Role::kAgent);
        !admitted.ok()) {
      return admitted;
    }
    response->set_alive(options_.is_alive(IdOf(*request), request->submitted_at()));
    return grpc::Status::OK;
  }

  grpc::Status ReadLog(grpc::ServerContext* context,
                       const tide::v1::ReadLogRequest* request,
                       grpc::ServerWriter<tide::v1::LogChunk>* writer) override {
    if (grpc::Status admitted = options_.security.Admit(*context, rpc::Role::kApi);
        !admitted.ok()) {
      return admitted;
    }
    struct Count {
      explicit Count(std::atomic<int>& calls) : calls_(calls) { ++calls_; }
      Count(const Count&) = delete;
      Count& operator=(const Count&) = delete;
      ~Count() { --calls_; }
      std::atomic<int>& calls_;
    };
    const Count count(log_calls_);
    if (log_calls_ > kMaxLogCalls) {
      return rpc::ToGrpc({ErrorCode::kExhausted, "too many logs of this node are being read"},
                         context);
    }
    const std::string key = TaskKey(IdOf(*request));
    const Status read =
        LogStream({.folder = options_.state_dir + "/tasks/" + key + "/" + kLogsFolder,
                   .name = "rank " + std::to_string(request->rank()) + " of task " + key,
                   .is_over = [&] { return options_.is_over(key); },
                   .cancelled =
                       [&] {
                         return context->IsCancelled() ||
                                !options_.security.Admit(*context, rpc::Role::kApi).ok();
                       },
                   .send = [&](const tide::v1::LogChunk& chunk) { return writer->Write(chunk); }},
                  *request)
            .Run();
    if (!read) {
      return rpc::ToGrpc(read.error(), context);
    }
    return context->IsCancelled() ? grpc::Status::CANCELLED : grpc::Status::OK;
  }

 private:
  const PeerServiceOptions options_;
  std::atomic<int> log_calls_ = 0;
};

}  // namespace

std::unique_ptr<grpc::Service> MakePeerService(PeerServiceOptions options) {
  return std::make_unique<PeerService>(std::move(options));
}

}  // namespace tide::agent
