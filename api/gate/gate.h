#pragma once
// Stands in front of the server's workers. One thread accepts connections, shakes hands, gathers
// each request and sends what is left of each answer, never waiting for one client; only a whole
// request that was let in gets a worker. What is slow, idle or too much is closed, the longest
// waiting first. Invariants:
// 1. A connection is touched by the gate's thread alone, or by one worker while it is busy.
// 2. A connection that is not busy is in deadlines_ and waiting_.
// 3. held_ is the sum of Connection::counted over those that wait, busy_held_ over the busy ones:
//    what workers have is no reason to close somebody who waits.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "api/gate/connection.h"
#include "api/gate/counters.h"
#include "api/gate/server_tls.h"
#include "api/gate/service.h"
#include "api/gate/workers.h"
#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::api {

struct GateLimits {
  size_t connections = 4096;
  size_t of_one_address = 1024;
  size_t held_bytes = 16U << 20U;  // of requests and answers that are not whole yet, in all
  size_t busy_bytes = 32U << 20U;  // of whole requests that workers have, or are to have, in all
  size_t body = (1U << 20U) + (64U << 10U);  // above a spec's 1 MiB, so that a route can say so
  std::chrono::milliseconds handshake = std::chrono::seconds(10);
  std::chrono::milliseconds head = std::chrono::seconds(10);  // from its first byte
  std::chrono::milliseconds idle = std::chrono::seconds(60);
  std::chrono::milliseconds whole_body = std::chrono::seconds(30);
  std::chrono::milliseconds stuck = std::chrono::seconds(30);  // a client that takes no answer
  std::chrono::milliseconds linger = std::chrono::seconds(2);
};

class Gate {
 public:
  // All must outlive it.
  //   tls: null = connections in clear.
  Gate(const GateLimits& limits,
       size_t workers,
       Service& service,
       GateCounters& counters,
       const ServerTls* tls = nullptr);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Opens the port, 0 = any, and returns its number. Errors: kUnavailable.
  [[nodiscard]] Result<int> Listen(const std::string& host, int port);
  // Serves until Stop(), and answers what workers have then.
  void Run();
  // Any thread, also before Run().
  void Stop();

 private:
  using Time = Connection::Time;
  using Wait = Socket::Wait;

  [[nodiscard]] bool Finished() const;
  [[nodiscard]] int WaitMillis() const;
  void OnEvent(uint64_t id);
  void AcceptAll();
  void Open(Fd fd, const std::string& address, const std::string& share);
  void TakeBack();

  // Goes on with it as far as it goes without waiting.
  void Drive(Connection& connection);
  [[nodiscard]] Wait Step(Connection& connection);
  [[nodiscard]] Wait ShakeHands(Connection& connection);
  [[nodiscard]] Wait ReadHead(Connection& connection);
  [[nodiscard]] Wait ReadBody(Connection& connection);
  [[nodiscard]] Wait Flush(Connection& connection);
  [[nodiscard]] Wait Linger(Connection& connection);
  void Begin(Connection& connection, size_t head_end);
  void GoOnWithBody(Connection& connection);
  void Refuse(Connection& connection, const Refusal& refusal);
  void HandToWorker(Connection& connection);

  void Enter(Connection& connection, Phase phase);
  void SetDeadline(Connection& connection, Time deadline);
  [[nodiscard]] std::chrono::milliseconds TimeFor(const Connection& connection) const;
  void Arm(const Connection& connection, Wait wait);
  void Count(Connection& connection);
  void Forget(const Connection& connection);  // no longer waiting
  void Close(Connection& connection);

  void CloseOverdue();
  void KeepWithinBytes();
  bool CloseLongestWaiting(const std::function<bool(const Connection&)>& matches);
  [[nodiscard]] bool MakeRoom(const std::string& address, const std::string& share);

  const GateLimits limits_;
  Service& service_;
  GateCounters& counters_;
  const ServerTls* const tls_;
  Fd listener_;
  Fd epoll_;
  Fd wake_;
  std::atomic<bool> stopping_ = false;
  Time now_ = {};         // of this turn
  Time stop_after_ = {};  // once stopping
  Time accept_at_ = {};   // set where no file was left for a new connection
  uint64_t last_id_;
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;
  std::map<std::string, size_t> shares_;  // open connections by share
  std::set<std::pair<Time, uint64_t>> deadlines_;
  std::set<std::pair<Time, uint64_t>> waiting_;  // by since when
  size_t held_ = 0;
  size_t busy_held_ = 0;
  size_t busy_ = 0;
  std::vector<char> scratch_;
  std::mutex mutex_;
  std::vector<uint64_t> returned_;  // by workers; under mutex_
  Workers workers_;                 // last: they use the members above
};

}  // namespace tide::api
