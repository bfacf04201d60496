#pragma once
// The upstream interfaces over gRPC, and the thread that keeps the view fresh.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/upstream/upstream.h"
#include "api/view/view.h"
#include "common/rpc/rpc.h"

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
  explicit Schedulers(std::vector<std::string> addresses);

  [[nodiscard]] const std::vector<std::string>& addresses() const { return addresses_; }
  [[nodiscard]] Leader leader() const;
  void SetLeader(Leader leader);

 private:
  const std::vector<std::string> addresses_;
  mutable std::mutex mutex_;
  Leader leader_;
};

// Every call carries `cluster_token`. `schedulers` must outlive what is made for it.
[[nodiscard]] std::unique_ptr<Scheduler> MakeGrpcScheduler(const Schedulers& schedulers,
                                                           rpc::ClusterToken cluster_token);
[[nodiscard]] std::unique_ptr<Agents> MakeGrpcAgents(rpc::ClusterToken cluster_token);

// Holds Scheduler.Watch and feeds `store` until destroyed; reconnects with back-off, to one
// scheduler after the other.
class Watcher {
 public:
  Watcher(Schedulers& schedulers, rpc::ClusterToken cluster_token, ViewStore& store);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tide::api
