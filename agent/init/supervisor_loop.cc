#include "agent/init/supervisor_loop.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "agent/init/millis.h"
#include "agent/init/supervisor.h"
#include "agent/runtime/cgroup.h"
#include "agent/runtime/processes.h"
#include "agent/runtime/task_folder.h"
#include "common/base/time.h"

namespace tide::agent {
namespace {

// How much later than tide-init should have, this process kills by itself.
constexpr int64_t kBeltMillis = 2000;
constexpr int64_t kShutdownGraceMillis = 10'000;
constexpr size_t kMaxMessageText = 8192;

std::string HowItEnded(int wait_status) {
  return WIFSIGNALED(wait_status) ? "signal " + std::to_string(WTERMSIG(wait_status))
                                  : "code " + std::to_string(WEXITSTATUS(wait_status));
}

// The part of runc's log line that a user can read.
std::string LastMessage(const std::string& text) {
  std::string line = text.substr(0, text.find_last_not_of('\n') + 1);
  line = line.substr(line.rfind('\n') + 1);
  const size_t begin = line.find("msg=\"");
  const size_t end = line.rfind('"');
  if (begin == std::string::npos || end <= begin + 5) {
    return line;
  }
  std::string message;
  for (const char c : line.substr(begin + 5, end - begin - 5)) {
    if (c != '\\') {
      message += c;
    }
  }
  return message;
}

// This process was started with the tag of its task, which tide-init keeps: who looks for what is
// left of the task must not find its supervisor, which is known by its file.
void ForgetTag() {
  if (char* const tag = ::getenv(kTagVariable); tag != nullptr) {
    std::memset(tag, 0, std::strlen(tag));
  }
}

}  // namespace

SupervisorLoop::SupervisorLoop(TaskConfig config)
    : config_(std::move(config)),
      cgroup_(TaskCgroup(config_.key, config_.folder)),
      savers_(config_.run_dir, config_.ranks.size()),
      contact_{.heard_ns = BootNanos()} {
  for (const RankConfig& rank : config_.ranks) {
    status_.ranks.push_back({.rank = rank.rank, .local_rank = rank.local_rank});
  }
}

Result<std::unique_ptr<SupervisorLoop>> SupervisorLoop::Create(const std::string& folder) {
  TIDE_ASSIGN(TaskConfig config, ReadTaskConfig(folder));
  TIDE_ASSIGN(ProcessIdentity identity, OwnIdentity());
  if (config.runtime == RuntimeKind::kOci) {
    identity.container = TaskTag(config.key, config.folder);
  }
  std::unique_ptr<SupervisorLoop> loop(new SupervisorLoop(std::move(config)));
  TIDE_TRY(loop->control_.Listen());
  TIDE_TRY(ReplaceFile(kSupervisorFile, IdentityToJson(identity)));
  if (::access(kAbandonedFile, F_OK) == 0) {
    return Fail(ErrorCode::kConflict, "the agent has given this task up");
  }
  return loop;
}

void SupervisorLoop::Run() {
  sigset_t handled{};
  ::sigemptyset(&handled);
  ::sigaddset(&handled, SIGCHLD);
  ::sigaddset(&handled, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &handled, nullptr);
  signals_ = Fd(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  CheckContact();  // its order may have waited while this machine stood still
  if (!status_.cut_off) {
    if (const Status launched = Launch(); !launched) {
      SetError(launched.error().message);
    }
  }
  ForgetTag();
  while (!done_) {
    ReapChildren();
    ReadReports();
    ReadMessages();
    if (logs_) {
      logs_->Pump();
    }
    control_.Serve([this](const ControlRequest& request) { return Handle(request); });
    CheckContact();
    Enforce();
    Release();
    Publish();
    NoteStatus();
    if (!done_) {
      Wait();
    }
  }
  Finish();
}

Status SupervisorLoop::Launch() {
  std::vector<uint32_t> ranks;
  for (const RankConfig& rank : config_.ranks) {
    ranks.push_back(rank.rank);
  }
  TIDE_ASSIGN(std::unique_ptr<LogWriter> writer,
              LogWriter::Open(kLogsFolder, ranks, config_.log_bytes));
  TIDE_ASSIGN(agent::Launch launch, LaunchTask(config_));
  (config_.runtime == RuntimeKind::kOci ? runtime_pid_ : init_pid_) = launch.child;
  init_socket_ = std::move(launch.socket);
  messages_ = std::move(launch.messages);
  logs_ = std::make_unique<LogPump>(std::move(writer), std::move(launch.logs));
  return {};
}

void SupervisorLoop::Wait() {
  std::vector<pollfd> fds{
      {signals_.get(), POLLIN, 0}, {init_socket_.get(), POLLIN, 0}, {messages_.get(), POLLIN, 0}};
  control_.AddTo(fds);
  int timeout = logs_ ? logs_->AddTo(fds) : -1;
  // What is stuck is said at looks. While the OCI runtime deletes, its end is what comes next.
  const int64_t look = delete_pid_ != 0 ? kNever : look_at_;
  const int64_t next = std::min(status_due_at_, cleaning_ ? look : std::min(kill_at_, look));
  int64_t left = next == kNever ? kNever : next - MonotonicNanos();
  if (contact_look_at_ != kNever) {
    left = std::min(left, contact_look_at_ - BootNanos());
  }
  if (left != kNever) {
    const int64_t up = (left + kNanosPerMilli - 1) / kNanosPerMilli;
    const int millis = static_cast<int>(std::clamp<int64_t>(up, 0, 60'000));
    timeout = timeout < 0 ? millis : std::min(timeout, millis);
  }
  ::poll(fds.data(), fds.size(), timeout);
}

void SupervisorLoop::ReapChildren() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo == SIGTERM) {
      Stop(kShutdownGraceMillis);  // the machine goes down
    }
  }
  int wait_status = 0;
  for (pid_t pid = ::waitpid(-1, &wait_status, WNOHANG); pid > 0;
       pid = ::waitpid(-1, &wait_status, WNOHANG)) {
    NoteDeath(pid, wait_status);
  }
  NoteAdoption();
}

void SupervisorLoop::NoteDeath(pid_t pid, int wait_status) {
  if (pid == runtime_pid_) {
    NoteRuntimeEnd(wait_status);
  } else if (pid == init_pid_) {
    NoteInitEnd(wait_status);
  } else if (pid == delete_pid_) {
    delete_pid_ = 0;
  } else if (runtime_pid_ != 0) {
    early_deaths_.emplace_back(pid, wait_status);
  }
}

void SupervisorLoop::NoteRuntimeEnd(int wait_status) {
  runtime_pid_ = 0;
  if (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != 0) {
    ReadMessages();
    const std::string reason = LastMessage(message_text_);
    SetError("cannot create the container: " +
             (reason.empty() ? config_.runtime_path + " ended with " + HowItEnded(wait_status)
                             : reason));
    return;
  }
  // Its stderr was the runtime's until now; what follows is tide-init's.
  message_text_.clear();
  init_pid_ = ContainerPid();
  for (const auto& [pid, early_status] : std::exchange(early_deaths_, {})) {
    if (pid == init_pid_) {
      NoteInitEnd(early_status);
      return;
    }
  }
  adoption_due_ = true;
}

// crun creates the container by a child of its own, which may live a moment longer than crun: told
// before it is over, tide-init would die with that one. Its end is a death that is seen here.
void SupervisorLoop::NoteAdoption() {
  if (!adoption_due_ || init_pid_ == 0) {
    return;
  }
  const auto init = ReadProcess(init_pid_);
  if (init && init->parent == ::getpid()) {
    adoption_due_ = false;
    Order(InitOrder::Kind::kAdopted, 0);
  }
}

void SupervisorLoop::NoteInitEnd(int wait_status) {
  init_pid_ = 0;
  ReadReports();
  ReadMessages();
  if (std::ranges::all_of(status_.ranks, &RankStatus::exited)) {
    return;
  }
  const bool oom = TakeOomKill();
  NoteUnreportedRanks(oom);
  if (kill_at_ == kNever || oom) {
    SetError(oom ? "the first process of the task was killed: out of memory"
                 : "tide-init ended unexpectedly with " + HowItEnded(wait_status) + ": " +
                       LastMessage(message_text_));
  }
}

// PID 1 takes all others with it, so what was started and not reported was killed.
void SupervisorLoop::NoteUnreportedRanks(bool oom) {
  for (RankStatus& rank : status_.ranks) {
    if (!rank.exited && rank.pid != 0) {
      rank.exited = true;
      rank.signal = SIGKILL;
      rank.oom = oom;
    }
  }
}

void SupervisorLoop::ReadReports() {
  while (init_socket_.valid()) {
    const Packet packet = ReceivePacket(init_socket_.get());
    if (packet.state == Packet::State::kNone) {
      return;
    }
    if (packet.state == Packet::State::kClosed) {
      init_socket_.Close();
      return;
    }
    const std::optional<InitReport> report = ParseReport(packet.text);
    if (report && report->index < status_.ranks.size()) {
      Apply(*report, packet.sender);
    }
  }
}

void SupervisorLoop::Apply(const InitReport& report, int32_t sender) {
  switch (report.kind) {
    case InitReport::Kind::kStarted:
      status_.ranks[report.index].pid = sender;
      status_.started =
          std::ranges::all_of(status_.ranks, [](const RankStatus& r) { return r.pid != 0; });
      return;
    case InitReport::Kind::kExited:
      NoteRankExit(report);
      return;
    case InitReport::Kind::kError:
      SetError("rank " + std::to_string(status_.ranks[report.index].rank) + ": " + report.text);
      return;
  }
}

void SupervisorLoop::NoteRankExit(const InitReport& report) {
  RankStatus& rank = status_.ranks[report.index];
  rank.exited = true;
  rank.code = report.code;
  rank.signal = report.signal;
  rank.core = report.core;
  if (rank.failed()) {
    rank.oom = TakeOomKill();
    KillWithin(config_.failure_grace_ms + config_.term_grace_ms + kBeltMillis);
  }
  if (std::ranges::all_of(status_.ranks, &RankStatus::exited)) {
    KillWithin(kBeltMillis);
  }
}

void SupervisorLoop::ReadMessages() {
  std::array<char, 4096> part{};
  while (messages_.valid()) {
    const ssize_t n = ::read(messages_.get(), part.data(), part.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    }
    if (n <= 0) {
      messages_.Close();
      return;
    }
    message_text_.append(part.data(), static_cast<size_t>(n));
    if (message_text_.size() > kMaxMessageText) {
      message_text_.erase(0, message_text_.size() - kMaxMessageText);
    }
  }
}

bool SupervisorLoop::TakeOomKill() {
  if (config_.runtime != RuntimeKind::kOci) {
    return false;
  }
  const uint64_t kills = CgroupOomKills(cgroup_).value_or(oom_seen_);
  return std::exchange(oom_seen_, kills) < kills;
}

std::string SupervisorLoop::Handle(const ControlRequest& request) {
  switch (request.op) {
    case ControlRequest::Op::kStatus:
    case ControlRequest::Op::kWatch:
      break;
    case ControlRequest::Op::kSignal:
      Order(InitOrder::Kind::kSignal, request.value);
      break;
    case ControlRequest::Op::kStop:
      Stop(request.value);
      break;
    case ControlRequest::Op::kKill:
      Order(InitOrder::Kind::kKill, 0);
      KillWithin(kBeltMillis);
      break;
  }
  return TaskStatusToJson(status_);
}

void SupervisorLoop::Order(InitOrder::Kind kind, int64_t value) {
  if (kind == InitOrder::Kind::kStop || kind == InitOrder::Kind::kKill) {
    savers_.End();
  }
  if (init_socket_.valid()) {
    SendOrder(init_socket_.get(), {.kind = kind, .value = value});
  }
}

void SupervisorLoop::Stop(int64_t grace_ms) {
  Order(InitOrder::Kind::kStop, grace_ms);
  KillWithin(grace_ms + kBeltMillis);
}

void SupervisorLoop::KillWithin(int64_t millis) {
  const int64_t at = After(millis);
  if (!cleaning_ && at < kill_at_) {  // else what remains is being killed already
    kill_at_ = at;
    stuck_at_ = at + config_.stuck_ms * kNanosPerMilli;
  }
}

void SupervisorLoop::SetError(const std::string& text) {
  OpenErrorLog();
  std::fprintf(stderr, "%s\n", text.c_str());
  // The first error is the cause, the others follow from it.
  if (start_error_.empty()) {
    start_error_ = text;
    status_.error = text;
  }
}

}  // namespace tide::agent
