#pragma once
// The port through which the agent runs tasks: start, signal, stop, look, forget.
//
// Threads: every method may be called from any thread. Calls on a task of a living supervisor are
// one exchange over a unix socket, bounded by kControlTimeout; Start and Query of a lost task take
// longer, see there.
//
// Invariants:
// 1. Everything is on disk: a new Runtime on the same folder knows the tasks of the one before.
// 2. A status says `released` only if no process of the task is left on this node.
// 3. A task that lost its supervisor is killed by the Query that finds out.

#include <string>
#include <vector>

#include "agent/runtime/task_config.h"
#include "agent/runtime/task_status.h"
#include "common/base/result.h"
#include "common/base/time.h"

namespace tide::agent {

inline constexpr Duration kControlTimeout = Duration::Seconds(2);

struct TaskEvent {
  std::string key;
  TaskStatus status;
};

class Runtime {
 public:
  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime() = default;

  // Writes the task's folder and returns once its supervisor answers; the ranks start after that,
  // and whether they did is in the status. The task is watched from here on. Logs of a removed task
  // of that key go.
  // Errors: kInvalidArgument, kAlreadyExists, kSystem when no supervisor could be started (then
  // nothing of the task is left on disk but its logs folder).
  // Cost: about 10 ms, at most 6 s on a machine that is out of breath.
  [[nodiscard]] virtual Status Start(const TaskConfig& config) = 0;

  // To every rank's process group. Errors: kNotFound, kConflict when the task has ended,
  // kUnavailable when the supervisor does not answer.
  [[nodiscard]] virtual Status Signal(const std::string& key, int signal) = 0;

  // SIGTERM to the ranks, SIGKILL to everything after `grace`. No grace: SIGKILL at once.
  // A task that has ended is no error.
  [[nodiscard]] virtual Status Stop(const std::string& key, Duration grace) = 0;
  [[nodiscard]] Status Kill(const std::string& key) { return Stop(key, Duration()); }

  // How the task stands. Watches it from here on, which is how a new Runtime takes up old tasks.
  // For a task whose supervisor is gone without exit.json: kills what is left of it, up to 2 s,
  // and says `lost`; `released` tells whether it worked (ask again if not). A supervisor that is
  // there but silent (stopped, or its disk hangs) costs kControlTimeout twice at most; it is asked
  // again every second, with the answer as an event.
  // Errors: kNotFound.
  [[nodiscard]] virtual Result<TaskStatus> Query(const std::string& key) = 0;

  // Keys of the tasks on disk that were not removed, in order.
  [[nodiscard]] virtual Result<std::vector<std::string>> List() = 0;

  // Forgets a task that has ended. Its logs, exit.json and report.json stay if `keep_logs`. Deletes
  // its run_dir too, if that folder is named like the key.
  // Errors: kNotFound, kConflict while it is not released.
  [[nodiscard]] virtual Status Remove(const std::string& key, bool keep_logs) = 0;

  // Readable (poll, epoll) while TakeEvents has something. The same fd for the life of the Runtime.
  [[nodiscard]] virtual int EventFd() const = 0;

  // The newest status of each watched task that changed. The last event of a task has `finished` or
  // `lost` set; it comes at most a second after the end, whatever was missed, and again every
  // second until the task is removed. Cost: that of one Query where a task lost its supervisor or
  // that is silent; what would take longer is left for the next call, for which EventFd is
  // readable.
  [[nodiscard]] virtual std::vector<TaskEvent> TakeEvents() = 0;
};

}  // namespace tide::agent
