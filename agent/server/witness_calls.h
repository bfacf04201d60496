#pragma once
// Questions to peers under way: is your task of this gang alive? (docs/adr/0005). Each is a call of
// its own with a time limit; nothing is retried, as the core asks another peer then.
//
// Threads: Ask and Stop from the owner's; answers come on gRPC's.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/time.h"
#include "common/rpc/security.h"
#include "tide/v1/agent.pb.h"

namespace tide::agent {

class WitnessCalls {
 public:
  explicit WitnessCalls(const rpc::Security& security);
  ~WitnessCalls();
  WitnessCalls(const WitnessCalls&) = delete;
  WitnessCalls& operator=(const WitnessCalls&) = delete;

  // on_answer: called once; false also when nobody answered within `wait`. After Stop never.
  void Ask(const tide::v1::Peer& peer,
           const tide::v1::WitnessRequest& request,
           Duration wait,
           std::function<void(bool alive)> on_answer);
  // Cancels what is under way and waits for its end. Nothing is asked any more.
  void Stop();

 private:
  struct Call;
  void Finish(Call& call);

  const rpc::Security& security_;
  Mutex mutex_;
  Condition changed_;
  bool stopping_ TIDE_GUARDED_BY(mutex_) = false;
  // Those that are done go with the next one.
  std::vector<std::unique_ptr<Call>> calls_ TIDE_GUARDED_BY(mutex_);
};

}  // namespace tide::agent
