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
  void Start(const std::vector<std::string>& command) { StartMany(1, 1, command); }
  // Orders so many tasks at once, of the jobs 1, 2, 3 …
  void StartMany(uint32_t tasks, uint32_t ranks, const std::vector<std::string>& command);
  // Returns once the agent has said that so many tasks run.
  void WaitUntilRunning(uint32_t tasks);
  // Ends them, and returns once the agent has forgotten them.
  void EndAll();
  // Returns once the rank has ended well. Aborts when it has not, or not for `seconds`.
  void WaitUntilOver(int seconds);
  // The times between heartbeats so far.
  [[nodiscard]] Samples BeatIntervals() const;
  [[nodiscard]] std::string LogsFolder() const;
  [[nodiscard]] pid_t pid() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tide::bench
