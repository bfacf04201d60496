#pragma once
// Agents of a gang in one process, each with its own gRPC server on a unix socket. For tests.

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "agent/server/peer_service.h"
#include "agent/server/testing/agent_testing.h"

namespace tide::agent {

class Peer {
 public:
  Peer(const TestDir& dir, const std::string& name, const rpc::ClusterToken& token);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void Serve();
  void Stop();
  // Pages of task `index` of TestStart()'s job.
  std::shared_ptr<TaskPages> AddPages(uint32_t index, uint32_t ranks);
  [[nodiscard]] std::string RunDir() const { return state_dir + "/run"; }

  const std::string address;
  const std::string state_dir;
  TaskBook book;
  std::atomic<bool> over = false;
  std::atomic<bool> delivers = true;
  std::atomic<bool> alive = true;           // its task 7.2.1, submitted at 5
  std::atomic<int> asked = 0;               // for its word as a witness
  std::function<void()> on_signal = [] {};  // set before anyone asks
  std::atomic<int> signals = 0;
  std::string signalled;

 private:
  struct Server;
  std::unique_ptr<Server> server_;
};

}  // namespace tide::agent
