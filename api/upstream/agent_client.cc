// Reading the logs of ranks from the agents that hold them.

#include <grpcpp/grpcpp.h>

#include <algorithm>
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

LogPiece ToPiece(v1::LogChunk& chunk) {
  LogPiece piece;
  piece.event = LogEvent::kData;
  piece.offset = chunk.offset();
  piece.data = std::move(*chunk.mutable_data());
  // An agent of before says neither.
  piece.next = std::max(chunk.next(), chunk.offset() + (chunk.next() == 0 ? piece.data.size() : 0));
  for (const v1::LogMark& mark : chunk.marks()) {
    piece.marks.push_back({std::min<size_t>(mark.begin(), piece.data.size()), mark.at()});
  }
  piece.removed = chunk.removed();
  piece.caught_up = chunk.caught_up();
  piece.cut = chunk.cut();
  return piece;
}

// The stream is read by a thread of its own: gRPC's blocking read has no time limit, and the
// caller must look after its client meanwhile.
class GrpcLogReader final : public LogReader {
 public:
  GrpcLogReader(std::shared_ptr<grpc::Channel> channel,
                const rpc::Security& security,
                v1::ReadLogRequest request,
                const LogRange& range)
      : channel_(std::move(channel)),
        request_(std::move(request)),
        read_ahead_(std::max<size_t>(range.read_ahead, 1)),
        arrivals_(range.arrivals) {
    security.Attach(context_);
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
      wanted = Push(ToPiece(chunk));
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
    changed_.wait(lock, [this] { return stopping_ || queue_.size() < read_ahead_; });
    if (stopping_) {
      return false;
    }
    queue_.push_back(std::move(piece));
    changed_.notify_all();
    lock.unlock();
    if (arrivals_ != nullptr) {
      arrivals_->Notify();
    }
    return true;
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const v1::ReadLogRequest request_;
  const size_t read_ahead_;
  const std::shared_ptr<LogArrivals> arrivals_;
  grpc::ClientContext context_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<LogPiece> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

class GrpcAgents final : public Agents {
 public:
  explicit GrpcAgents(rpc::Security security) : security_(std::move(security)) {}

  std::unique_ptr<LogReader> ReadLog(const LogPlace& place, const LogRange& range) override {
    v1::ReadLogRequest request;
    request.set_job_id(place.job_id);
    request.set_epoch(place.epoch);
    request.set_task(place.task);
    request.set_rank(place.rank);
    request.set_offset(range.offset);
    request.set_tail_lines(range.tail_lines);
    request.set_follow(range.follow);
    request.set_since(range.since);
    request.set_until(range.until);
    request.set_marks(range.marks);
    request.set_grep(range.grep.text);
    request.set_literal(range.grep.literal);
    request.set_ignore_case(range.grep.ignore_case);
    return std::make_unique<GrpcLogReader>(
        ChannelTo(place.agent), security_, std::move(request), range);
  }

 private:
  // Connections are kept: people read the logs of the same few jobs again and again.
  std::shared_ptr<grpc::Channel> ChannelTo(const AgentPlace& agent) {
    const std::scoped_lock lock(mutex_);
    if (channels_.size() >= kMaxChannels && !channels_.contains(agent)) {
      channels_.clear();
    }
    auto& channel = channels_[agent];
    if (channel == nullptr) {
      channel = security_.Connect(agent.endpoint, {rpc::Role::kAgent, agent.node});
    }
    return channel;
  }

  static constexpr size_t kMaxChannels = 256;
  const rpc::Security security_;
  std::mutex mutex_;
  std::map<AgentPlace, std::shared_ptr<grpc::Channel>> channels_;
};

}  // namespace

std::unique_ptr<Agents> MakeGrpcAgents(rpc::Security security) {
  return std::make_unique<GrpcAgents>(std::move(security));
}

}  // namespace tide::api
