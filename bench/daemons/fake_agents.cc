#include "bench/daemons/fake_agents.h"

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "bench/daemons/beat_socket.h"
#include "bench/daemons/bench_cluster.h"
#include "bench/daemons/program.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/time.h"
#include "common/rpc/retry_rounds.h"
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
  uint32_t welcomes = 0;   // of all streams
  uint32_t connected = 0;  // agents
  uint32_t ended = 0;      // agents that make no more streams
};

struct FakeAgents::Shared {
  FakeAgentOptions options;
  Mutex sockets_mutex;
  // To each scheduler's UDP port.
  std::map<std::pair<std::string, uint32_t>, std::shared_ptr<BeatSocket>> sockets
      TIDE_GUARDED_BY(sockets_mutex);
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
  void Count(const auto& change) {
    const MutexLock lock(mutex);
    change(progress);
    changed.NotifyAll();
  }
  std::shared_ptr<BeatSocket> SocketTo(const std::string& peer, uint32_t port) {
    const MutexLock lock(sockets_mutex);
    auto& socket = sockets[{peer, port}];
    if (!socket) {
      socket = std::make_shared<BeatSocket>(peer, port);
    }
    return socket;
  }
  bool WaitUntil(int64_t due);
  void Beat();
};

// One connection of an agent. gRPC calls back until the agent's OnEnd; another thread may Send.
class FakeAgents::Stream final
    : public grpc::ClientBidiReactor<tide::v1::AgentMessage, tide::v1::SchedulerMessage> {
 public:
  struct Way {
    std::string address;
    bool patient = false;  // waits while nobody listens yet
  };

  Stream(Agent& agent, const rpc::Security& security, const Way& way)
      : agent_(agent),
        stub_(tide::v1::AgentLink::NewStub(
            security.Connect(way.address, {rpc::Role::kScheduler, ""}))) {
    security.Attach(context_);
    context_.set_wait_for_ready(way.patient);
  }

  void Start(tide::v1::AgentMessage hello) {
    stub_->async()->Connect(&context_, this);
    AddHold();  // heartbeats write from another thread
    StartRead(&incoming_);
    StartCall();
    Send(std::move(hello));
  }

  void Send(tide::v1::AgentMessage message) {
    {
      const MutexLock lock(mutex_);
      queue_.push_back(std::move(message));
    }
    Continue();
  }

  // As real agents: as a datagram once one was answered, and on the stream as well until then, and
  // when the one before was not answered.
  void Beat() {
    tide::v1::AgentMessage message;
    message.mutable_heartbeat()->set_sent_at(SystemNow().unix_nanos());
    const uint64_t number = ++beats_;
    message.mutable_heartbeat()->set_number(number);
    std::shared_ptr<BeatSocket> socket;
    uint64_t session = 0;
    {
      const MutexLock lock(mutex_);
      socket = socket_;
      session = session_;
    }
    if (socket) {
      socket->Send(session, message.heartbeat());
    }
    if (number - answered_ > 1 || answered_ == 0) {
      Send(std::move(message));
    }
  }

  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  void OnWriteDone(bool ok) override {
    bool last = false;
    {
      const MutexLock lock(mutex_);
      queue_.pop_front();
      writing_ = false;
      if (!ok) {
        queue_.clear();
      }
      last = broken_;
    }
    if (last) {
      RemoveHold();
      return;
    }
    Continue();
  }

 private:
  void OpenBeats(const tide::v1::BeatPort& offer);
  void CloseBeats() {
    std::shared_ptr<BeatSocket> socket;
    uint64_t session = 0;
    {
      const MutexLock lock(mutex_);
      socket = std::move(socket_);
      session = session_;
    }
    if (socket) {
      socket->Leave(session);
    }
  }

  // Starts the next write, outside of the lock: gRPC may call back before StartWrite returns.
  void Continue() {
    const tide::v1::AgentMessage* message = nullptr;
    {
      const MutexLock lock(mutex_);
      if (broken_ || writing_ || queue_.empty()) {
        return;
      }
      writing_ = true;
      message = &queue_.front();
    }
    StartWrite(message);
  }

  Agent& agent_;
  std::unique_ptr<tide::v1::AgentLink::Stub> stub_;
  grpc::ClientContext context_;
  tide::v1::SchedulerMessage incoming_;
  bool welcomed_ = false;               // reads come one after the other
  uint64_t beats_ = 0;                  // of the thread that beats
  std::atomic<uint64_t> answered_ = 0;  // number of a beat that came as a datagram
  Mutex mutex_;
  std::shared_ptr<BeatSocket> socket_ TIDE_GUARDED_BY(mutex_);
  uint64_t session_ TIDE_GUARDED_BY(mutex_) = 0;
  std::deque<tide::v1::AgentMessage> queue_ TIDE_GUARDED_BY(mutex_);  // front = in flight
  bool writing_ TIDE_GUARDED_BY(mutex_) = false;
  bool broken_ TIDE_GUARDED_BY(mutex_) = false;  // no write is started any more
};

