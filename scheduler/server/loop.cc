#include "scheduler/server/loop.h"

#include <cstdlib>
#include <utility>

#include "common/log/log.h"

namespace tide {
namespace {

constexpr size_t kQueueMax = 65536;
constexpr size_t kBatchMax = 4096;
constexpr int kExitCommitFailed = 71;

// A job id in an event, for the log line of a transition; 0 = none.
template <typename Body>
uint64_t JobOf(const Body& body) {
  if constexpr (requires { body.job.value(); }) {
    return body.job.value();
  } else {
    return 0;
  }
}

template <typename Body>
std::string NodeOf(const ClusterState& state, const Body& body) {
  if constexpr (requires { body.node.value(); }) {
    return state.nodes[body.node.value()].identity.name;
  } else {
    return "";
  }
}

void LogEvent(const ClusterState& state, const Event& event) {
  const uint64_t job = std::visit([](const auto& body) { return JobOf(body); }, event.body);
  const std::string node =
      std::visit([&](const auto& body) { return NodeOf(state, body); }, event.body);
  const Job* found = state.FindJob(JobId(job));
  log::Info(EventName(event.body),
            {{"JobId", job == 0 ? std::string("-") : FormatJobName(job)},
             {"State", found == nullptr ? "-" : JobStateName(StateOf(*found))},
             {"Node", node.empty() ? std::string("-") : node}});
}

}  // namespace

Loop::Loop(std::unique_ptr<Store> store,
           ClusterState state,
           Policy policy,
           LivenessPolicy liveness,
           ViewHub& view,
           SessionRegistry& sessions)
    : store_(std::move(store)),
      state_(std::move(state)),
      policy_(policy),
      liveness_(liveness, MonotonicNanos()),
      view_(view),
      sessions_(sessions),
      term_(store_->term()) {}

Loop::~Loop() {
  Stop();
}

void Loop::Start() {
  view_.PublishAll(state_, term_);
  thread_ = std::thread([this] { Run(); });
}

void Loop::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) {
    thread_.join();
    if (const Status released = store_->Release(SystemNow()); !released) {
      log::Warning("Lease not released", {{"Error", released.error().message}});
    }
  }
}

bool Loop::Enqueue(Request request) {
  {
    const MutexLock lock(mutex_);
    if (stopping_ || queue_.size() >= kQueueMax) {
      return false;
    }
    queue_.push_back(std::move(request));
  }
  wake_.NotifyAll();
  return true;
}

Instant Loop::Now() {
  return clock_.Read(SystemNow(), BootNanos());
}

NodeId BatchContext::NodeFor(const std::string& name) {
  if (const Node* known = state_.FindNode(name)) {
    return known->id;
  }
  const auto next = static_cast<uint32_t>(state_.nodes.size() + new_nodes_.size());
  return new_nodes_.try_emplace(name, NodeId(next)).first->second;
}

// Waits for requests or the next moment at which time alone matters.
std::deque<Request> Loop::TakeBatch() {
  const MutexLock lock(mutex_);
  if (queue_.empty() && !stopping_) {
    const Instant now = Now();
    const Instant next = std::min(wake_at_, now + Liveness::check_interval());
    const int64_t wait = (next - now).nanos();
    if (wait > 0) {
      wake_.WaitFor(mutex_, wait);
    }
  }
  std::deque<Request> batch;
  while (!queue_.empty() && batch.size() < kBatchMax) {
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return batch;
}

void Loop::Run() {
  while (true) {
    std::deque<Request> batch = TakeBatch();
    {
      const MutexLock lock(mutex_);
      if (stopping_ && batch.empty()) {
        return;
      }
    }
    Turn(std::move(batch));
  }
}

void Loop::Turn(std::deque<Request> batch) {
  const Instant now = Now();
  std::vector<Reply> replies(batch.size());
  std::vector<Event> events;
  std::vector<size_t> owner;  // request of each event
  BatchContext context(state_, now);
  for (size_t i = 0; i < batch.size(); ++i) {
    auto bodies = batch[i].make(context, replies[i]);
    if (!bodies) {
      replies[i].status = std::unexpected(bodies.error());
      continue;
    }
    for (EventBody& body : *bodies) {
      events.push_back({now, std::move(body)});
      owner.push_back(i);
    }
  }
  for (EventBody& body : liveness_.Check(state_, sessions_.LastHeard(), MonotonicNanos())) {
    events.push_back({now, std::move(body)});
  }
  const StepResult step = Step(state_, events, policy_, now);
  wake_at_ = step.wake_at;
  if (const Status committed = store_->Commit(state_, step, now); !committed) {
    log::Failure("Commit failed, stopping", {{"Error", committed.error().message}});
    std::_Exit(kExitCommitFailed);
  }
  for (const Event& event : step.log) {
    LogEvent(state_, event);
  }
  const uint64_t rev = view_.Publish(state_, step, term_);
  for (Reply& reply : replies) {
    reply.rev = rev;
  }
  Answer(batch, replies, owner, step);
  for (const Command& command : step.commands) {
    sessions_.Send(command, state_);
  }
}

void Loop::Answer(std::deque<Request>& batch,
                  std::vector<Reply>& replies,
                  const std::vector<size_t>& owner,
                  const StepResult& step) {
  for (size_t event = 0; event < owner.size(); ++event) {
    Reply& reply = replies[owner[event]];
    if (!step.results[event] && reply.status) {
      reply.status = std::unexpected(step.results[event].error());
    }
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i].done(replies[i]);
  }
}

}  // namespace tide
