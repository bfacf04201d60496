#pragma once
// Agents that obey at once, each with a TCP connection and a stream of its own, as real ones have.
// What is told to start runs, what is told to leave has saved and is gone. Like real ones they
// report to each scheduler what they hold, and hold a task until the scheduler says that its end is
// on disk.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/daemons/scheduler_process.h"
#include "tide/v1/agent.pb.h"

namespace tide::bench {

struct FakeAgentOptions {
  uint32_t count = 1;
  bool exit_at_once = false;  // a job ends well as soon as it has started
  std::string stays = "";     // unless it has this name
  uint32_t nodes_per_leaf = 16;
  uint32_t zones = 2;     // or 1
  bool datagrams = true;  // else heartbeats stay on the streams, as where UDP is blocked
  // Several: an agent whose stream ends tries the next one, as real agents do. One: the agent is
  // gone when its stream is.
  std::vector<std::string> addresses = {};
  // Each task that an agent has not been told before to start; threads of gRPC.
  std::function<void(const tide::v1::StartTask&, uint32_t agent)> on_start = {};
};

class FakeAgents {
 public:
  // Connects all of them and waits until every one has been welcomed. From then on each sends its
  // heartbeat every second, spread over the second.
  FakeAgents(const SchedulerProcess& scheduler, FakeAgentOptions options);
  ~FakeAgents();
  FakeAgents(const FakeAgents&) = delete;
  FakeAgents& operator=(const FakeAgents&) = delete;

  [[nodiscard]] static std::string NameOf(uint32_t agent) { return "n" + std::to_string(agent); }

  struct Counts {
    uint64_t started = 0;         // tasks told to start
    uint64_t left = 0;            // tasks that left on the scheduler's order
    uint64_t forgotten = 0;       // ends that the scheduler has on disk
    uint64_t beats = 0;           // heartbeats that the scheduler answered
    uint64_t faults_taken = 0;    // reports of faults that the scheduler has on disk
    int64_t last_started_ns = 0;  // CLOCK_MONOTONIC
    int64_t last_left_ns = 0;
    int64_t last_fault_taken_ns = 0;
  };
  [[nodiscard]] Counts counts() const;
  // Blocks until all have a stream.
  void WaitUntilConnected() const;
  // Blocks until so many tasks have been told to start, or ended and been forgotten.
  Counts WaitForStarted(uint64_t started) const;
  Counts WaitForForgotten(uint64_t forgotten) const;
  // Has the agent report a fault. Any thread.
  void ReportFault(uint32_t agent, const tide::v1::Fault& fault);
  // Blocks until the scheduler has so many of them on disk.
  Counts WaitForFaultsTaken(uint64_t faults) const;
  // Those that a scheduler has welcomed, and whose stream is up.
  [[nodiscard]] uint32_t connected() const;

  struct Shared;

 private:
  class Agent;
  class Stream;
  std::unique_ptr<Shared> shared_;
};

}  // namespace tide::bench
