#include "agent/images/program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "common/base/time.h"

namespace tide::agent {
namespace {

constexpr int64_t kLookNanos = 1'000'000'000;
constexpr size_t kErrorsMax = 16U << 10U;

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Takes what is there, keeps at most the last `most` of it; closes the pipe at its end.
void Drain(Fd& pipe, std::string& text, size_t most) {
  std::array<char, 4096> part{};
  while (pipe.valid()) {
    const ssize_t n = ::read(pipe.get(), part.data(), part.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0 && errno == EAGAIN) {
      return;
    }
    if (n <= 0) {
      pipe.Close();
      return;
    }
    text.append(part.data(), static_cast<size_t>(n));
    if (text.size() > 2 * most) {
      text.erase(0, text.size() - most);
    }
  }
}

// The process group of a program: nothing of it is left when this is gone.
class Group {
 public:
  explicit Group(pid_t leader) : leader_(leader) {}
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    if (leader_ > 0) {
      Kill();
      (void)Wait();
    }
  }
  void Kill() const { ::kill(-leader_, SIGKILL); }
  int Wait() {
    int status = 0;
    while (::waitpid(leader_, &status, 0) < 0 && errno == EINTR) {
    }
    leader_ = 0;
    return status;
  }

 private:
  pid_t leader_;
};

}  // namespace

Result<ProgramResult> RunProgram(const Program& command, const Fd& call_off) {
  TIDE_ASSIGN(Pipe output, MakePipe());
  TIDE_ASSIGN(Pipe errors, MakePipe());
  for (const Fd* end : {&output.read_end, &errors.read_end}) {
    ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  }
  const std::vector<char*> argv = Pointers(command.argv);
  const std::vector<char*> envp = Pointers(command.environment);
  const pid_t pid = ::fork();
  if (pid < 0) {
    return FailErrno("cannot create a process", errno);
  }
  if (pid == 0) {  // other threads' locks are not to be touched from here on
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setpgid(0, 0);
    sigset_t none{};
    ::sigemptyset(&none);
    ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(nothing, 0);
    ::dup2(output.write_end.get(), 1);
    ::dup2(errors.write_end.get(), 2);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  ::setpgid(pid, pid);  // whoever comes first
  Group group(pid);
  output.write_end.Close();
  errors.write_end.Close();
  // By number: this C library's header does not declare pidfd_open for C++.
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.valid()) {
    return FailErrno("cannot watch " + command.argv.front(), errno);
  }
  ProgramResult result;
  int64_t next_look = MonotonicNanos() + kLookNanos;  // also while it writes on and on
  bool ended = false;
  while (!ended && !result.called_off && !result.given_up &&
         result.output.size() <= command.output_max) {
    std::array<pollfd, 4> waiting{{{process.get(), POLLIN, 0},
                                   {output.read_end.get(), POLLIN, 0},  // ignored when closed
                                   {errors.read_end.get(), POLLIN, 0},
                                   {call_off.get(), POLLIN, 0}}};
    const int64_t left_ms = (next_look - MonotonicNanos()) / 1'000'000 + 1;
    const int ready =
        ::poll(waiting.data(),
               waiting.size(),
               command.each_second ? static_cast<int>(std::max<int64_t>(0, left_ms)) : -1);
    if (ready < 0) {
      continue;  // interrupted
    }
    if (command.each_second && MonotonicNanos() >= next_look) {
      result.given_up = !command.each_second();
      next_look = MonotonicNanos() + kLookNanos;
    }
    Drain(output.read_end, result.output, command.output_max + 1);
    Drain(errors.read_end, result.errors, kErrorsMax);
    ended = waiting[0].revents != 0;
    result.called_off = !ended && waiting[3].revents != 0;
  }
  if (result.output.size() > command.output_max) {
    return Fail(ErrorCode::kExhausted, command.argv.front() + " wrote too much");
  }
  group.Kill();  // and what it may have left behind
  result.status = group.Wait();
  if (!result.called_off && !result.given_up && WIFEXITED(result.status) &&
      WEXITSTATUS(result.status) == 127) {
    return Fail(ErrorCode::kSystem,
                command.argv.front() + " cannot be run: is it installed on this node?");
  }
  return result;
}

}  // namespace tide::agent
