#pragma once
// Carries out one agreement for the gang whose task 0 is on this node: holds the rounds that
// core/agreement asks for, over gRPC, on a thread of its own.

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agent/core/agreement.h"
#include "common/base/mutex.h"
#include "common/rpc/rpc.h"
#include "tide/v1/agent.pb.h"

namespace tide::agent {

class SuspendRun {
 public:
  // deadline: Unix ns; after it the run gives up (the scheduler stops the tasks then).
  // on_over: called once, on the run's thread, with the final phase and the step.
  SuspendRun(tide::v1::StartTask start,
             rpc::ClusterToken token,
             int64_t deadline,
             std::function<void(Agreement::Phase, int64_t)> on_over);
  ~SuspendRun();
  SuspendRun(const SuspendRun&) = delete;
  SuspendRun& operator=(const SuspendRun&) = delete;

  void Withdraw();

 private:
  struct Peers;
  void Run();
  std::vector<AgreeReply> HoldRound(Peers& peers, const AgreeRound& round);
  // False when the run is to end.
  bool Pause(Duration pause);

  const tide::v1::StartTask start_;
  const rpc::ClusterToken token_;
  const int64_t deadline_;
  const std::function<void(Agreement::Phase, int64_t)> on_over_;

  Mutex mutex_;
  Condition changed_;
  bool ending_ TIDE_GUARDED_BY(mutex_) = false;
  bool withdrawn_ TIDE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tide::agent
