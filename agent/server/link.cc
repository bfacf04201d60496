#include "agent/server/link.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "common/base/time.h"
#include "common/log/log.h"
#include "tide/v1/agent.grpc.pb.h"

namespace tide::agent {
namespace {

constexpr int64_t kRetryPauseNs = 200'000'000;
// A refusal is a person's to mend, or another leader's: no hurry, and each try is a line of a log.
constexpr int64_t kRefusedPauseNs = 1'000'000'000;

}  // namespace

struct Link::Stream {
  uint64_t id = 0;
  bool refused = false;
  grpc::ClientContext context;
  std::unique_ptr<
      grpc::ClientReaderWriterInterface<tide::v1::AgentMessage, tide::v1::SchedulerMessage>>
      wire;
};

Link::Link(std::vector<std::string> addresses, rpc::ClusterToken token, Callbacks callbacks)
    : addresses_(std::move(addresses)),
      token_(std::move(token)),
      callbacks_(std::move(callbacks)) {}

Link::~Link() {
  Stop();
}

void Link::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Link::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    if (context_ != nullptr) {
      context_->TryCancel();
    }
  }
  changed_.NotifyAll();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Link::Send(uint64_t stream, tide::v1::AgentMessage message) {
  if (message.has_heartbeat()) {
    std::shared_ptr<BeatChannel> beats;
    {
      const MutexLock lock(mutex_);
      beats = stream == stream_ ? beats_ : nullptr;
    }
    if (beats && beats->Send(message.heartbeat())) {
      return;
    }
  }
  {
    const MutexLock lock(mutex_);
    if (stream != stream_) {
      return;
    }
    outgoing_.push_back(std::move(message));
  }
  changed_.NotifyAll();
}

void Link::Drop(uint64_t stream) {
  const MutexLock lock(mutex_);
  if (stream == stream_ && context_ != nullptr) {
    context_->TryCancel();
  }
}

void Link::Run() {
  auto stub = tide::v1::AgentLink::NewStub(rpc::Connect(addresses_.front()));
  uint64_t next_id = 1;
  size_t turn = 0;  // of the address that is tried
  bool said_unreachable = false;
  while (true) {
    Stream stream;
    stream.id = next_id++;
    token_.Attach(stream.context);
    stream.context.set_wait_for_ready(false);
    {
      const MutexLock lock(mutex_);
      if (stopping_) {
        return;
      }
      context_ = &stream.context;
      outgoing_.clear();
      stream_ = stream.id;
    }
    stream.wire = stub->Connect(&stream.context);
    Hold(stream);
    {
      const MutexLock lock(mutex_);
      context_ = nullptr;
      stream_ = 0;
    }
    const grpc::Status status = stream.wire->Finish();
    if (!status.ok() && !said_unreachable) {
      log::Warning("Scheduler not reachable, trying again",
                   {{"Address", addresses_[turn]}, {"Error", status.error_message()}});
    }
    said_unreachable = !status.ok();
    if (addresses_.size() > 1) {
      // A new connection each time: an old one would first wait out the back-off of its failures.
      turn = (turn + 1) % addresses_.size();
      stub = tide::v1::AgentLink::NewStub(rpc::Connect(addresses_[turn]));
    }
    callbacks_.on_lost(stream.id);
    PauseBeforeRetry(stream.refused ? kRefusedPauseNs : kRetryPauseNs);
  }
}

// Reads until the stream ends; writes on a thread of its own meanwhile.
void Link::Hold(Stream& stream) {
  callbacks_.on_stream(stream.id);
  std::thread writer([this, &stream] { Write(stream); });
  tide::v1::SchedulerMessage message;
  while (stream.wire->Read(&message)) {
    stream.refused = message.has_refused();
    if (message.has_welcome() && message.welcome().has_beat_port()) {
      OpenBeatChannel(stream, message.welcome().beat_port());
    }
    callbacks_.on_message(stream.id, std::move(message));
    message.Clear();
  }
  std::shared_ptr<BeatChannel> beats;
  {
    const MutexLock lock(mutex_);
    stream_ = 0;  // ends the writer
    beats.swap(beats_);
  }
  changed_.NotifyAll();
  stream.context.TryCancel();
  writer.join();
}

void Link::OpenBeatChannel(const Stream& stream, const tide::v1::BeatPort& port) {
  auto channel = BeatChannel::Open(
      stream.context.peer(), port, [this, id = stream.id](tide::v1::SchedulerMessage answer) {
        callbacks_.on_message(id, std::move(answer));
      });
  if (!channel) {
    log::Info("Heartbeats go on the stream", {{"Reason", channel.error().message}});
    return;
  }
  std::shared_ptr<BeatChannel> opened = *std::move(channel);
  const MutexLock lock(mutex_);
  beats_.swap(opened);
}

void Link::Write(Stream& stream) {
  while (true) {
    tide::v1::AgentMessage message;
    {
      const MutexLock lock(mutex_);
      while (outgoing_.empty() && stream_ == stream.id) {
        changed_.WaitFor(mutex_, -1);
      }
      if (stream_ != stream.id) {
        return;
      }
      message = std::move(outgoing_.front());
      outgoing_.pop_front();
    }
    if (!stream.wire->Write(message)) {
      return;  // the reader sees the end, too
    }
  }
}

void Link::PauseBeforeRetry(int64_t pause_ns) {
  const int64_t until = MonotonicNanos() + pause_ns;
  const MutexLock lock(mutex_);
  for (int64_t left = pause_ns; !stopping_ && left > 0; left = until - MonotonicNanos()) {
    changed_.WaitFor(mutex_, left);
  }
}

}  // namespace tide::agent
