#include "agent/init/attendant.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

#include "agent/init/messages.h"
#include "agent/init/millis.h"
#include "agent/init/rank_process.h"
#include "agent/runtime/exec_config.h"
#include "agent/runtime/processes.h"
#include "agent/runtime/task_folder.h"
#include "common/base/file.h"
#include "common/base/time.h"

namespace tide::agent {
namespace {

constexpr int64_t kNotYet = std::numeric_limits<int64_t>::max();
// From the hang-up to SIGKILL: time for a shell to write its history.
constexpr int64_t kHangUpGraceMillis = 500;
constexpr int64_t kFirstLookMillis = 2;
constexpr int64_t kLastLookMillis = 200;
// Kernels before 5.3 cannot tell of the supervisor's end.
constexpr int kWatchMillis = 200;

class Attendant {
 public:
  explicit Attendant(ExecConfig config) : config_(std::move(config)) {}

  int Run() {
    Prepare();
    if (const Status started = Start(); !started) {
      Report({.kind = ExecReport::Kind::kCannotStart, .text = started.error().message});
      return 0;
    }
    Report({.kind = ExecReport::Kind::kStarted, .text = ""});
    while (Reap()) {
      Wait();
      TakeSignals();
      TakeOrders();
      WatchSupervisor();
      Enforce();
    }
    Report({.kind = ExecReport::Kind::kEnded, .code = code_, .signal = signal_, .text = ""});
    return 0;
  }

 private:
  [[nodiscard]] bool in_container() const { return config_.supervisor_pid == 0; }

  void Prepare() {
    if (in_container()) {
      // A rank runs as the same user: it must not read this process or take its descriptors.
      ::prctl(PR_SET_DUMPABLE, 0);
    } else {
      supervisor_ = Fd(static_cast<int>(::syscall(SYS_pidfd_open, config_.supervisor_pid, 0)));
    }
    // Whatever the command starts comes here when its parent ends, and is found.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t all{};
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    signals_ = Fd(::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
    for (int fd = kExecConfigFd; fd < kExecConfigFd + kExecFds; ++fd) {
      ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
  }

  Status Start() {
    if (!in_container() && !SupervisorLives()) {
      return Fail(ErrorCode::kConflict, "the task ended meanwhile");
    }
    TIDE_ASSIGN(Pipe complaint, MakePipe());
    const pid_t self = ::getpid();
    command_ = ::fork();
    if (command_ < 0) {
      return FailErrno("cannot create a process", errno);
    }
    if (command_ == 0) {
      Become(self, complaint.write_end.get());
    }
    complaint.write_end.Close();
    // Only the command has them now: their end is the end of its output.
    for (const int fd : {kExecInputFd, kExecOutputFd, kExecErrorsFd}) {
      ::close(fd);
    }
    std::array<char, 512> text{};
    const ssize_t size = ::read(complaint.read_end.get(), text.data(), text.size());
    if (size > 0) {
      return Fail(ErrorCode::kInvalidArgument, std::string(text.data(), static_cast<size_t>(size)));
    }
    return {};
  }

  // In the child; ends in the command.
  [[noreturn]] void Become(pid_t attendant, int complaint) {
    const auto give_up = [complaint](const std::string& what, int error) {
      static_cast<void>(WriteAll(complaint, FailErrno(what, error).error().message));
      ::_exit(kCannotStartCode);
    };
    ::setsid();
    ResetSignals();
    ::umask(022);
    if (config_.terminal && ::ioctl(kExecInputFd, TIOCSCTTY, 0) != 0) {
      give_up("cannot take the terminal", errno);
    }
    if (::dup2(kExecInputFd, 0) < 0 || ::dup2(kExecOutputFd, 1) < 0 ||
        ::dup2(kExecErrorsFd, 2) < 0) {
      give_up("cannot set up input and output", errno);
    }
    if (config_.drop_user && !BecomeUser(config_.uid, config_.gid)) {
      give_up("cannot become user " + std::to_string(config_.uid), errno);
    }
    // After the change of user, which clears it.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != attendant) {
      ::_exit(kCannotStartCode);
    }
    if (::chdir(config_.workdir.c_str()) != 0) {
      give_up("cannot enter the work folder " + config_.workdir, errno);
    }
    SetEnvironment(config_.env, config_.tag);
    for (const std::vector<std::string>& words : config_.commands) {
      std::vector<char*> argv;
      for (const std::string& word : words) {
        argv.push_back(const_cast<char*>(word.c_str()));
      }
      argv.push_back(nullptr);
      ::execvp(argv[0], argv.data());
      if (errno != ENOENT) {
        break;
      }
    }
    give_up("cannot run " + config_.commands.back().front(), errno);
    ::_exit(kCannotStartCode);
  }

  // Collects the dead. False when none is left of what the command started.
  bool Reap() {
    while (true) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid < 0) {
        return errno != ECHILD;
      }
      if (pid == 0) {
        return true;
      }
      if (pid == command_) {
        command_ = 0;
        code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
        signal_ = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        kill_at_ = MonotonicNanos();
        Enforce();
      }
    }
  }

