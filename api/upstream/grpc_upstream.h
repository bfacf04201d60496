#pragma once
// The upstream interfaces over gRPC, and the thread that keeps the view fresh.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/upstream/upstream.h"
#include "api/view/view.h"
#include "common/rpc/security.h"

namespace tide::api {

// The schedulers of the cluster, and the one that leads, as the Watcher finds out: calls go there,
// over the connection that it has.
class Schedulers {
 public:
  struct Leader {
    std::string address;
    std::shared_ptr<grpc::Channel> channel;
  };

  // addresses: at least one.
  Schedulers(std::vector<std::string> addresses, rpc::Security security);

  [[nodiscard]] const std::vector<std::string>& addresses() const { return addresses_; }
  [[nodiscard]] Leader leader() const;
  void SetLeader(Leader leader);
  [[nodiscard]] std::shared_ptr<grpc::Channel> Connect(const std::string& address) const;

 private:
  const std::vector<std::string> addresses_;
  const rpc::Security security_;
  mutable std::mutex mutex_;
  Leader leader_;
};

// Each makes its own connections, by `security`. `schedulers` must outlive what is made for it.
[[nodiscard]] std::unique_ptr<Scheduler> MakeGrpcScheduler(const Schedulers& schedulers,
                                                           rpc::Security security);
[[nodiscard]] std::unique_ptr<Agents> MakeGrpcAgents(rpc::Security security);

// Holds Scheduler.Watch and feeds `store` until destroyed; reconnects with back-off, to one
// scheduler after the other.
class Watcher {
 public:
  Watcher(Schedulers& schedulers, rpc::Security security, ViewStore& store);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tide::api
