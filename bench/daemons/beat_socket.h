#pragma once
// The heartbeats of thousands of agents as datagrams (docs/adr/0007), over one socket: sockets of
// their own, as real agents have, would be more than a process may open. The scheduler's side is
// the same: it has one socket for all.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

#include "common/base/mutex.h"
#include "common/rpc/datagram.h"
#include "tide/v1/agent.pb.h"

namespace tide::bench {

class BeatSocket {
 public:
  // The heartbeat of this number was answered; on the socket's thread, which must not Leave.
  using OnAnswer = std::function<void(uint64_t number)>;

  // Aborts where there is no way to the scheduler.
  BeatSocket(const std::string& peer, uint32_t port);
  ~BeatSocket();
  BeatSocket(const BeatSocket&) = delete;
  BeatSocket& operator=(const BeatSocket&) = delete;

  // Any thread. After Leave the answers of the session go to nobody any more.
  void Join(const tide::v1::BeatPort& offer, OnAnswer on_answer);
  void Leave(uint64_t session);
  void Send(uint64_t session, const tide::v1::Heartbeat& heartbeat);

 private:
  struct Session {
    rpc::DatagramSession seal;
    OnAnswer on_answer;
  };
  void Receive();
  void Take(std::string_view datagram);

  const Fd socket_;
  const Fd stop_;  // eventfd
  Mutex mutex_;
  rpc::DatagramSealer sealer_ TIDE_GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, Session> sessions_ TIDE_GUARDED_BY(mutex_);
  std::thread thread_;  // the last: it uses the others
};

}  // namespace tide::bench
