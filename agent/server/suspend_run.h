#pragma once
// Carries out one agreement, on a suspension or a save, for the gang whose task 0 is on this node:
// holds the rounds that core/agreement asks for, over gRPC, on a thread of its own.

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agent/core/agreement_run.h"
#include "common/base/mutex.h"
#include "common/rpc/security.h"
#include "tide/v1/agent.pb.h"

namespace tide::agent {

class SuspendRun {
 public:
  // deadline: Unix ns by this machine's clock; after it the run gives up (the scheduler stops the
  // tasks then). on_over: called once, on the run's thread, with the final phase and the step;
  // kAborted after the deadline. Not called when the run is destroyed before.
  SuspendRun(tide::v1::StartTask start,
             rpc::Security security,
             int64_t deadline,
             std::function<void(Agreement::Phase, int64_t)> on_over,
             AgreeOrder order = AgreeOrder::kSuspend);
  ~SuspendRun();
  SuspendRun(const SuspendRun&) = delete;
  SuspendRun& operator=(const SuspendRun&) = delete;

  void Withdraw();
  // The order was given again, with this deadline: a withdrawn agreement begins anew. False when
  // the run is over.
  [[nodiscard]] bool Renew(int64_t deadline);

 private:
  struct Peers;
  void Run();
  std::vector<AgreeReply> HoldRound(Peers& peers, const AgreeRound& round, int64_t deadline);
  // False when the run is to end.
  bool Pause(Duration pause);

  const tide::v1::StartTask start_;
  const rpc::Security security_;
  const std::function<void(Agreement::Phase, int64_t)> on_over_;

  Mutex mutex_;
  Condition changed_;
  bool ending_ TIDE_GUARDED_BY(mutex_) = false;
  AgreementRun run_ TIDE_GUARDED_BY(mutex_);
  std::function<void()> cancel_calls_ TIDE_GUARDED_BY(mutex_);  // of the round being held
  std::thread thread_;
};

}  // namespace tide::agent
