#include "agent/init/init.h"

#include <fcntl.h>
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
#include <limits>
#include <utility>
#include <vector>

#include "agent/init/messages.h"
#include "agent/init/millis.h"
#include "agent/init/rank_process.h"
#include "agent/init/saver_wait.h"
#include "agent/runtime/processes.h"
#include "agent/runtime/task_config.h"
#include "agent/runtime/task_status.h"
#include "common/base/file.h"
#include "common/base/time.h"

namespace tide::agent {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// How often leftovers are looked for again while they die: soon at first, then less often.
constexpr int64_t kFirstSweepMillis = 5;
constexpr int64_t kLastSweepMillis = 500;
constexpr int64_t kSaverLookMillis = 20;

// Sent to tide-init by the kernel when its supervisor dies and it is not PID 1.
int SupervisorDiedSignal() {
  return SIGRTMIN;
}

class Init {
 public:
  explicit Init(TaskConfig config)
      : config_(std::move(config)),
        is_pid_one_(::getpid() == 1),
        savers_(is_pid_one_ ? kRunDirInContainer : config_.run_dir, config_.ranks.size()) {}

  int Run() {
    Prepare();
    StartRanks();
    while (Reap()) {
      Wait();
      HandleSignals();
      HandleOrders();
      CheckDeadlines();
    }
    return 0;
  }

 private:
  struct Rank {
    pid_t pid = 0;
    bool running = false;
  };

  void Prepare() {
    if (is_pid_one_) {
      // A rank runs as the same user: it must not read this process or take its descriptors.
      ::prctl(PR_SET_DUMPABLE, 0);
    } else {
      // Readable here: an agent that is not root finds this process by its environment.
      ::prctl(PR_SET_CHILD_SUBREAPER, 1);
      ::prctl(PR_SET_PDEATHSIG, SupervisorDiedSignal());
    }
    sigset_t all{};
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    signals_ = Fd(::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
    const int last = kFirstLogFd + 2 * static_cast<int>(config_.ranks.size());
    for (int fd = kConfigFd; fd < last; ++fd) {
      ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
  }

  void StartRanks() {
    const bool drop_user = config_.runtime == RuntimeKind::kProcess && ::geteuid() == 0;
    ranks_.resize(config_.ranks.size());
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const pid_t pid = StartRank(config_, i, drop_user);
      if (pid > 0) {
        ranks_[i] = {.pid = pid, .running = true};
        continue;
      }
      const std::string text = FailErrno("cannot create a process", -pid).error().message;
      Report({.kind = InitReport::Kind::kError, .index = static_cast<uint32_t>(i), .text = text});
      Report({.kind = InitReport::Kind::kExited,
              .index = static_cast<uint32_t>(i),
              .code = kCannotStartCode,
              .text = ""});
      NoteFailure();
    }
    // Only the ranks write to their logs, so that an end of file means that they are gone.
    for (size_t i = 0; i < 2 * ranks_.size(); ++i) {
      ::close(kFirstLogFd + static_cast<int>(i));
    }
  }

  // Collects the dead. False when no child is left: then this process may end.
  bool Reap() {
    while (true) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid < 0) {
        return errno != ECHILD;
      }
      if (pid == 0) {
        break;
      }
      NoteExit(pid, status);
    }
    if (!AnyRankRuns()) {
      // What the ranks have staged is worth waiting for: the next start resumes from it.
      if (savers_.IsOn()) {
        sweep_at_ = After(kSaverLookMillis);
        return true;
      }
      KillAll();
      sweep_at_ = NextSweep();
    }
    return true;
  }

  void NoteExit(pid_t pid, int status) {
    const auto rank = std::ranges::find(ranks_, pid, &Rank::pid);
    if (rank == ranks_.end() || !rank->running) {
      return;
    }
    rank->running = false;
    InitReport report{.kind = InitReport::Kind::kExited,
                      .index = static_cast<uint32_t>(rank - ranks_.begin()),
                      .text = ""};
    if (WIFSIGNALED(status)) {
      report.signal = WTERMSIG(status);
      report.core = WCOREDUMP(status);
    } else {
      report.code = WEXITSTATUS(status);
    }
    Report(report);
    if (report.signal != 0 || (report.code != 0 && report.code != kSuspendedExitCode)) {
      NoteFailure();
    }
  }

  void NoteFailure() {
    // The others get a grace first, so that their own errors are seen in their logs.
    if (term_at_ == kNever && kill_at_ == kNever) {
      term_at_ = After(config_.failure_grace_ms);
      term_grace_ms_ = config_.term_grace_ms;
    }
  }

