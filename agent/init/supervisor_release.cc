// The end of a task: killing what should be gone, proving that it is, and saying so.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "agent/init/millis.h"
#include "agent/init/supervisor.h"
#include "agent/init/supervisor_loop.h"
#include "agent/runtime/cgroup.h"
#include "agent/runtime/processes.h"
#include "agent/runtime/task_folder.h"
#include "common/base/time.h"

namespace tide::agent {
namespace {

constexpr int64_t kSlowLookMillis = 500;
constexpr int64_t kStatusMillis = 500;                 // from a change to status.json
constexpr int64_t kContactLookNanos = 10'000'000'000;  // the timeout may have changed

// task.json is the mark of a task: without it nobody will ever read a verdict. A disk that is full
// or does not answer says something else.
bool IsFolderGone() {
  return ::access(kTaskFile, F_OK) != 0 && errno == ENOENT;
}

// Its own files go with the task's folder, and this process removes cgroup and mounts; only the
// runtime runs the vendor's hooks.
bool NeedsRuntimeToClean(const TaskConfig& config) {
  return config.runtime == RuntimeKind::kOci &&
         std::ranges::any_of(config.hooks,
                             [](const HookConfig& hook) { return hook.stage == "poststop"; });
}

}  // namespace

// The agent renews the lease while the scheduler answers it. It does so itself when it runs out;
// this is for an agent that is dead or hangs: afterwards the scheduler may start the task
// elsewhere.
void SupervisorLoop::CheckContact() {
  const int64_t now = BootNanos();
  if (now < contact_look_at_) {
    return;
  }
  if (config_.contact.empty() || cleaning_) {
    contact_look_at_ = kNever;
    return;
  }
  contact_ = ReadContact(config_.contact, now).value_or(contact_);
  contact_look_at_ = std::min(contact_.ExpiresNs(), now + kContactLookNanos);
  if (contact_.IsCutOff(now)) {
    contact_look_at_ = kNever;
    status_.cut_off = true;
    OpenErrorLog();
    std::fprintf(stderr,
                 "no answer of the scheduler for %lld s%s: ending the task\n",
                 static_cast<long long>((now - contact_.heard_ns) / 1'000'000'000),
                 contact_.witness_ms > 0 ? ", and no witness" : "");
    Order(InitOrder::Kind::kKill, 0);
    KillWithin(0);
  }
}

// tide-init should have ended the task by now; do it without its help.
void SupervisorLoop::Enforce() {
  const int64_t now = MonotonicNanos();
  if (now < kill_at_ || cleaning_) {
    return;
  }
  if (savers_.IsOn()) {
    kill_at_ = now + kSlowLookMillis * kNanosPerMilli;
    return;
  }
  KillRemains();
  kill_at_ = now + kSlowLookMillis * kNanosPerMilli;
  SayStuck();
}

void SupervisorLoop::Release() {
  const bool running = runtime_pid_ != 0 || init_pid_ != 0;
  if (running || delete_pid_ != 0 || (cleaning_ && MonotonicNanos() < look_at_)) {
    return;
  }
  if (!cleaning_) {
    cleaning_ = true;
    ReadReports();
    NoteUnreportedRanks(TakeOomKill());
    look_at_ = After(0);
    kill_at_ = kNever;
    stuck_at_ = std::min(stuck_at_, After(config_.stuck_ms));
    if (NeedsRuntimeToClean(config_) && !CgroupFolders(cgroup_).empty()) {
      delete_pid_ = StartContainerDelete(config_);
      return;
    }
  }
  if (IsReleased()) {
    done_ = true;
    return;
  }
  KillRemains();
  SayStuck();
  look_delay_ms_ = std::min(2 * look_delay_ms_, kSlowLookMillis);
  look_at_ = After(look_delay_ms_);
}

// This process is a subreaper: below one that has no child nothing lives. A cgroup can be removed
// only when nothing is in it.
bool SupervisorLoop::IsReleased() const {
  if (HasChildren()) {
    return false;
  }
  if (config_.runtime == RuntimeKind::kOci) {
    return RemoveCgroup(cgroup_) && UnmountRoot();
  }
  return ::access(kVisitedFile, F_OK) != 0 || Remains().empty();
}

std::vector<int32_t> SupervisorLoop::Remains() const {
  std::vector<int32_t> remains = DescendantsOf(::getpid());
  if (config_.runtime == RuntimeKind::kOci) {
    const std::vector<int32_t> contained = CgroupProcesses(cgroup_);
    remains.insert(remains.end(), contained.begin(), contained.end());
  } else {
    // What people run beside the ranks descends from the agent.
    const std::vector<int32_t> tagged = ProcessesWithTag(TaskTag(config_.key, config_.folder));
    remains.insert(remains.end(), tagged.begin(), tagged.end());
  }
  return remains;
}

void SupervisorLoop::KillRemains() {
  if (config_.runtime == RuntimeKind::kOci) {
    KillCgroup(cgroup_);
  }
  for (const int32_t pid : Remains()) {
    ::kill(pid, SIGKILL);
  }
}

void SupervisorLoop::SayStuck() {
  if (MonotonicNanos() < stuck_at_) {
    return;
  }
  stuck_at_ = After(config_.stuck_ms);
  std::vector<int32_t> remains = Remains();
  // The one that hangs comes first; others wait for it.
  std::ranges::stable_partition(remains, [](int32_t pid) {
    const auto info = ReadProcess(pid);
    return info && info->state == 'D';
  });
  status_.error = remains.empty() ? "a cgroup or mount of the task cannot be removed"
                                  : DescribeProcess(remains.front()) + " does not die";
  // What may still run code keeps the task alive, whatever its job waits for.
  const bool hangs = std::ranges::all_of(remains, [](int32_t pid) {
    const auto info = ReadProcess(pid);
    return !info || info->state == 'D' || info->dead() || info->exiting;
  });
  status_.stuck = hangs ? status_.error : "";
}

void SupervisorLoop::Publish() {
  if (status_ == published_) {
    return;
  }
  published_ = status_;
  control_.Broadcast(TaskStatusToJson(status_));
  if (status_due_at_ == kNever) {
    status_due_at_ = After(kStatusMillis);
  }
}

// For the agent after this one, on a machine that still runs. Most tasks that end at once never
// need it.
void SupervisorLoop::NoteStatus() {
  if (done_ || MonotonicNanos() < status_due_at_) {
    return;
  }
  status_due_at_ = kNever;
  static_cast<void>(ReplaceFile(kStatusFile, TaskStatusToJson(status_)));
}

void SupervisorLoop::Finish() {
  if (logs_) {
    logs_->Finish();
  }
  status_.released = true;
  status_.stuck.clear();
  status_.error = start_error_;
  status_.finished_at = SystemNow().unix_nanos();
  std::string text = TaskStatusToJson(status_);
  Status written = ReplaceFile(kExitFile, text);
  while (!written && !IsFolderGone()) {
    // The agent may make room, and can learn the exits from us meanwhile.
    status_.error = "cannot write exit.json: " + written.error().message;
    Publish();
    std::vector<pollfd> fds;
    control_.AddTo(fds);
    ::poll(fds.data(), fds.size(), static_cast<int>(kSlowLookMillis));
    control_.Serve([this](const ControlRequest&) { return TaskStatusToJson(status_); });
    written = ReplaceFile(kExitFile, text);
  }
  control_.Broadcast(text);
  ::unlink(kControlSocket);
}

}  // namespace tide::agent
