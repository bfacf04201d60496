#include "agent/server/link.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <map>
#include <string>
#include <utility>

#include "common/base/time.h"
#include "common/log/log.h"
#include "common/rpc/retry_rounds.h"
#include "tide/v1/agent.grpc.pb.h"

namespace tide::agent {
namespace {

// A refusal is a person's to mend, or another leader's: no hurry, and each try is a line of a log.
constexpr int64_t kRefusedPauseNs = 1'000'000'000;
constexpr int64_t kWriterPatienceNs = 1'000'000'000;

}  // namespace

struct Link::Stream {
  uint64_t id = 0;
  bool refused = false;
  bool welcomed = false;
  bool written = false;  // its writer has ended; under the mutex
  grpc::ClientContext context;
  std::unique_ptr<
      grpc::ClientReaderWriterInterface<tide::v1::AgentMessage, tide::v1::SchedulerMessage>>
      wire;
};

Link::Link(std::vector<std::string> addresses, rpc::Security security, Callbacks callbacks)
    : addresses_(std::move(addresses)),
      security_(std::move(security)),
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
  auto stub = tide::v1::AgentLink::NewStub(
      security_.Connect(addresses_.front(), {rpc::Role::kScheduler, ""}));
  uint64_t next_id = 1;
  const auto seed =
      static_cast<uint64_t>(SystemNow().unix_nanos()) ^ static_cast<uint64_t>(::getpid());
  rpc::RetryRounds rounds(addresses_.size(), MonotonicNanos(), seed);
  size_t turn = 0;                          // of the address that is tried
  std::map<std::string, std::string> said;  // why an address could not be reached, last
  while (true) {
    Stream stream;
    stream.id = next_id++;
    security_.Attach(stream.context);
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
    if (stream.welcomed) {
      said.clear();
    }
    // One line for each reason, not for each attempt: a certificate that was revoked is no network
    // that is down.
    if (std::string& before = said[addresses_[turn]];
        !status.ok() && before != status.error_message()) {
      before = status.error_message();
      log::Warning("Scheduler not reachable, trying again",
                   {{"Address", addresses_[turn]}, {"Error", before}});
    }
    if (addresses_.size() > 1 || status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
      // A new connection: an old one would first wait out the back-off of its failures, and shows
      // the certificate that it was made with.
      turn = (turn + 1) % addresses_.size();
      stub = tide::v1::AgentLink::NewStub(
          security_.Connect(addresses_[turn], {rpc::Role::kScheduler, ""}));
    }
    callbacks_.on_lost(stream.id);
    const int64_t pause_ns = rounds.PauseNs(MonotonicNanos());
    PauseBeforeRetry(stream.refused ? kRefusedPauseNs : pause_ns);
  }
}

// Reads until the stream ends; writes on a thread of its own meanwhile.
void Link::Hold(Stream& stream) {
  callbacks_.on_stream(stream.id);
  std::thread writer([this, &stream] {
    Write(stream);
    const MutexLock lock(mutex_);
    stream.written = true;
    changed_.NotifyAll();
  });
  tide::v1::SchedulerMessage message;
  while (stream.wire->Read(&message)) {
    stream.refused = message.has_refused();
    stream.welcomed = stream.welcomed || message.has_welcome();
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
  AwaitWriter(stream);
  writer.join();
}

// A write ends with its stream. To call the stream off would hide why the scheduler has ended it.
void Link::AwaitWriter(Stream& stream) {
  const int64_t until = MonotonicNanos() + kWriterPatienceNs;
  const MutexLock lock(mutex_);
  for (int64_t left = kWriterPatienceNs; !stream.written && left > 0;
       left = until - MonotonicNanos()) {
    changed_.WaitFor(mutex_, left);
  }
  if (!stream.written) {
    stream.context.TryCancel();
  }
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
