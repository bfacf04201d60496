#pragma once
// A real tide-agent, and for a scheduler this process: it welcomes the agent, orders one task, and
// notes when heartbeats come.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/daemons/task_place.h"
#include "bench/measure.h"

namespace tide::bench {

class OneAgent {
 public:
  static constexpr const char* kTaskKey = "1.1.0";

  // Plain processes, this process's user, a heartbeat a second.
  explicit OneAgent(const TaskPlace& place);
  ~OneAgent();  // ends the task, too
  OneAgent(const OneAgent&) = delete;
  OneAgent& operator=(const OneAgent&) = delete;

  // Runs the command as the one rank of a task.
  void Start(const std::vector<std::string>& command);
  // Returns once the rank has ended well. Aborts when it has not, or not for `seconds`.
  void WaitUntilOver(int seconds);
  // The times between heartbeats so far.
  [[nodiscard]] Samples BeatIntervals() const;
  [[nodiscard]] std::string LogsFolder() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tide::bench
