#pragma once
// A real tide-agent, and for a scheduler this process: it welcomes the agent, orders tasks, and
// notes when heartbeats come.

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/daemons/task_place.h"
#include "bench/measure.h"
#include "tide/v1/types.pb.h"

namespace tide::bench {

// Hardware of its node, as the agent sees it.
struct OneAgentSight {
  std::string kmsg = "";   // a file; "" = no kernel log
  std::string sysfs = "";  // a folder; "" = no network ports
};

// A fault that the agent has reported, when it came.
struct ReportedFault {
  v1::Fault fault;
  int64_t at_ns = 0;  // CLOCK_MONOTONIC
};

// Answer of the agent to an order to start.
struct StartAnswer {
  bool refused = false;  // by the node's fault; else the task starts
  int64_t after_ns = 0;  // from the order
};

class OneAgent {
 public:
  static constexpr const char* kTaskKey = "1.1.0";

  // Plain processes, this process's user, a heartbeat a second.
  explicit OneAgent(const TaskPlace& place, const OneAgentSight& sight = {});
  ~OneAgent();  // ends the task, too
  OneAgent(const OneAgent&) = delete;
  OneAgent& operator=(const OneAgent&) = delete;

  // Runs the command as the one rank of a task.
  void Start(const std::vector<std::string>& command) { StartMany(1, 1, command); }
  // Orders so many tasks at once, of the jobs 1, 2, 3 …
  void StartMany(uint32_t tasks, uint32_t ranks, const std::vector<std::string>& command);
  // Returns once the agent has said that so many tasks run.
  void WaitUntilRunning(uint32_t tasks);
  // Orders a task of a gang on two nodes, of job 1, and returns what the agent said first of it.
  // Aborts when it says nothing for 20 s.
  [[nodiscard]] StartAnswer StartOfGang(const std::vector<std::string>& command);
  // Ends them, and returns once the agent has forgotten them.
  void EndAll();
  // Returns once the rank has ended well. Aborts when it has not, or not for `seconds`.
  void WaitUntilOver(int seconds);
  // Returns once the agent has joined.
  void WaitUntilJoined();
  // Returns the faults so far, once there are so many. Aborts when they do not come for `seconds`.
  std::vector<ReportedFault> WaitForFaults(size_t count, int seconds);
  // The times between heartbeats so far.
  [[nodiscard]] Samples BeatIntervals() const;
  [[nodiscard]] std::string LogsFolder() const;
  // Where the agent keeps its state.
  [[nodiscard]] const std::string& StateFolder() const;
  [[nodiscard]] pid_t pid() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tide::bench
