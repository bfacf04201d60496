#include "bench/daemons/fake_agents.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <deque>
#include <thread>
#include <vector>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/time.h"
#include "tide/v1/agent.grpc.pb.h"

namespace tide::bench {
namespace {

constexpr int64_t kHeartbeatNanos = 1'000'000'000;
constexpr int64_t kPatienceNanos = 120'000'000'000;
// Connecting thousands at once would fill the listen queue; so many are on their way at a time.
constexpr uint32_t kJoiningMax = 64;

tide::v1::TaskReport ReportOf(const auto& command, tide::v1::TaskState state) {
  tide::v1::TaskReport report;
  report.set_job_id(command.job_id());
  report.set_epoch(command.epoch());
  report.set_task(command.task());
  report.set_state(state);
  report.set_at(SystemNow().unix_nanos());
  report.set_stop_step(-1);
  report.set_saved_step(-1);
  return report;
}

}  // namespace

// What all agents of a set count together.
struct Progress {
  FakeAgents::Counts counts;
  uint32_t welcomed = 0;
  uint32_t broken = 0;  // streams that ended by themselves
  uint32_t ended = 0;   // gRPC is done with them
};

struct FakeAgents::Shared {
  FakeAgentOptions options;
  rpc::ClusterToken token;
  mutable Mutex mutex;
  mutable Condition changed;
  Progress progress TIDE_GUARDED_BY(mutex);
  bool stopping TIDE_GUARDED_BY(mutex) = false;
  std::vector<std::unique_ptr<Agent>> agents;
  std::thread beats;

