#pragma once
// Reads what a node shows of its hardware in a process of its own, which a hung driver may take
// along: it is killed and started anew, and the agent waits for nothing.
//
// Threads: one.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "agent/health/hardware_lines.h"
#include "common/base/file.h"
#include "common/base/result.h"
#include "common/base/time.h"

namespace tide::health {

struct ObserverOptions {
  std::string program;  // tide-observer
  std::string sysfs_root = "/sys";
  std::string proc_root = "/proc";
  std::string nvml = kNvmlLibrary;
  bool ports = true;
  bool gpus = false;
  Duration interval = Duration::Seconds(1);
  Duration silence_max = Duration::Seconds(10);  // after which it counts as hung
  Duration restart_after = Duration::Seconds(5);
};

class Observer {
 public:
  explicit Observer(ObserverOptions options) : options_(std::move(options)) {}
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  ~Observer();

  // Starts the process where there is none, and kills one that is silent. To be called now and
  // then, at least once a second. Returns what happened that somebody should know; "" = nothing.
  //   now_ns: of the monotonic clock.
  [[nodiscard]] std::string Tend(int64_t now_ns);
  // Readable when Read has something to do; -1 while no process runs.
  [[nodiscard]] int fd() const { return output_.get(); }
  // Returns the newest sample that came, if one came. Never blocks.
  //   Errors: kCorrupt; the process is then started anew.
  [[nodiscard]] Result<std::optional<HardwareSample>> Read(int64_t now_ns);
  // Ends the process, so that nothing of it is open any more: at most a second, unless it hangs in
  // the kernel. Tend starts another one.
  void End(int64_t now_ns);
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  [[nodiscard]] std::vector<std::string> Command() const;
  [[nodiscard]] Status Start(int64_t now_ns);
  void Drop(int64_t now_ns);
  void Reap();

  const ObserverOptions options_;
  pid_t pid_ = -1;
  Fd input_;   // its end of life: closed with this
  Fd output_;  // its lines
  std::string text_;
  int64_t heard_ns_ = 0;
  int64_t start_ns_ = 0;           // no process is started before
  std::vector<pid_t> not_reaped_;  // killed; what hangs in the kernel stays
};

}  // namespace tide::health
