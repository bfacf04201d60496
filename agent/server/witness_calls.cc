#include "agent/server/witness_calls.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "tide/v1/agent.grpc.pb.h"

namespace tide::agent {

struct WitnessCalls::Call {
  std::unique_ptr<tide::v1::AgentPeer::Stub> stub;
  grpc::ClientContext context;
  tide::v1::WitnessRequest request;
  tide::v1::WitnessResponse response;
  std::function<void(bool alive)> on_answer;
  grpc::Status status;
  bool done = false;  // guarded by mutex_
};

WitnessCalls::WitnessCalls(const rpc::Security& security) : security_(security) {}

WitnessCalls::~WitnessCalls() {
  Stop();
}

void WitnessCalls::Ask(const tide::v1::Peer& peer,
                       const tide::v1::WitnessRequest& request,
                       Duration wait,
                       std::function<void(bool alive)> on_answer) {
  auto made = std::make_unique<Call>();
  Call* call = made.get();
  call->stub = tide::v1::AgentPeer::NewStub(
      security_.Connect(peer.endpoint(), {rpc::Role::kAgent, peer.node()}));
  call->context.set_deadline(std::chrono::system_clock::now() +
                             std::chrono::nanoseconds(wait.nanos()));
  security_.Attach(call->context);
  call->request = request;
  call->on_answer = std::move(on_answer);
  {
    const MutexLock lock(mutex_);
    if (stopping_) {
      return;
    }
    std::erase_if(calls_, [](const auto& each) { return each->done; });
    calls_.push_back(std::move(made));
  }
  call->stub->async()->Witness(
      &call->context, &call->request, &call->response, [this, call](grpc::Status status) {
        call->status = std::move(status);
        Finish(*call);
      });
}

// The call stays: gRPC goes on with it when this returns, and with its channel.
void WitnessCalls::Finish(Call& call) {
  call.on_answer(call.status.ok() && call.response.alive());
  const MutexLock lock(mutex_);
  call.done = true;
  changed_.NotifyAll();
}

void WitnessCalls::Stop() {
  const MutexLock lock(mutex_);
  stopping_ = true;
  for (const auto& call : calls_) {
    call->context.TryCancel();
  }
  while (!std::ranges::all_of(calls_, [](const auto& call) { return call->done; })) {
    changed_.WaitFor(mutex_, -1);
  }
  calls_.clear();
}

}  // namespace tide::agent
