// start-container: from the order until a program in a container runs, by the agent's runtime and
// by a bare `runc run` with the same root, mounts, limits and rights, by turns. What lies between
// is the agent's: the supervisor, the overlay, journal and log files, tide-init.

#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/runtime/detect.h"
#include "agent/runtime/oci_bundle.h"
#include "agent/runtime/supervised_runtime.h"
#include "bench/benches.h"
#include "bench/daemons/program.h"
#include "bench/daemons/task_place.h"
#include "common/base/check.h"

namespace tide::bench {
namespace {

constexpr uint32_t kNobody = 65534;
constexpr const char* kKey = "bench.1.0";
// The program says that it runs: a byte into a pipe of the file system.
constexpr const char* kSaysSo = "printf x >/bench/up";

agent::TaskConfig Config(const TaskPlace& place, const std::string& runc) {
  agent::TaskConfig config;
  config.key = kKey;
  config.runtime = agent::RuntimeKind::kOci;
  config.ranks.push_back({.rank = 0,
                          .local_rank = 0,
                          .env = {{"PATH", "/usr/bin:/bin"}},
                          .argv = {"/bin/sh", "-c", kSaysSo},
                          .cpus = {}});
  config.uid = kNobody;
  config.gid = kNobody;
  config.mounts = {{place.shared(), "/bench", false}};
  config.memory_bytes = 256U << 20U;
  config.cpu_millis = 1000;
  config.pids = 64;
  config.init_path = ProgramBeside("tide-init");
  config.runtime_path = runc;
  return config;
}

class ByAgent {
 public:
  ByAgent(const TaskPlace& place, agent::TaskConfig config)
      : place_(place), config_(std::move(config)) {
    auto runtime = agent::SupervisedRuntime::Open(place.path() + "/agent");
    TIDE_CHECK(runtime.has_value(), "the runtime's folder can be made");
    runtime_ = *std::move(runtime);
  }

  // Start to running; then it is waited for and forgotten.
  int64_t Run() {
    const int64_t start = MonotonicNanos();
    TIDE_CHECK(runtime_->Start(config_).has_value(), "the task starts");
    const int64_t took = place_.WaitUntilUp(1) - start;
    while (true) {
      const auto status = runtime_->Query(kKey);
      TIDE_CHECK(status.has_value() && status->error.empty(), "the task is known and well");
      if (status->finished) {
        break;
      }
      pollfd changed{runtime_->EventFd(), POLLIN, 0};
      ::poll(&changed, 1, 100);
      (void)runtime_->TakeEvents();
    }
    TIDE_CHECK(runtime_->Remove(kKey, false).has_value(), "it can be forgotten");
    return took;
  }

 private:
  const TaskPlace& place_;
  const agent::TaskConfig config_;
  std::unique_ptr<agent::SupervisedRuntime> runtime_;
};

// `runc run` of a bundle that is ready, in a mount namespace of the calling thread's own.
class Bare {
 public:
  Bare(const TaskPlace& place, const agent::TaskConfig& config)
      : place_(place), runc_(config.runtime_path), folder_(place.path() + "/bare") {
    for (const char* name : {"", "/layers", "/bundle", "/state"}) {
      TIDE_CHECK(::mkdir((folder_ + name).c_str(), 0755) == 0, "folders can be made");
    }
    const std::string layers = folder_ + "/layers";
    TIDE_CHECK(::unshare(CLONE_NEWNS) == 0 &&
                   ::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0 &&
                   ::mount("tmpfs", layers.c_str(), "tmpfs", 0, "mode=755") == 0,
               "this thread has mounts of its own");
    for (const char* name : {"/upper", "/work", "/root"}) {
      TIDE_CHECK(::mkdir((layers + name).c_str(), 0755) == 0, "folders can be made");
    }
    const std::string options =
        "lowerdir=/,upperdir=" + layers + "/upper,workdir=" + layers + "/work";
    TIDE_CHECK(::mount("overlay", (layers + "/root").c_str(), "overlay", 0, options.c_str()) == 0,
               "the node's root can be the container's");
    agent::TaskConfig bare = config;
    bare.folder = folder_;
    const auto text = agent::OciConfig(bare, layers + "/root", agent::HostMounts());
    TIDE_CHECK(text.has_value(), "the bundle can be written");
    nlohmann::json bundle = nlohmann::json::parse(*text);
    bundle["process"]["args"] = config.ranks.front().argv;
    std::ofstream(folder_ + "/bundle/config.json") << bundle.dump();
  }

  ~Bare() {
    for (const char* name : {"/layers/root", "/layers"}) {
      (void)::umount2((folder_ + name).c_str(), MNT_DETACH);
    }
  }
  Bare(const Bare&) = delete;
  Bare& operator=(const Bare&) = delete;

  int64_t Run() const {
    std::vector<std::string> words = {runc_,
                                      "--root",
                                      folder_ + "/state",
                                      "run",
                                      "--bundle",
                                      folder_ + "/bundle",
                                      "tide-bench-" + std::to_string(::getpid())};
    std::vector<char*> argv;
    for (std::string& word : words) {
      argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    pid_t child = 0;
    const int64_t start = MonotonicNanos();
    TIDE_CHECK(::posix_spawn(&child, runc_.c_str(), nullptr, nullptr, argv.data(), environ) == 0,
               "runc can be run");
    const int64_t took = place_.WaitUntilUp(1) - start;
    int status = 0;
    TIDE_CHECK(::waitpid(child, &status, 0) == child && status == 0, "the container ends well");
    return took;
  }

 private:
  const TaskPlace& place_;
  const std::string runc_;
  const std::string folder_;
};

void MeasureBoth(Run& run, const TaskPlace& place, const std::string& runc) {
  const agent::TaskConfig config = Config(place, runc);
  Bare bare(place, config);
  ByAgent by_agent(place, config);
  Samples alone;
  Samples with_agent;
  for (int i = 0; i < (run.quick() ? 2 : 100); ++i) {
    alone.Add(bare.Run());
    with_agent.Add(by_agent.Run());
  }
  run.AddTimes("agent", with_agent);
  run.AddTimes("runc run", alone);
  run.Add("agent / runc run",
          Metric::kRatio,
          with_agent.PercentileMs(50) / alone.PercentileMs(50),
          with_agent.size());
  run.Add("agent over runc run",
          Metric::kP50Ms,
          std::max(0.0, with_agent.PercentileMs(50) - alone.PercentileMs(50)),
          with_agent.size(),
          AtMost(20));
}

}  // namespace

void RunStartContainer(Run& run) {
  if (!run.Wants("agent") && !run.Wants("runc run")) {
    return;
  }
  const TaskPlace place;
  const agent::Detection found = agent::DetectRuntime(
      place.path() + "/trial", ProgramBeside("tide-init"), agent::OciPrograms("runc"));
  if (found.best != agent::RuntimeKind::kOci) {
    std::fprintf(stderr, "skipped: start-container: %s\n", found.why_not_oci.c_str());
    return;
  }
  // The mounts of the bare one end with the thread.
  std::thread measuring([&] { MeasureBoth(run, place, found.runtime_path); });
  measuring.join();
}

}  // namespace tide::bench
