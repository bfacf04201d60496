#pragma once
// The upstream interfaces over gRPC, and the thread that keeps the view fresh.

#include <memory>
#include <string>

#include "api/upstream/upstream.h"
#include "api/view/view.h"
#include "common/rpc/rpc.h"

namespace tide::api {

// Every call carries `cluster_token`.
[[nodiscard]] std::unique_ptr<Scheduler> MakeGrpcScheduler(const std::string& address,
                                                           rpc::ClusterToken cluster_token);
[[nodiscard]] std::unique_ptr<Agents> MakeGrpcAgents(rpc::ClusterToken cluster_token);

// Holds Scheduler.Watch and feeds `store` until destroyed; reconnects with back-off.
class Watcher {
 public:
  Watcher(const std::string& address, rpc::ClusterToken cluster_token, ViewStore& store);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tide::api
