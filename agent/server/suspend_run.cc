#include "agent/server/suspend_run.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "agent/server/deadline.h"
#include "common/base/time.h"
#include "tide/v1/agent.grpc.pb.h"

namespace tide::agent {
namespace {

constexpr int kRoundTimeoutMs = 1000;

tide::v1::AgreeVerb ToProto(AgreeVerb verb) {
  return static_cast<tide::v1::AgreeVerb>(verb);
}
static_assert(static_cast<int>(AgreeVerb::kSignal) == tide::v1::AGREE_VERB_SIGNAL);
static_assert(static_cast<int>(AgreeOrder::kSave) == tide::v1::AGREE_ORDER_SAVE);

AgreeReply FromProto(const tide::v1::AgreeResponse& response, uint64_t round) {
  AgreeReply reply;
  reply.newest_round = response.newest_round();
  if (reply.newest_round > round) {
    return reply;
  }
  reply.answered = true;
  reply.min_step = response.min_step();
  reply.max_step = response.max_step();
  reply.any_attached = response.any_attached();
  reply.all_attached = response.all_attached();
  reply.committed_step = response.committed_step();
  reply.all_below = response.all_below();
  reply.ranks_gone = response.ranks_gone();
  reply.step_ns = response.step_ns();
  reply.order = static_cast<AgreeOrder>(response.order());
  reply.busy = response.busy();
  return reply;
}

}  // namespace

struct SuspendRun::Peers {
  std::vector<std::unique_ptr<tide::v1::AgentPeer::Stub>> stubs;  // by task index
};

SuspendRun::SuspendRun(tide::v1::StartTask start,
                       rpc::Security security,
                       int64_t deadline,
                       std::function<void(Agreement::Phase, int64_t)> on_over,
                       AgreeOrder order)
    : start_(std::move(start)),
      security_(std::move(security)),
      on_over_(std::move(on_over)),
      run_(deadline, order),
      thread_([this] { Run(); }) {}

SuspendRun::~SuspendRun() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    if (cancel_calls_) {
      cancel_calls_();  // else an unreachable peer would hold up whoever ends this
    }
  }
  changed_.NotifyAll();
  thread_.join();
}

void SuspendRun::Withdraw() {
  {
    const MutexLock lock(mutex_);
    run_.Withdraw();
  }
  changed_.NotifyAll();
}

bool SuspendRun::Renew(int64_t deadline) {
  const MutexLock lock(mutex_);
  const bool renewed = run_.Renew(deadline);
  changed_.NotifyAll();
  return renewed;
}

bool SuspendRun::Pause(Duration pause) {
  const MutexLock lock(mutex_);
  if (!ending_ && pause.nanos() > 0) {
    changed_.WaitFor(mutex_, pause.nanos());
  }
  return !ending_;
}

void SuspendRun::Run() {
  Peers peers;
  for (const tide::v1::Peer& peer : start_.peers()) {
    peers.stubs.push_back(tide::v1::AgentPeer::NewStub(
        security_.Connect(peer.endpoint(), {rpc::Role::kAgent, peer.node()})));
  }
  Agreement::Phase phase{};
  int64_t step = -1;
  for (bool over = false; !over;) {
    AgreeRound round;
    {
      const MutexLock lock(mutex_);
      round = run_.Next();
    }
    if (!Pause(round.pause)) {
      return;
    }
    const Instant sent = SystemNow();
    int64_t deadline = 0;
    {
      const MutexLock lock(mutex_);
      over = !run_.MayHold(sent);
      phase = run_.phase();
      deadline = run_.deadline();
      if (!over) {
        round = run_.Next();
      }
    }
    if (!over) {
      const std::vector<AgreeReply> replies = HoldRound(peers, round, deadline);
      const MutexLock lock(mutex_);
      run_.OnReplies(replies, sent, SystemNow());
      over = run_.over();
      phase = run_.phase();
      step = run_.stop_step();
    }
  }
  on_over_(phase, step);
}

// Asks all tasks at once and waits for the last answer.
std::vector<AgreeReply> SuspendRun::HoldRound(Peers& peers,
                                              const AgreeRound& round,
                                              int64_t deadline) {
  struct Call {
    grpc::ClientContext context;
    tide::v1::AgreeRequest request;
    tide::v1::AgreeResponse response;
    AgreeReply reply;
  };
  std::vector<Call> calls(peers.stubs.size());
  Mutex mutex;
  Condition done;
  size_t left = calls.size();
  const auto give_up =
      std::chrono::system_clock::now() + std::chrono::milliseconds(kRoundTimeoutMs);
  for (uint32_t task = 0; task < calls.size(); ++task) {
    Call& call = calls[task];
    call.context.set_deadline(give_up);
    security_.Attach(call.context);
    call.request.set_job_id(start_.job_id());
    call.request.set_epoch(start_.epoch());
    call.request.set_task(task);
    call.request.set_verb(ToProto(round.verb));
    call.request.set_at_step(round.at_step);
    call.request.set_round(round.number);
    call.request.set_order(static_cast<tide::v1::AgreeOrder>(round.order));
    call.request.set_deadline(deadline);
    call.request.set_remaining_ms(RemainingMillis(deadline));
    peers.stubs[task]->async()->Agree(
        &call.context, &call.request, &call.response, [&](const grpc::Status& status) {
          if (status.ok()) {
            call.reply = FromProto(call.response, call.request.round());
          }
          const MutexLock lock(mutex);
          --left;
          done.NotifyAll();
        });
  }
  {
    const MutexLock lock(mutex_);
    cancel_calls_ = [&calls] {
      for (Call& call : calls) {
        call.context.TryCancel();
      }
    };
    if (ending_) {
      cancel_calls_();
    }
  }
  {
    const MutexLock lock(mutex);
    while (left > 0) {
      done.WaitFor(mutex, -1);
    }
  }
  {
    const MutexLock lock(mutex_);
    cancel_calls_ = nullptr;
  }
  std::vector<AgreeReply> replies;
  for (const Call& call : calls) {
    replies.push_back(call.reply);
  }
  return replies;
}

}  // namespace tide::agent
