// Reading the logs of ranks from the agents that hold them.

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "api/upstream/grpc_upstream.h"
#include "common/rpc/rpc.h"
#include "tide/v1/agent.grpc.pb.h"

namespace tide::api {
namespace {

constexpr size_t kMaxQueued = 16;  // chunks read ahead of a slow client

// The stream is read by a thread of its own: gRPC's blocking read has no time limit, and the
// caller must look after its client meanwhile.
class GrpcLogReader final : public LogReader {
 public:
  GrpcLogReader(std::shared_ptr<grpc::Channel> channel,
                const rpc::ClusterToken& token,
                v1::ReadLogRequest request)
      : channel_(std::move(channel)), request_(std::move(request)) {
    token.Attach(context_);
    thread_ = std::thread([this] { Run(); });
  }
  ~GrpcLogReader() override {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    context_.TryCancel();
    changed_.notify_all();
    thread_.join();
  }
  GrpcLogReader(const GrpcLogReader&) = delete;
  GrpcLogReader& operator=(const GrpcLogReader&) = delete;

  LogPiece Next(std::chrono::milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout, [this] { return !queue_.empty(); })) {
      return {};
    }
    LogPiece piece = std::move(queue_.front());
    queue_.pop_front();
    changed_.notify_all();
    return piece;
  }

 private:
  void Run() {
    const auto stub = v1::AgentPeer::NewStub(channel_);
    const auto stream = stub->ReadLog(&context_, request_);
    bool wanted = true;
    for (v1::LogChunk chunk; wanted && stream->Read(&chunk);) {
      wanted = Push({LogEvent::kData, chunk.offset(), std::move(*chunk.mutable_data()), {}});
    }
    if (!wanted) {
      context_.TryCancel();
    }
    const grpc::Status status = stream->Finish();
    LogPiece last;
    last.event = status.ok() ? LogEvent::kEnd : LogEvent::kError;
    if (!status.ok()) {
      last.error = rpc::FromGrpc(status, context_);
    }
    Push(std::move(last));
  }

  bool Push(LogPiece piece) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || queue_.size() < kMaxQueued; });
    if (stopping_) {
      return false;
    }
    queue_.push_back(std::move(piece));
    changed_.notify_all();
    return true;
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const v1::ReadLogRequest request_;
  grpc::ClientContext context_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<LogPiece> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

class GrpcAgents final : public Agents {
 public:
  explicit GrpcAgents(rpc::ClusterToken token) : token_(std::move(token)) {}

  std::unique_ptr<LogReader> ReadLog(const LogPlace& place, const LogRange& range) override {
    v1::ReadLogRequest request;
    request.set_job_id(place.job_id);
    request.set_epoch(place.epoch);
    request.set_task(place.task);
    request.set_rank(place.rank);
    request.set_offset(range.offset);
    request.set_tail_lines(range.tail_lines);
    request.set_follow(range.follow);
    return std::make_unique<GrpcLogReader>(ChannelTo(place.endpoint), token_, std::move(request));
  }

 private:
  // Connections are kept: people read the logs of the same few jobs again and again.
  std::shared_ptr<grpc::Channel> ChannelTo(const std::string& endpoint) {
    const std::scoped_lock lock(mutex_);
    if (channels_.size() >= kMaxChannels && !channels_.contains(endpoint)) {
      channels_.clear();
    }
    auto& channel = channels_[endpoint];
    if (channel == nullptr) {
      channel = rpc::Connect(endpoint);
    }
    return channel;
  }

  static constexpr size_t kMaxChannels = 256;
  const rpc::ClusterToken token_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;
};

}  // namespace

std::unique_ptr<Agents> MakeGrpcAgents(rpc::ClusterToken cluster_token) {
  return std::make_unique<GrpcAgents>(std::move(cluster_token));
}

}  // namespace tide::api
