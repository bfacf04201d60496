#pragma once
// The agent's one stream to the scheduler (jobs.md section 4): dials out, reconnects for ever. Of
// several schedulers one leads; the others do not listen, or refuse: they are tried in turn.
// Heartbeats leave it for datagrams where those get through (beat_channel.h).
//
// Threads: callbacks run on the link's own threads; Send may be called from any.

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agent/server/beat_channel.h"
#include "common/base/mutex.h"
#include "common/rpc/security.h"
#include "tide/v1/agent.pb.h"

namespace grpc {
class ClientContext;
}  // namespace grpc

namespace tide::agent {

class Link {
 public:
  struct Callbacks {
    // A stream is up: the next message sent must be Hello. `stream` tells streams apart.
    std::function<void(uint64_t stream)> on_stream;
    std::function<void(uint64_t stream, tide::v1::SchedulerMessage message)> on_message;
    std::function<void(uint64_t stream)> on_lost;
  };

  // addresses: of the schedulers, at least one.
  Link(std::vector<std::string> addresses, rpc::Security security, Callbacks callbacks);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void Start();
  void Stop();
  // Drops the message when `stream` is over: what it said is said again after the next Hello.
  void Send(uint64_t stream, tide::v1::AgentMessage message);
  // Ends `stream`, if it is the present one; another follows.
  void Drop(uint64_t stream);

 private:
  struct Stream;
  void Run();
  void Hold(Stream& stream);
  void OpenBeatChannel(const Stream& stream, const tide::v1::BeatPort& port);
  void Write(Stream& stream);
  void AwaitWriter(Stream& stream);
  void PauseBeforeRetry(int64_t pause_ns);

  const std::vector<std::string> addresses_;
  const rpc::Security security_;
  const Callbacks callbacks_;
  std::thread thread_;

  Mutex mutex_;
  Condition changed_;
  bool stopping_ TIDE_GUARDED_BY(mutex_) = false;
  uint64_t stream_ TIDE_GUARDED_BY(mutex_) = 0;  // 0 = none
  std::deque<tide::v1::AgentMessage> outgoing_ TIDE_GUARDED_BY(mutex_);
  grpc::ClientContext* context_ TIDE_GUARDED_BY(mutex_) = nullptr;
  // Of the present stream; heartbeats go there once it is known to work.
  std::shared_ptr<BeatChannel> beats_ TIDE_GUARDED_BY(mutex_);
};

}  // namespace tide::agent