  // Waits, with a bound, until `done` holds for the progress.
  Counts Wait(const auto& done) const {
    const MutexLock lock(mutex);
    const int64_t give_up = MonotonicNanos() + kPatienceNanos;
    while (!done(progress)) {
      const int64_t left = give_up - MonotonicNanos();
      TIDE_CHECK(left > 0, "agents and scheduler get on within the time allowed");
      changed.WaitFor(mutex, left);
    }
    return progress.counts;
  }
  bool WaitUntil(int64_t due);
  void Beat();
};

class FakeAgents::Agent final
    : public grpc::ClientBidiReactor<tide::v1::AgentMessage, tide::v1::SchedulerMessage> {
 public:
  Agent(Shared& shared, const std::string& address, uint32_t index)
      : shared_(shared), stub_(tide::v1::AgentLink::NewStub(rpc::Connect(address))) {
    shared_.token.Attach(context_);
    context_.set_wait_for_ready(true);
    tide::v1::AgentMessage message;
    tide::v1::Node* node = message.mutable_hello()->mutable_node();
    const uint32_t leaf = index / shared_.options.nodes_per_leaf;
    const std::string zone = index < (shared_.options.count + 1) / 2 ? "A" : "B";
    node->set_name("n" + std::to_string(index));
    node->set_group("default");
    node->set_zone(zone);
    node->set_leaf(zone + "-l" + std::to_string(leaf));
    node->mutable_capacity()->set_gpus(8);
    node->set_port_low(20'000);
    node->set_port_high(20'099);
    stub_->async()->Connect(&context_, this);
    AddHold();  // heartbeats write from another thread
    StartRead(&incoming_);
    StartCall();
    Send(std::move(message));
  }

  void SendHeartbeat() {
    tide::v1::AgentMessage message;
    message.mutable_heartbeat()->set_sent_at(SystemNow().unix_nanos());
    Send(std::move(message));
  }
  // No more heartbeats come.
  void Cancel() {
    context_.TryCancel();
    RemoveHold();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      const MutexLock lock(shared_.mutex);
      shared_.progress.broken += shared_.stopping ? 0 : 1;
      return;
    }
    if (incoming_.has_welcome()) {
      const MutexLock lock(shared_.mutex);
      ++shared_.progress.welcomed;
      shared_.changed.NotifyAll();
    } else if (incoming_.has_command()) {
      Obey(incoming_.command());
    } else if (incoming_.has_ack() && incoming_.ack().seq() == 0) {  // not of a report
      const MutexLock lock(shared_.mutex);
      ++shared_.progress.counts.beats;
    }
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    {
      const MutexLock lock(mutex_);
      queue_.pop_front();
      writing_ = false;
      if (!ok) {
        queue_.clear();
      }
    }
    Continue();
  }

  void OnDone(const grpc::Status& /*status*/) override {
    const MutexLock lock(shared_.mutex);
    ++shared_.progress.ended;
    shared_.changed.NotifyAll();
  }

 private:
  void Obey(const tide::v1::Command& command) {
    if (command.has_start()) {
      CountStart();
      Report(ReportOf(command.start(), tide::v1::TASK_STATE_RUNNING));
      if (shared_.options.exit_at_once) {
        ReportExit(command.start(), tide::v1::EXIT_REASON_SUCCEEDED);
      }
    } else if (command.has_suspend()) {
      ReportExit(command.suspend(), tide::v1::EXIT_REASON_SUSPENDED);
      CountLeft();
    } else if (command.has_stop()) {
      ReportExit(command.stop(), tide::v1::EXIT_REASON_STOPPED);
      CountLeft();
    } else if (command.has_forget()) {
      const MutexLock lock(shared_.mutex);
      ++shared_.progress.counts.forgotten;
      shared_.changed.NotifyAll();
    }
  }

  void ReportExit(const auto& command, tide::v1::ExitReason reason) {
    tide::v1::TaskReport report = ReportOf(command, tide::v1::TASK_STATE_EXITED);
    report.mutable_exit()->set_reason(reason);
    if (reason == tide::v1::EXIT_REASON_SUSPENDED) {
      report.mutable_exit()->set_code(85);
      report.set_parked_at(report.at());
      report.set_stop_step(1);
      report.set_saved_step(1);
      report.set_saved_at(report.at());
    }
    Report(std::move(report));
  }

  void Report(tide::v1::TaskReport report) {
    tide::v1::AgentMessage message;
    message.mutable_report()->set_seq(++seq_);
    *message.mutable_report()->add_tasks() = std::move(report);
    Send(std::move(message));
  }

  void CountStart() {
    const MutexLock lock(shared_.mutex);
    ++shared_.progress.counts.started;
    shared_.progress.counts.last_started_ns = MonotonicNanos();
    shared_.changed.NotifyAll();
  }
  void CountLeft() {
    const MutexLock lock(shared_.mutex);
    ++shared_.progress.counts.left;
    shared_.progress.counts.last_left_ns = MonotonicNanos();
    shared_.changed.NotifyAll();
  }

  void Send(tide::v1::AgentMessage message) {
    {
      const MutexLock lock(mutex_);
      queue_.push_back(std::move(message));
    }
    Continue();
  }

  // Starts the next write, outside of the lock: gRPC may call back before StartWrite returns.
  void Continue() {
    const tide::v1::AgentMessage* message = nullptr;
    {
      const MutexLock lock(mutex_);
      if (writing_ || queue_.empty()) {
        return;
      }
      writing_ = true;
      message = &queue_.front();
    }
    StartWrite(message);
  }

  Shared& shared_;
  std::unique_ptr<tide::v1::AgentLink::Stub> stub_;
  grpc::ClientContext context_;
  tide::v1::SchedulerMessage incoming_;
  uint64_t seq_ = 0;  // reads come one after the other
  Mutex mutex_;
  std::deque<tide::v1::AgentMessage> queue_ TIDE_GUARDED_BY(mutex_);  // front = in flight
  bool writing_ TIDE_GUARDED_BY(mutex_) = false;
};

// Waits until `due` of CLOCK_MONOTONIC; false when the agents are to end.
bool FakeAgents::Shared::WaitUntil(int64_t due) {
  const MutexLock lock(mutex);
  while (!stopping) {
    const int64_t left = due - MonotonicNanos();
    if (left <= 0) {
      return true;
    }
    changed.WaitFor(mutex, left);
  }
  return false;
}

// Agent i sends at i/n of every second.
void FakeAgents::Shared::Beat() {
  const auto count = static_cast<int64_t>(agents.size());
  for (int64_t round = MonotonicNanos();; round += kHeartbeatNanos) {
    for (int64_t i = 0; i < count; ++i) {
      if (!WaitUntil(round + kHeartbeatNanos * i / count)) {
        return;
      }
      agents[static_cast<size_t>(i)]->SendHeartbeat();
    }
  }
}

FakeAgents::FakeAgents(const SchedulerProcess& scheduler, const FakeAgentOptions& options)
    : shared_(std::make_unique<Shared>()) {
  shared_->options = options;
  shared_->token = BenchToken();
  for (uint32_t i = 0; i < options.count; ++i) {
    shared_->agents.push_back(std::make_unique<Agent>(*shared_, scheduler.address(), i));
    const uint32_t wanted =
        i + 1 == options.count ? options.count : (i < kJoiningMax ? 0 : i - kJoiningMax);
    (void)shared_->Wait([&](const Progress& each) { return each.welcomed >= wanted; });
  }
  shared_->beats = std::thread([this] { shared_->Beat(); });
}

FakeAgents::~FakeAgents() {
  {
    const MutexLock lock(shared_->mutex);
    shared_->stopping = true;
    shared_->changed.NotifyAll();
  }
  shared_->beats.join();
  for (const auto& agent : shared_->agents) {
    agent->Cancel();
  }
  (void)shared_->Wait([&](const Progress& each) { return each.ended == shared_->agents.size(); });
}

FakeAgents::Counts FakeAgents::counts() const {
  const MutexLock lock(shared_->mutex);
  return shared_->progress.counts;
}

FakeAgents::Counts FakeAgents::WaitForStarted(uint64_t started) const {
  return shared_->Wait([&](const Progress& each) { return each.counts.started >= started; });
}

FakeAgents::Counts FakeAgents::WaitForForgotten(uint64_t forgotten) const {
  return shared_->Wait([&](const Progress& each) { return each.counts.forgotten >= forgotten; });
}

uint32_t FakeAgents::connected() const {
  const MutexLock lock(shared_->mutex);
  return shared_->progress.welcomed - shared_->progress.broken;
}

}  // namespace tide::bench
