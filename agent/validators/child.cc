#include "agent/validators/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <utility>

namespace tide::validators {
namespace {

constexpr int kReapAfterKillMs = 2000;

// Takes what is in the pipe; closes it at its end.
void Drain(Fd& output, ChildResult& result) {
  std::array<char, 4096> buffer{};
  while (output.valid() && !result.too_much) {
    const ssize_t n = ::read(output.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0 && errno == EAGAIN) {
      return;
    }
    if (n <= 0) {
      output.Close();
      return;
    }
    result.output.append(buffer.data(), static_cast<size_t>(n));
    result.too_much = result.output.size() > kMaxOutput;
  }
}

int MillisUntil(int64_t deadline) {
  const int64_t left = (deadline - MonotonicNanos() + 999'999) / 1'000'000;
  return static_cast<int>(std::clamp<int64_t>(left, 0, INT_MAX));
}

// Waits for the exit; returns whether it came.
bool AwaitExit(const Fd& process, int timeout_ms) {
  const int64_t deadline =
      (Duration::Nanos(MonotonicNanos()) + Duration::Millis(timeout_ms)).nanos();
  while (true) {
    pollfd waiting{.fd = process.get(), .events = POLLIN, .revents = 0};
    const int n = ::poll(&waiting, 1, MillisUntil(deadline));
    if (n >= 0 || errno != EINTR) {
      return n == 1;
    }
  }
}

// Until the exit, the deadline, the bound or the stop; returns whether the child has exited.
bool Follow(const Fd& process, Fd& output, int stop, int64_t deadline, ChildResult& result) {
  while (true) {
    std::array<pollfd, 3> waiting{{
        {.fd = process.get(), .events = POLLIN, .revents = 0},
        {.fd = output.get(), .events = POLLIN, .revents = 0},  // ignored when closed
        {.fd = stop, .events = POLLIN, .revents = 0},          // ignored when there is none
    }};
    const int n = ::poll(waiting.data(), waiting.size(), MillisUntil(deadline));
    if (n < 0 && errno != EINTR) {
      return false;
    }
    Drain(output, result);
    if (waiting[0].revents != 0) {
      Drain(output, result);
      return true;
    }
    result.stopped = waiting[2].revents != 0;
    if (result.too_much || result.stopped) {
      return false;
    }
    if (MonotonicNanos() >= deadline) {
      result.timed_out = true;
      return false;
    }
  }
}

}  // namespace

Result<ChildResult> CollectChild(
    pid_t pid, Fd output, Duration timeout, KillScope scope, int stop) {
  const pid_t target = scope == KillScope::kGroup ? -pid : pid;
  // By number: this C library's header does not declare pidfd_open for C++.
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.valid() || ::fcntl(output.get(), F_SETFL, O_NONBLOCK) != 0) {
    const int error = errno;
    ::kill(target, SIGKILL);
    return FailErrno("cannot watch process " + std::to_string(pid), error);
  }
  ChildResult result;
  const int64_t deadline = MonotonicNanos() + timeout.nanos();
  bool exited = Follow(process, output, stop, deadline, result);
  if (!exited) {
    ::kill(target, SIGKILL);
    exited = AwaitExit(process, kReapAfterKillMs);
  } else if (scope == KillScope::kGroup) {
    ::kill(target, SIGKILL);  // what it may have left behind
  }
  result.abandoned = !exited;
  if (exited) {
    while (::waitpid(pid, &result.status, 0) < 0 && errno == EINTR) {
    }
  }
  return result;
}

std::string DescribeStatus(int status) {
  if (WIFSIGNALED(status)) {
    return "died of signal " + std::to_string(WTERMSIG(status));
  }
  return "exited with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace tide::validators