// Its orders, and the end of its stream, come one after the other.
class FakeAgents::Agent {
 public:
  Agent(Shared& shared, uint32_t index)
      : shared_(shared), index_(index), security_(AgentSecurity(NameOf(index))) {}

  void Connect() {
    const std::vector<std::string>& addresses = shared_.options.addresses;
    const std::string& address = addresses[tries_++ % addresses.size()];
    // To learn from gRPC that nobody listens costs it a context of TLS, which real agents pay for
    // on their own machines.
    const bool listens = addresses.size() == 1 || Accepts(address);
    bool stopping = false;
    {
      const MutexLock lock(mutex_);
      stopping = stopping_;
      if (!stopping && listens) {
        // A new connection each time: an old one would first wait out the back-off of its failures.
        stream_ =
            std::make_shared<Stream>(*this, security_, Stream::Way{address, addresses.size() == 1});
        stream_->Start(Hello());
        return;
      }
    }
    if (stopping) {
      End();
    } else {
      OnEnd();
    }
  }

  void SendHeartbeat() {
    std::shared_ptr<Stream> stream;
    {
      const MutexLock lock(mutex_);
      stream = stream_;
    }
    stream->Beat();
  }

  // Any thread.
  void ReportFault(const tide::v1::Fault& fault) {
    tide::v1::AgentMessage message;
    *message.mutable_report()->add_faults() = fault;
    std::shared_ptr<Stream> stream;
    {
      const MutexLock lock(mutex_);
      message.mutable_report()->set_seq(++seq_);
      faults_.insert(seq_);
      stream = stream_;
    }
    stream->Send(std::move(message));
  }

