#include "agent/init/rank_process.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <vector>

#include "agent/init/messages.h"
#include "agent/runtime/task_folder.h"
#include "common/base/file.h"

namespace tide::agent {
namespace {

constexpr const char* kDefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

[[noreturn]] void GiveUp(size_t index, const std::string& text) {
  SendReport(
      kSocketFd,
      {.kind = InitReport::Kind::kError, .index = static_cast<uint32_t>(index), .text = text});
  ::_exit(kCannotStartCode);
}

std::string Reason(const std::string& what, int error) {
  return FailErrno(what, error).error().message;
}

// Into the environment, beside what the task's configuration holds. By the rank's own user, and by
// each rank anew: nothing of them is kept.
Status SetSecrets(const TaskConfig& config) {
  for (const auto& [variable, file] : config.secrets) {
    TIDE_ASSIGN(const std::string value, ReadFile(SecretsSeen(config) + "/" + file));
    if (value.find('\0') == std::string::npos) {  // such a value is no text: there is its file
      ::setenv(variable.c_str(), value.c_str(), 1);
    }
  }
  return {};
}

// A rank that cannot have its CPUs runs slower, but it runs. What is wrong is said in its own log.
void BindToCpus(const RankConfig& rank) {
  if (rank.cpus.empty()) {
    return;
  }
  std::array<cpu_set_t, kCpusMax / CPU_SETSIZE> set{};
  for (const uint32_t cpu : rank.cpus) {
    if (cpu < kCpusMax) {
      CPU_SET_S(cpu, sizeof set, set.data());
    }
  }
  if (::sched_setaffinity(0, sizeof set, set.data()) != 0) {
    const std::string line =
        Reason("tide: rank " + std::to_string(rank.rank) + " is not bound to CPUs", errno) + "\n";
    static_cast<void>(WriteAll(STDERR_FILENO, line));
  }
}

[[noreturn]] void RunRank(const TaskConfig& config, size_t index, bool drop_user, pid_t init) {
  const RankConfig& rank = config.ranks[index];
  const std::string where =
      config.runtime == RuntimeKind::kOci ? " in the container" : " on this node";
  ::setsid();
  ResetSignals();
  ::umask(022);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int out = kFirstLogFd + 2 * static_cast<int>(index);
  if (null < 0 || ::dup2(null, 0) < 0 || ::dup2(out, 1) < 0 || ::dup2(out + 1, 2) < 0) {
    GiveUp(index, Reason("cannot set up the output of rank " + std::to_string(rank.rank), errno));
  }
  if (drop_user && !BecomeUser(config.uid, config.gid)) {
    GiveUp(index, Reason("cannot become user " + std::to_string(config.uid), errno));
  }
  // After the change of user, which clears it. If tide-init is gone already, so is the point.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != init) {
    ::_exit(kCannotStartCode);
  }
  if (::chdir(config.workdir.c_str()) != 0) {
    GiveUp(index, Reason("cannot enter the work folder " + config.workdir, errno) + where);
  }
  BindToCpus(rank);
  SetEnvironment(rank.env, TaskTag(config.key, config.folder));
  if (const Status set = SetSecrets(config); !set) {
    GiveUp(index, "cannot read a secret: " + set.error().message + where);
  }
  std::vector<char*> argv;
  for (const std::string& argument : rank.argv) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  SendReport(
      kSocketFd,
      {.kind = InitReport::Kind::kStarted, .index = static_cast<uint32_t>(index), .text = ""});
  ::execvp(argv[0], argv.data());
  GiveUp(index, Reason("cannot start " + rank.argv.front(), errno) + where);
}

}  // namespace

void ResetSignals() {
  for (int signal = 1; signal < NSIG; ++signal) {
    ::signal(signal, SIG_DFL);
  }
  sigset_t none{};
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool BecomeUser(uint32_t uid, uint32_t gid) {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(gid, gid, gid) == 0 &&
         ::setresuid(uid, uid, uid) == 0;
}

void SetEnvironment(const std::map<std::string, std::string>& env, const std::string& tag) {
  ::clearenv();
  ::setenv("PATH", kDefaultPath, 1);
  for (const auto& [name, value] : env) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  ::setenv(kTagVariable, tag.c_str(), 1);
}

pid_t StartRank(const TaskConfig& config, size_t index, bool drop_user) {
  const pid_t init = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    RunRank(config, index, drop_user, init);
  }
  return pid < 0 ? -errno : pid;
}

}  // namespace tide::agent
