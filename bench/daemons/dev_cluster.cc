#include "bench/daemons/dev_cluster.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "bench/daemons/program.h"
#include "bench/daemons/scheduler_process.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/time.h"

namespace tide::bench {

DevCluster::DevCluster(const TaskPlace& place,
                       uint32_t nodes,
                       const std::vector<std::string>& flags)
    : folder_(place.path()) {
  const std::string address = FreeAddress();
  std::vector<std::string> words = {"dev",
                                    "--no-demo",
                                    "--nodes",
                                    std::to_string(nodes),
                                    "--runtime",
                                    "process",
                                    "--state",
                                    folder_ + "/state",
                                    "--port",
                                    address.substr(address.rfind(':') + 1)};
  words.insert(words.end(), flags.begin(), flags.end());
  dev_ = Spawn(words);
  const std::string serves = "\"ready\"";
  const int64_t deadline = MonotonicNanos() + Duration::Seconds(30).nanos();
  while (true) {
    std::string list;
    TideLines({"nodes", "-o", "json"}, [&](const char* line) {
      list += line;
      return true;
    });
    uint32_t serving = 0;
    for (size_t at = 0; (at = list.find(serves, at)) != std::string::npos; at += serves.size()) {
      ++serving;
    }
    if (serving == nodes) {
      return;
    }
    TIDE_CHECK(::waitpid(dev_.pid, nullptr, WNOHANG) == 0 && MonotonicNanos() < deadline,
               "the cluster comes up");
    ::poll(nullptr, 0, 50);
  }
}

DevCluster::~DevCluster() {
  ::close(dev_.out);
  ::kill(dev_.pid, SIGINT);
  ::waitpid(dev_.pid, nullptr, 0);
}

std::string DevCluster::Tide(const std::vector<std::string>& words) const {
  const Child child = Spawn(words);
  std::string text;
  char part[4096];
  for (ssize_t n = 0; (n = ::read(child.out, part, sizeof(part))) > 0;) {
    text.append(part, static_cast<size_t>(n));
  }
  ::close(child.out);
  int status = 0;
  TIDE_CHECK(::waitpid(child.pid, &status, 0) == child.pid && status == 0,
             "tide does as it is told");
  return text;
}

DevCluster::Child DevCluster::Spawn(const std::vector<std::string>& words) const {
  std::vector<std::string> all = {ProgramBeside("tide")};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : all) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  std::vector<std::string> variables = {
      "HOME=" + folder_, "PATH=/usr/bin:/bin", "TIDE_DEV_PROFILE=" + folder_ + "/profile.yaml"};
  std::vector<char*> envp;
  for (std::string& variable : variables) {
    envp.push_back(variable.data());
  }
  envp.push_back(nullptr);
  int ends[2] = {-1, -1};
  TIDE_CHECK(::pipe2(ends, O_CLOEXEC) == 0, "there are descriptors");
  const int log =
      ::open((folder_ + "/tide.err").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    (void)::chdir(folder_.c_str());
    ::execve(argv.front(), argv.data(), envp.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  ::close(log);
  TIDE_CHECK(pid > 0, "tide can be started");
  return {pid, ends[0]};
}

int DevCluster::End(pid_t pid) {
  ::kill(pid, SIGTERM);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status;
}

}  // namespace tide::bench
