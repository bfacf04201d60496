// Making the daemon: `tide-init supervise` forks twice and answers for the start only.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "agent/init/supervisor.h"
#include "agent/init/supervisor_loop.h"
#include "agent/runtime/task_folder.h"
#include "common/base/file.h"

namespace tide::agent {
namespace {

constexpr std::string_view kReady = "ready";

Status RedirectStandard() {
  const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Fd log(::open("supervisor.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!null.valid() || !log.valid() || ::dup2(null.get(), 0) < 0 || ::dup2(log.get(), 1) < 0 ||
      ::dup2(log.get(), 2) < 0) {
    return FailErrno("cannot open supervisor.log", errno);
  }
  return {};
}

[[noreturn]] void RunDaemon(const std::string& folder, Fd ready) {
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  ::umask(022);
  ::prctl(PR_SET_NAME, kSupervisorName);
  Result<std::unique_ptr<SupervisorLoop>> loop = SupervisorLoop::Create(folder);
  Status status;
  if (!loop) {
    status = std::unexpected(loop.error());
  } else {
    status = RedirectStandard();
  }
  if (!status) {
    static_cast<void>(WriteAll(ready.get(), status.error().message));
    ::_exit(1);
  }
  static_cast<void>(WriteAll(ready.get(), kReady));
  ready.Close();
  (*loop)->Run();
  ::_exit(0);
}

}  // namespace

int RunSupervisor(const std::string& folder) {
  // Nothing of the agent's may stay open in a process that outlives it.
  ::close_range(3, ~0U, 0);
  std::array<int, 2> ends{-1, -1};
  if (::chdir(folder.c_str()) != 0 || ::pipe2(ends.data(), O_CLOEXEC) != 0) {
    std::fprintf(
        stderr, "%s\n", FailErrno("cannot enter " + folder, errno).error().message.c_str());
    return 1;
  }
  const Fd answer(ends[0]);
  Fd ready(ends[1]);
  const pid_t first = ::fork();
  if (first == 0) {
    ::setsid();
    const pid_t second = ::fork();
    if (second == 0) {
      RunDaemon(folder, std::move(ready));
    }
    ::_exit(second < 0 ? 1 : 0);
  }
  ready.Close();
  if (first > 0) {
    ::waitpid(first, nullptr, 0);
  }
  std::string text;
  std::array<char, 512> part{};
  for (ssize_t n = 1; n > 0 && text.size() < 4096 && text != kReady;) {
    n = ::read(answer.get(), part.data(), part.size());
    text.append(part.data(), n > 0 ? static_cast<size_t>(n) : 0);
  }
  if (text == kReady) {
    return 0;
  }
  std::fprintf(stderr, "%s\n", text.empty() ? "the supervisor did not start" : text.c_str());
  return 1;
}

}  // namespace tide::agent
