#pragma once
// Heartbeats as datagrams (docs/adr/0007): what a beat and its answer cost on a gRPC stream is
// several times what it costs to look at them. The stream stays the way for all else, and for
// beats, too, where datagrams do not get through.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/rpc/datagram.h"
#include "tide/v1/agent.pb.h"

namespace tide {

class BeatPort {
 public:
  // On the port's thread, for each heartbeat that is authentic and newer than those before it.
  // Returns the answer; without a body nothing is sent.
  using OnBeat =
      std::function<tide::v1::SchedulerMessage(NodeId, const tide::v1::Heartbeat& heartbeat)>;

  //   listen: of the gRPC server, "host:port". Errors: those of rpc::BindDatagrams.
  [[nodiscard]] static Result<std::unique_ptr<BeatPort>> Open(const std::string& listen);
  ~BeatPort();
  BeatPort(const BeatPort&) = delete;
  BeatPort& operator=(const BeatPort&) = delete;

  void Start(OnBeat on_beat);

  // Any thread.
  // A session for one stream of a node; until Dismiss its beats count. For its Welcome.
  // Errors: kSystem.
  [[nodiscard]] Result<tide::v1::BeatPort> Admit(NodeId node);
  void Dismiss(uint64_t session);

 private:
  struct Session {
    rpc::DatagramSession seal;
    NodeId node;
    uint64_t newest = 0;  // number of a beat; what is not newer has come before, or too late
  };
  class Batch;

  BeatPort(rpc::DatagramPort port, Fd stop);
  void Run();
  // The answer to send, sealed; empty = none.
  [[nodiscard]] std::string Take(std::string_view datagram);

  const rpc::DatagramPort port_;
  const Fd stop_;  // eventfd
  OnBeat on_beat_;
  rpc::DatagramSealer sealer_;  // of the thread
  std::thread thread_;
  Mutex mutex_;
  std::unordered_map<uint64_t, Session> sessions_ TIDE_GUARDED_BY(mutex_);
};

}  // namespace tide
