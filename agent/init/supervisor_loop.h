#pragma once
// The supervisor's one thread: takes reports of tide-init, output of the ranks, requests of the
// agent and deaths of children, and drives the task to its proven end.

#include <sys/types.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/init/control_server.h"
#include "agent/init/launcher.h"
#include "agent/init/log_pump.h"
#include "agent/init/messages.h"
#include "agent/init/saver_wait.h"
#include "agent/runtime/contact.h"
#include "agent/runtime/task_config.h"
#include "agent/runtime/task_status.h"
#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::agent {

class SupervisorLoop {
 public:
  // Announces itself: supervisor.json, control.sock. The current folder is `folder`.
  // Errors: kConflict when the agent has given the task up meanwhile.
  [[nodiscard]] static Result<std::unique_ptr<SupervisorLoop>> Create(const std::string& folder);
  // Starts the task, returns after exit.json is written.
  void Run();

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  explicit SupervisorLoop(TaskConfig config);
  Status Launch();

  void Wait();
  void ReapChildren();
  void NoteDeath(pid_t pid, int wait_status);
  void NoteRuntimeEnd(int wait_status);
  void NoteAdoption();
  void NoteInitEnd(int wait_status);
  void NoteUnreportedRanks(bool oom);

  void ReadReports();
  void Apply(const InitReport& report, int32_t sender);
  void NoteRankExit(const InitReport& report);
  void ReadMessages();
  [[nodiscard]] bool TakeOomKill();

  [[nodiscard]] std::string Handle(const ControlRequest& request);
  void Order(InitOrder::Kind kind, int64_t value);
  void Stop(int64_t grace_ms);

  void CheckContact();
  void Enforce();
  void Release();
  void KillRemains();
  [[nodiscard]] std::vector<int32_t> Remains() const;
  [[nodiscard]] bool IsReleased() const;
  void KillWithin(int64_t millis);
  void SayStuck();

  void Publish();
  void NoteStatus();
  void Finish();
  void SetError(const std::string& text);

  TaskConfig config_;
  std::string cgroup_;
  ControlServer control_;
  Fd signals_;
  Fd init_socket_;
  Fd messages_;
  std::unique_ptr<LogPump> logs_;

  pid_t runtime_pid_ = 0;  // the OCI runtime while it creates the container
  pid_t init_pid_ = 0;
  bool adoption_due_ = false;  // tide-init is to be told when this process is its parent
  std::vector<std::pair<pid_t, int>> early_deaths_;  // before the container's pid was known
  pid_t delete_pid_ = 0;
  bool cleaning_ = false;
  bool done_ = false;

  std::string message_text_;
  std::string start_error_;
  uint64_t oom_seen_ = 0;
  int64_t kill_at_ = kNever;   // from here on this process kills by itself, monotonic ns
  int64_t stuck_at_ = kNever;  // and from here on says that it does not work
  int64_t look_at_ = kNever;   // next look at what remains
  int64_t look_delay_ms_ = 5;
  SaverWait savers_;

  Contact contact_;
  int64_t contact_look_at_ = 0;  // BootNanos()

  TaskStatus status_;
  TaskStatus published_;
  int64_t status_due_at_ = kNever;  // when status.json is to be written, monotonic ns
};

}  // namespace tide::agent
