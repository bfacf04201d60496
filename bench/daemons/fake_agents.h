#pragma once
// Agents that obey at once, each with a TCP connection and a stream of its own, as real ones have.
// They keep no tasks: what is told to start runs, what is told to leave has saved and is gone.

#include <cstdint>
#include <memory>
#include <string>

#include "bench/daemons/scheduler_process.h"

namespace tide::bench {

struct FakeAgentOptions {
  uint32_t count = 1;
  bool exit_at_once = false;  // a job ends well as soon as it has started
  uint32_t nodes_per_leaf = 16;
};

class FakeAgents {
 public:
  // Connects all of them and waits until every one has been welcomed. From then on each sends its
  // heartbeat every second, spread over the second.
  FakeAgents(const SchedulerProcess& scheduler, const FakeAgentOptions& options);
  ~FakeAgents();
  FakeAgents(const FakeAgents&) = delete;
  FakeAgents& operator=(const FakeAgents&) = delete;

  struct Counts {
    uint64_t started = 0;         // tasks told to start
    uint64_t left = 0;            // tasks that left on the scheduler's order
    uint64_t forgotten = 0;       // ends that the scheduler has on disk
    uint64_t beats = 0;           // heartbeats that the scheduler answered
    int64_t last_started_ns = 0;  // CLOCK_MONOTONIC
    int64_t last_left_ns = 0;
  };
  [[nodiscard]] Counts counts() const;
  // Blocks until so many tasks have been told to start, or ended and been forgotten.
  Counts WaitForStarted(uint64_t started) const;
  Counts WaitForForgotten(uint64_t forgotten) const;
  // Streams that are up.
  [[nodiscard]] uint32_t connected() const;

  struct Shared;

 private:
  class Agent;
  std::unique_ptr<Shared> shared_;
};

}  // namespace tide::bench
