#pragma once
// An agent's heartbeats as datagrams, beside the stream that brought their key (docs/adr/0007).

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/base/mutex.h"
#include "common/rpc/datagram.h"
#include "tide/v1/agent.pb.h"

namespace tide::agent {

class BeatChannel {
 public:
  // An answer, on the channel's thread.
  using OnAnswer = std::function<void(tide::v1::SchedulerMessage answer)>;

  //   peer: gRPC's name of the scheduler's end of the stream.
  // Errors: kInvalidArgument where the stream goes over no IP network, or the port is none;
  // kSystem.
  [[nodiscard]] static Result<std::unique_ptr<BeatChannel>> Open(const std::string& peer,
                                                                 const tide::v1::BeatPort& port,
                                                                 OnAnswer on_answer);
  ~BeatChannel();
  BeatChannel(const BeatChannel&) = delete;
  BeatChannel& operator=(const BeatChannel&) = delete;

  // Any thread; never blocks. False: the stream must carry it as well, since answers to datagrams
  // have not come yet, or come no more.
  [[nodiscard]] bool Send(const tide::v1::Heartbeat& heartbeat);

 private:
  BeatChannel(
      std::string where, Fd socket, Fd stop, rpc::DatagramSession session, OnAnswer on_answer);
  void Receive();
  void Take(std::string_view datagram);

  const std::string where_;  // for the log
  const Fd socket_;
  const Fd stop_;  // eventfd
  const rpc::DatagramSession session_;
  const OnAnswer on_answer_;
  rpc::DatagramSealer opener_;  // of the thread

  Mutex mutex_;
  rpc::DatagramSealer sealer_ TIDE_GUARDED_BY(mutex_);
  uint64_t sent_ TIDE_GUARDED_BY(mutex_) = 0;      // number of the newest
  uint64_t answered_ TIDE_GUARDED_BY(mutex_) = 0;  // of those; 0 = none yet
  bool silent_ TIDE_GUARDED_BY(mutex_) = false;    // said in the log
  std::thread thread_;                             // the last: it uses the others
};

}  // namespace tide::agent
