#include "agent/runtime/detect.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "agent/runtime/supervised_runtime.h"

namespace tide::agent {
namespace {

constexpr uint32_t kNobody = 65534;
constexpr Duration kTrialTimeout = Duration::Seconds(10);

// "" where it is not installed.
std::string PathOf(const std::string& name) {
  for (const char* folder : {"/usr/local/sbin/", "/usr/local/bin/", "/usr/sbin/", "/usr/bin/"}) {
    std::string path = folder + name;
    if (::access(path.c_str(), X_OK) == 0) {
      return path;
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

std::vector<std::string> OciPrograms(const std::string& name) {
  std::vector<std::string> paths;
  for (const char* known : {"crun", "runc"}) {
    std::string path = name.empty() || name == known ? PathOf(known) : "";
    if (!path.empty()) {
      paths.push_back(std::move(path));
    }
  }
  return paths;
}

Detection DetectRuntime(const std::string& state_dir,
                        const std::string& init_path,
                        const std::vector<std::string>& programs) {
  Detection found;
  if (programs.empty()) {
    found.why_not_oci = "neither runc nor crun is installed; install runc";
    return found;
  }
  if (::geteuid() != 0) {
    found.why_not_oci = "the agent does not run as root; start it as root for containers";
    return found;
  }
  for (const std::string& program : programs) {
    const int64_t begin = MonotonicNanos();
    if (const Status tried = TryContainer(state_dir, init_path, program); !tried) {
      found.why_not_oci +=
          (found.why_not_oci.empty() ? "" : "; ") + program + ": " + tried.error().message;
      continue;
    }
    found.trial_seconds = Duration::Nanos(MonotonicNanos() - begin).seconds();
    found.best = RuntimeKind::kOci;
    found.runtime_path = program;
    found.version = FirstLine(program + " --version 2>/dev/null");
    found.why_not_oci.clear();
    return found;
  }
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
