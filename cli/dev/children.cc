#include "cli/dev/children.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "common/base/file.h"
#include "common/base/time.h"

namespace tide::cli {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int kQuickDeathsMax = 3;
constexpr int64_t kStopPatienceNs = 15 * kSecondNs;

std::string DescribeStatus(int status) {
  if (WIFSIGNALED(status)) {
    return "was ended by signal " + std::to_string(WTERMSIG(status));
  }
  return "exited with code " + std::to_string(WEXITSTATUS(status));
}

std::string LastLine(const std::string& path) {
  auto text = ReadTail(path, 2048);
  if (!text) {
    return "";
  }
  while (!text->empty() && text->back() == '\n') {
    text->pop_back();
  }
  const size_t line = text->rfind('\n');
  return line == std::string::npos ? *text : text->substr(line + 1);
}

}  // namespace

Status Children::Spawn(Child& child) {
  const Fd log(
      ::open(child.spec.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log.valid()) {
    return FailErrno("cannot write " + child.spec.log_path, errno);
  }
  std::vector<char*> argv;
  argv.reserve(child.spec.argv.size() + 1);
  for (std::string& word : child.spec.argv) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    return FailErrno("cannot start " + child.spec.name, errno);
  }
  if (pid == 0) {
    ::setpgid(0, 0);  // Ctrl-C reaches `tide dev` alone, which ends its children in order
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) {
      ::_exit(1);
    }
    sigset_t none;
    sigemptyset(&none);
    ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
    ::dup2(log.get(), STDOUT_FILENO);
    ::dup2(log.get(), STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  child.pid = pid;
  child.started_ns = MonotonicNanos();
  child.restart_at_ns = 0;
  return {};
}

Status Children::Start(const ChildSpec& spec) {
  Child child;
  child.spec = spec;
  TIDE_TRY(Spawn(child));
  children_.push_back(std::move(child));
  return {};
}

Status Children::NoteDeath(Child& child, int status, std::vector<std::string>& news) {
  const int64_t now = MonotonicNanos();
  child.pid = -1;
  child.quick_deaths = now - child.started_ns < 5 * kSecondNs ? child.quick_deaths + 1 : 0;
  const std::string what = child.spec.name + " " + DescribeStatus(status);
  // A daemon that refuses to start says why; trying again would only hide it. A signal is
  // somebody else's doing.
  if (!WIFSIGNALED(status) && child.quick_deaths >= kQuickDeathsMax) {
    return Fail(
        ErrorCode::kSystem,
        what + ": " + LastLine(child.spec.log_path) + " (log: " + child.spec.log_path + ")");
  }
  child.restart_at_ns = now + (child.quick_deaths > 1 ? kSecondNs / 2 : 0);
  news.push_back(what + "; starting it again");
  return {};
}

Result<std::vector<std::string>> Children::Tend() {
  std::vector<std::string> news;
  for (Child& child : children_) {
    int status = 0;
    if (child.pid > 0 && ::waitpid(child.pid, &status, WNOHANG) == child.pid) {
      TIDE_TRY(NoteDeath(child, status, news));
    }
    if (child.pid < 0 && MonotonicNanos() >= child.restart_at_ns) {
      TIDE_TRY(Spawn(child));
    }
  }
  return news;
}

bool Children::StopAll() {
  bool clean = true;
  for (auto it = children_.rbegin(); it != children_.rend(); ++it) {
    clean = clean && it->pid > 0;
    if (it->pid > 0) {
      ::kill(it->pid, SIGTERM);
    }
  }
  const int64_t deadline = MonotonicNanos() + kStopPatienceNs;
  bool killed = false;
  while (true) {
    bool any = false;
    for (Child& child : children_) {
      int status = 0;
      if (child.pid > 0 && ::waitpid(child.pid, &status, WNOHANG) != 0) {
        child.pid = -1;
        clean = clean && status == 0;
      }
      any = any || child.pid > 0;
    }
    if (!any) {
      break;
    }
    if (!killed && MonotonicNanos() > deadline) {
      killed = true;
      for (const Child& child : children_) {
        if (child.pid > 0) {
          ::kill(child.pid, SIGKILL);
        }
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  children_.clear();
  return clean;
}

}  // namespace tide::cli