  void Wait() {
    int timeout = in_container() || supervisor_.valid() ? -1 : kWatchMillis;
    if (kill_at_ != kNotYet) {
      const int64_t left = (kill_at_ - MonotonicNanos() + kNanosPerMilli - 1) / kNanosPerMilli;
      timeout = static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
    }
    std::array<pollfd, 3> fds{pollfd{signals_.get(), POLLIN, 0},
                              pollfd{hung_up_ ? -1 : kExecLeashFd, POLLIN, 0},
                              pollfd{supervisor_.get(), POLLIN, 0}};
    ::poll(fds.data(), fds.size(), timeout);
  }

  void TakeSignals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      if (info.ssi_signo == SIGTERM) {
        HangUp();
      }
    }
  }

  void TakeOrders() {
    while (!hung_up_) {
      const Packet packet = ReceivePacket(kExecLeashFd);
      if (packet.state == Packet::State::kNone) {
        return;
      }
      if (packet.state == Packet::State::kClosed) {
        HangUp();
      } else if (const auto signal = ExecSignalFromText(packet.text); signal && command_ > 0) {
        ::kill(-command_, *signal);
      }
    }
  }

  void HangUp() {
    hung_up_ = true;
    if (command_ > 0) {
      ::kill(-command_, SIGHUP);
      ::kill(-command_, SIGCONT);
    }
    kill_at_ = std::min(kill_at_, After(kHangUpGraceMillis));
  }

  [[nodiscard]] bool SupervisorLives() const {
    const auto process = ReadProcess(config_.supervisor_pid);
    return process && !process->dead() && process->start_ticks == config_.supervisor_start_ticks;
  }

  void WatchSupervisor() {
    if (!in_container() && kill_at_ == kNotYet && !SupervisorLives()) {
      supervisor_.Close();
      kill_at_ = MonotonicNanos();
    }
  }

  void Enforce() {
    if (MonotonicNanos() < kill_at_) {
      return;
    }
    for (const int32_t pid : DescendantsOf(::getpid())) {
      ::kill(pid, SIGKILL);
    }
    // Again until nothing is left: a process may fork between the look and the kill.
    look_millis_ = std::min(2 * look_millis_, kLastLookMillis);
    kill_at_ = After(look_millis_);
  }

  static void Report(const ExecReport& report) {
    const std::string text = ExecReportToText(report);
    ::send(kExecLeashFd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  const ExecConfig config_;
  Fd signals_;
  Fd supervisor_;
  pid_t command_ = 0;
  int32_t code_ = 0;
  int32_t signal_ = 0;
  bool hung_up_ = false;
  int64_t kill_at_ = kNotYet;
  int64_t look_millis_ = kFirstLookMillis;
};

Result<ExecConfig> ReadExecConfig() {
  std::string text;
  std::array<char, 65536> part{};
  for (ssize_t size = 1; size > 0;) {
    size = ::pread(kExecConfigFd, part.data(), part.size(), static_cast<off_t>(text.size()));
    if (size < 0) {
      return FailErrno("`tide-init attend` is started by an agent only", errno);
    }
    text.append(part.data(), static_cast<size_t>(size));
  }
  TIDE_ASSIGN(ExecConfig config, ExecConfigFromJson(text));
  const bool complete =
      !config.commands.empty() &&
      std::ranges::none_of(config.commands, [](const auto& words) { return words.empty(); });
  if (!complete) {
    return Fail(ErrorCode::kCorrupt, "configuration of a command: no command");
  }
  return config;
}

}  // namespace

int RunAttendant() {
  Result<ExecConfig> config = ReadExecConfig();
  if (!config) {
    std::fprintf(stderr, "tide-init: %s\n", config.error().message.c_str());
    return 2;
  }
  return Attendant(*std::move(config)).Run();
}

}  // namespace tide::agent