  void Wait() {
    const int64_t next = std::min({term_at_, kill_at_, sweep_at_});
    int timeout = -1;
    if (next != kNever) {
      const int64_t left = (next - MonotonicNanos() + kNanosPerMilli - 1) / kNanosPerMilli;
      timeout = static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
    }
    sweep_at_ = kNever;
    std::array<pollfd, 2> fds{pollfd{signals_.get(), POLLIN, 0},
                              pollfd{connected_ ? kSocketFd : -1, POLLIN, 0}};
    ::poll(fds.data(), fds.size(), timeout);
  }

  void HandleSignals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SupervisorDiedSignal()) {
        LoseSupervisor();
      } else if (signal == SIGTERM) {
        savers_.End();
        Stop(config_.term_grace_ms);
      } else if (signal != SIGCHLD && signal != SIGPIPE) {
        SignalRanks(signal);
      }
    }
  }

  void HandleOrders() {
    while (connected_) {
      const Packet packet = ReceivePacket(kSocketFd);
      if (packet.state == Packet::State::kNone) {
        return;
      }
      if (packet.state == Packet::State::kClosed) {
        LoseSupervisor();
        return;
      }
      if (const auto order = ParseOrder(packet.text); order) {
        Obey(*order);
      }
    }
  }

  void Obey(const InitOrder& order) {
    switch (order.kind) {
      case InitOrder::Kind::kSignal:
        SignalRanks(static_cast<int>(order.value));
        return;
      case InitOrder::Kind::kStop:
        savers_.End();
        Stop(order.value);
        return;
      case InitOrder::Kind::kKill:
        savers_.End();
        KillNow();
        return;
      case InitOrder::Kind::kAdopted:
        if (is_pid_one_) {
          // The end of PID 1 ends its whole namespace, so nothing more is needed.
          ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        }
        return;
    }
  }

  void LoseSupervisor() {
    connected_ = false;
    savers_.End();
    KillNow();
  }

  void Stop(int64_t grace_ms) {
    SignalRanks(SIGTERM);
    term_at_ = kNever;
    kill_at_ = std::min(kill_at_, After(grace_ms));
  }

  void KillNow() {
    term_at_ = kNever;
    kill_at_ = MonotonicNanos();
  }

  void CheckDeadlines() {
    const int64_t now = MonotonicNanos();
    if (now >= term_at_) {
      Stop(term_grace_ms_);
    }
    if (now >= kill_at_) {
      if (savers_.IsOn()) {
        SignalRanks(SIGKILL);
      } else {
        KillAll();
      }
      // Again until nothing is left: a process may fork between the look and the kill.
      kill_at_ = NextSweep();
    }
  }

  int64_t NextSweep() {
    sweep_millis_ = std::min(2 * sweep_millis_, kLastSweepMillis);
    return After(sweep_millis_);
  }

  void SignalRanks(int signal) {
    for (const Rank& rank : ranks_) {
      // Its group exists only after its setsid; until then it is in ours.
      if (rank.running && ::kill(-rank.pid, signal) != 0) {
        ::kill(rank.pid, signal);
      }
    }
  }

  void KillAll() {
    if (is_pid_one_) {
      ::kill(-1, SIGKILL);
      return;
    }
    for (const int32_t pid : DescendantsOf(::getpid())) {
      ::kill(pid, SIGKILL);
    }
  }

  void Report(const InitReport& report) {
    if (connected_) {
      SendReport(kSocketFd, report);
    }
  }

  [[nodiscard]] bool AnyRankRuns() const { return std::ranges::any_of(ranks_, &Rank::running); }

  TaskConfig config_;
  bool is_pid_one_;
  bool connected_ = true;
  Fd signals_;
  std::vector<Rank> ranks_;
  int64_t term_at_ = kNever;
  int64_t term_grace_ms_ = 0;
  int64_t kill_at_ = kNever;
  int64_t sweep_at_ = kNever;
  int64_t sweep_millis_ = kFirstSweepMillis;
  SaverWait savers_;
};

Result<TaskConfig> ReadConfig() {
  std::string text;
  std::array<char, 65536> part{};
  for (ssize_t size = 1; size > 0;) {
    size = ::pread(kConfigFd, part.data(), part.size(), static_cast<off_t>(text.size()));
    if (size < 0) {
      return FailErrno("`tide-init run` is started by a supervisor only", errno);
    }
    text.append(part.data(), static_cast<size_t>(size));
  }
  return TaskConfigFromJson(text);
}

}  // namespace

int RunInit() {
  Result<TaskConfig> config = ReadConfig();
  if (!config) {
    std::fprintf(stderr, "tide-init: %s\n", config.error().message.c_str());
    return 2;
  }
  return RunInit(*std::move(config));
}

int RunInit(TaskConfig config) {
  return Init(std::move(config)).Run();
}

}  // namespace tide::agent
