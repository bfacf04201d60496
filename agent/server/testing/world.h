#pragma once
// A whole agent but for its processes, and the scheduler by hand that it talks to. For tests.

#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include "agent/server/agent_loop.h"
#include "agent/server/testing/fake_runtime.h"
#include "agent/server/testing/fake_scheduler.h"

namespace tide::agent {

inline const rpc::ClusterToken& Token() {
  static const rpc::ClusterToken kToken("0123456789abcdef");
  return kToken;
}

// One life of an agent; the next takes up what it leaves.
class Agent {
 public:
  Agent(const AgentConfig& config, FakeNode& node)
      : loop_(config, Token(), std::make_unique<FakeRuntime>(node), OpenSpool(config), book_),
        link_({config.scheduler},
              Token(),
              {[this](uint64_t id) { loop_.Post([this, id] { loop_.OnStream(id); }); },
               [this](uint64_t id, const tide::v1::SchedulerMessage& message) {
                 loop_.Post([this, id, message] { loop_.OnMessage(id, message); });
               },
               [this](uint64_t id) { loop_.Post([this, id] { loop_.OnLost(id); }); }}) {
    const Status adopted = loop_.Adopt();
    INFO((adopted ? "" : adopted.error().message));
    REQUIRE(adopted);
    loop_.SetLink(&link_);
    link_.Start();
    thread_ = std::thread([this] { loop_.Run(); });
  }
  ~Agent() {
    loop_.Stop(false);
    thread_.join();
    link_.Stop();
  }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  AgentLoop& loop() { return loop_; }

 private:
  static std::unique_ptr<FaultSpool> OpenSpool(const AgentConfig& config) {
    auto spool = FaultSpool::Open(config.state_dir, config.kmsg);
    REQUIRE(spool);
    return *std::move(spool);
  }
  TaskBook book_;
  AgentLoop loop_;
  Link link_;
  std::thread thread_;
};

struct World {
  TestDir dir;
  FakeNode node;
  AgentConfig config = TestConfig(dir);
  std::unique_ptr<FakeScheduler> scheduler;
  std::unique_ptr<Agent> agent;

  explicit World(uint64_t isolation_ms = 600'000) {
    config.scheduler = "unix:" + dir.File("s.sock");
    config.listen = "unix:" + dir.File("n1.sock");
    config.kmsg = dir.File("kmsg");
    scheduler = std::make_unique<FakeScheduler>(config.scheduler, Token());
    scheduler->WelcomeAll(isolation_ms);
    Restart();
  }
  ~World() {
    agent.reset();
    scheduler.reset();
  }
  void Restart() {
    agent.reset();
    const size_t hellos = scheduler ? scheduler->hellos().size() : 0;
    agent = std::make_unique<Agent>(config, node);
    REQUIRE(Eventually([&] { return !scheduler || scheduler->hellos().size() > hellos; }));
  }
  void Start(const tide::v1::StartTask& start = TestStart()) {
    scheduler->Command([&](tide::v1::Command& command) { *command.mutable_start() = start; });
  }
  template <typename Order>
  static void Key(Order* order) {
    order->set_job_id(7);
    order->set_epoch(2);
  }
  void Stop(bool kill) {
    scheduler->Command([&](tide::v1::Command& command) {
      Key(command.mutable_stop());
      command.mutable_stop()->set_kill(kill);
      command.mutable_stop()->set_grace_ms(60'000);
    });
  }
  void Suspend(int64_t deadline = INT64_MAX) {
    scheduler->Command([&](tide::v1::Command& command) {
      Key(command.mutable_suspend());
      command.mutable_suspend()->set_deadline(deadline);
    });
  }
  void Forget() {
    scheduler->Command([&](tide::v1::Command& command) { Key(command.mutable_forget()); });
  }
  [[nodiscard]] bool WaitState(tide::v1::TaskState state) {
    return Eventually([&] { return scheduler->Newest().state() == state; });
  }
  [[nodiscard]] bool WaitCall(const std::string& call) {
    return Eventually([&] {
      const auto calls = node.calls();
      return std::ranges::find(calls, call) != calls.end();
    });
  }
  [[nodiscard]] int64_t CountCalls(const std::string& call) {
    const auto calls = node.calls();
    return std::ranges::count(calls, call);
  }
};

}  // namespace tide::agent
