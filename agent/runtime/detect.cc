#include "agent/runtime/detect.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "agent/runtime/supervised_runtime.h"

namespace tide::agent {
namespace {

constexpr uint32_t kNobody = 65534;
constexpr Duration kTrialTimeout = Duration::Seconds(10);

std::string FindProgram() {
  for (const char* name : {"runc", "crun"}) {
    for (const char* folder : {"/usr/local/sbin/", "/usr/local/bin/", "/usr/sbin/", "/usr/bin/"}) {
      const std::string path = std::string(folder) + name;
      if (::access(path.c_str(), X_OK) == 0) {
        return path;
      }
    }
  }
  return "";
}

std::string FirstLine(const std::string& command) {
  std::FILE* output = ::popen(command.c_str(), "r");
  if (output == nullptr) {
    return "";
  }
  std::array<char, 256> line{};
  std::string text = std::fgets(line.data(), line.size(), output) != nullptr ? line.data() : "";
  ::pclose(output);
  return text.substr(0, text.find('\n'));
}

// Runs `true` in a container to its end. Errors: what went wrong.
Status Trial(SupervisedRuntime& runtime, const TaskConfig& config) {
  TIDE_TRY(runtime.Start(config));
  const int64_t deadline = MonotonicNanos() + kTrialTimeout.nanos();
  Status verdict = Fail(ErrorCode::kDeadlineExceeded, "a trial container did not end in 10 s");
  while (MonotonicNanos() < deadline) {
    TIDE_ASSIGN(const TaskStatus status, runtime.Query(config.key));
    if (status.finished || status.lost) {
      const bool well = status.error.empty() && !status.ranks.front().failed();
      verdict =
          well ? Status() : Fail(ErrorCode::kSystem, "a trial container failed: " + status.error);
      break;
    }
    pollfd changed{runtime.EventFd(), POLLIN, 0};
    ::poll(&changed, 1, 100);
    static_cast<void>(runtime.TakeEvents());
  }
  static_cast<void>(runtime.Kill(config.key));
  static_cast<void>(runtime.Remove(config.key, false));
  return verdict;
}

Status TryContainer(const std::string& state_dir,
                    const std::string& init_path,
                    const std::string& runtime_path) {
  const std::string folder = state_dir + "/trial-" + std::to_string(::getpid());
  TIDE_ASSIGN(const auto runtime, SupervisedRuntime::Open(folder));
  TaskConfig config;
  config.key = "trial";
  config.runtime = RuntimeKind::kOci;
  config.ranks.push_back({.rank = 0, .local_rank = 0, .env = {}, .argv = {"true"}, .cpus = {}});
  config.uid = kNobody;
  config.gid = kNobody;
  config.memory_bytes = 256U << 20U;
  config.cpu_millis = 1000;
  config.pids = 64;
  config.init_path = init_path;
  config.runtime_path = runtime_path;
  const Status verdict = Trial(*runtime, config);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return verdict;
}

}  // namespace

Detection DetectRuntime(const std::string& state_dir, const std::string& init_path) {
  Detection found;
  found.runtime_path = FindProgram();
  if (found.runtime_path.empty()) {
    found.why_not_oci = "neither runc nor crun is installed; install runc";
    return found;
  }
  found.version = FirstLine(found.runtime_path + " --version 2>/dev/null");
  if (::geteuid() != 0) {
    found.why_not_oci = "the agent does not run as root; start it as root for containers";
    return found;
  }
  const int64_t begin = MonotonicNanos();
  if (const Status tried = TryContainer(state_dir, init_path, found.runtime_path); !tried) {
    found.why_not_oci = tried.error().message;
    return found;
  }
  found.trial_seconds = Duration::Nanos(MonotonicNanos() - begin).seconds();
  found.best = RuntimeKind::kOci;
  return found;
}

std::string Describe(const Detection& detection) {
  if (detection.best == RuntimeKind::kProcess) {
    return "no containers: " + detection.why_not_oci +
           ". Tasks run as plain processes: nothing is isolated and no limit is enforced";
  }
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%.2f s", detection.trial_seconds);
  return "containers by " + detection.version + " (" + detection.runtime_path +
         "); a trial container took " + seconds.data();
}

}  // namespace tide::agent