  void Stop() {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
      stream_->Cancel();
    }
    retry_.Cancel();
  }

  // --- of its stream ---
  void OnWelcome() {
    shared_.Count([](Progress& progress) {
      ++progress.welcomes;
      ++progress.connected;
    });
  }
  void OnBroken() {
    shared_.Count([](Progress& progress) { --progress.connected; });
  }
  void OnBeatAnswered() {
    const MutexLock lock(shared_.mutex);
    ++shared_.progress.counts.beats;
  }
  [[nodiscard]] bool SendsDatagrams() const { return shared_.options.datagrams; }
  std::shared_ptr<BeatSocket> SocketTo(const std::string& peer, uint32_t port) {
    return shared_.SocketTo(peer, port);
  }
  void OnMessage(const tide::v1::SchedulerMessage& message) {
    highest_term_ = std::max(highest_term_, message.term());
    if (message.has_command()) {
      Obey(message.command());
    } else if (message.has_ack() && message.ack().seq() == 0) {  // not of a report
      OnBeatAnswered();
    } else if (message.has_ack()) {
      OnReportTaken(message.ack().seq());
    }
  }
  // gRPC is done with it.
  void OnEnd() {
    if (shared_.options.addresses.size() == 1) {
      End();
      return;
    }
    const std::chrono::nanoseconds pause(rounds_.PauseNs(MonotonicNanos()));
    retry_.Set(std::chrono::system_clock::now() + pause, [this](bool /*ok*/) { Connect(); });
  }

 private:
  using TaskKey = std::pair<uint64_t, uint32_t>;  // job, task

  void OnReportTaken(uint64_t seq) {
    {
      const MutexLock lock(mutex_);
      if (faults_.erase(seq) == 0) {
        return;
      }
    }
    shared_.Count([](Progress& progress) {
      ++progress.counts.faults_taken;
      progress.counts.last_fault_taken_ns = MonotonicNanos();
    });
  }

  // This may be gone when it returns.
  void End() {
    shared_.Count([](Progress& progress) { ++progress.ended; });
  }

  tide::v1::AgentMessage Hello() const {
    tide::v1::AgentMessage message;
    tide::v1::Hello* hello = message.mutable_hello();
    tide::v1::Node* node = hello->mutable_node();
    const uint32_t leaf = index_ / shared_.options.nodes_per_leaf;
    const std::string zone =
        shared_.options.zones == 1 || index_ < (shared_.options.count + 1) / 2 ? "A" : "B";
    node->set_name(NameOf(index_));
    node->set_group("default");
    node->set_zone(zone);
    node->set_leaf(zone + "-l" + std::to_string(leaf));
    node->mutable_capacity()->set_gpus(8);
    node->set_port_low(20'000);
    node->set_port_high(20'099);
    hello->set_highest_term(highest_term_);
    for (const auto& [key, report] : held_) {
      *hello->add_tasks() = report;
    }
    return message;
  }

  void Obey(const tide::v1::Command& command) {
    if (command.has_start()) {
      StartTask(command.start());
    } else if (command.has_suspend()) {
      EndTask(command.suspend(), tide::v1::EXIT_REASON_SUSPENDED);
    } else if (command.has_stop()) {
      EndTask(command.stop(), tide::v1::EXIT_REASON_STOPPED);
    } else if (command.has_forget()) {
      const tide::v1::ForgetTask& forget = command.forget();
      const auto held = held_.find({forget.job_id(), forget.task()});
      if (held != held_.end() && held->second.epoch() == forget.epoch()) {
        held_.erase(held);
      }
      shared_.Count([](Progress& progress) { ++progress.counts.forgotten; });
    }
  }

  void StartTask(const tide::v1::StartTask& start) {
    const auto held = held_.find({start.job_id(), start.task()});
    if (held != held_.end() && held->second.epoch() >= start.epoch()) {
      Report(held->second);  // said again
      return;
    }
    if (shared_.options.on_start) {
      shared_.options.on_start(start, index_);
    }
    shared_.Count([](Progress& progress) {
      ++progress.counts.started;
      progress.counts.last_started_ns = MonotonicNanos();
    });
    Hold(ReportOf(start, tide::v1::TASK_STATE_RUNNING));
    if (shared_.options.exit_at_once && start.spec().name() != shared_.options.stays) {
      tide::v1::TaskReport report = ReportOf(start, tide::v1::TASK_STATE_EXITED);
      report.mutable_exit()->set_reason(tide::v1::EXIT_REASON_SUCCEEDED);
      Hold(std::move(report));
    }
  }

  void EndTask(const auto& command, tide::v1::ExitReason reason) {
    const auto held = held_.find({command.job_id(), command.task()});
    if (held != held_.end() && held->second.state() == tide::v1::TASK_STATE_EXITED) {
      Report(held->second);  // it has left before
      return;
    }
    tide::v1::TaskReport report = ReportOf(command, tide::v1::TASK_STATE_EXITED);
    report.mutable_exit()->set_reason(reason);
    if (reason == tide::v1::EXIT_REASON_SUSPENDED) {
      report.mutable_exit()->set_code(85);
      report.set_parked_at(report.at());
      report.set_stop_step(1);
      report.set_saved_step(1);
      report.set_saved_at(report.at());
    }
    Hold(std::move(report));
    shared_.Count([](Progress& progress) {
      ++progress.counts.left;
      progress.counts.last_left_ns = MonotonicNanos();
    });
  }

  // Keeps it for the next Hello, and says it.
  void Hold(tide::v1::TaskReport report) {
    Report(report);
    held_[{report.job_id(), report.task()}] = std::move(report);
  }

  void Report(const tide::v1::TaskReport& report) {
    tide::v1::AgentMessage message;
    *message.mutable_report()->add_tasks() = report;
    std::shared_ptr<Stream> stream;
    {
      const MutexLock lock(mutex_);
      message.mutable_report()->set_seq(++seq_);
      stream = stream_;
    }
    stream->Send(std::move(message));
  }

  Shared& shared_;
  const uint32_t index_;
  const rpc::Security security_;
  uint64_t highest_term_ = 0;
  std::map<TaskKey, tide::v1::TaskReport> held_;
  size_t tries_ = 0;
  rpc::RetryRounds rounds_{shared_.options.addresses.size(), MonotonicNanos(), index_};
  grpc::Alarm retry_;
  Mutex mutex_;
  std::shared_ptr<Stream> stream_ TIDE_GUARDED_BY(mutex_);
  uint64_t seq_ TIDE_GUARDED_BY(mutex_) = 0;
  std::set<uint64_t> faults_ TIDE_GUARDED_BY(mutex_);  // reports of faults that are on their way
  bool stopping_ TIDE_GUARDED_BY(mutex_) = false;
};

void FakeAgents::Stream::OnReadDone(bool ok) {
  if (ok) {
    if (incoming_.has_welcome()) {
      welcomed_ = true;
      if (incoming_.welcome().has_beat_port() && agent_.SendsDatagrams()) {
        OpenBeats(incoming_.welcome().beat_port());
      }
      agent_.OnWelcome();
    }
    agent_.OnMessage(incoming_);
    StartRead(&incoming_);
    return;
  }
  CloseBeats();
  if (welcomed_) {
    agent_.OnBroken();
  }
  bool idle = false;
  {
    const MutexLock lock(mutex_);
    broken_ = true;
    idle = !writing_;  // else the end of the write is the last
  }
  if (idle) {
    RemoveHold();
  }
}

void FakeAgents::Stream::OpenBeats(const tide::v1::BeatPort& offer) {
  auto socket = agent_.SocketTo(context_.peer(), offer.port());
  socket->Join(offer, [this](uint64_t number) {
    answered_ = number;
    agent_.OnBeatAnswered();
  });
  const MutexLock lock(mutex_);
  socket_ = std::move(socket);
  session_ = offer.session();
}

void FakeAgents::Stream::OnDone(const grpc::Status& /*status*/) {
  agent_.OnEnd();
}

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

FakeAgents::FakeAgents(const SchedulerProcess& scheduler, FakeAgentOptions options)
    : shared_(std::make_unique<Shared>()) {
  if (options.addresses.empty()) {
    options.addresses = {scheduler.address()};
  }
  const uint32_t count = options.count;
  shared_->options = std::move(options);
  for (uint32_t i = 0; i < count; ++i) {
    shared_->agents.push_back(std::make_unique<Agent>(*shared_, i));
    shared_->agents.back()->Connect();
    const uint32_t wanted = i + 1 == count ? count : (i < kJoiningMax ? 0 : i - kJoiningMax);
    (void)shared_->Wait([&](const Progress& each) { return each.welcomes >= wanted; });
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
    agent->Stop();
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

void FakeAgents::ReportFault(uint32_t agent, const tide::v1::Fault& fault) {
  shared_->agents.at(agent)->ReportFault(fault);
}

FakeAgents::Counts FakeAgents::WaitForFaultsTaken(uint64_t faults) const {
  return shared_->Wait([&](const Progress& each) { return each.counts.faults_taken >= faults; });
}

void FakeAgents::WaitUntilConnected() const {
  (void)shared_->Wait(
      [&](const Progress& each) { return each.connected == shared_->agents.size(); });
}

uint32_t FakeAgents::connected() const {
  const MutexLock lock(shared_->mutex);
  return shared_->progress.connected;
}

}  // namespace tide::bench
