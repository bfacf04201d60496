#pragma once
// For tests: a Runtime on a fresh folder, tasks made of shell scripts, and waiting with a deadline.

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/runtime/processes.h"
#include "agent/runtime/supervised_runtime.h"
#include "agent/runtime/task_folder.h"
#include "agent/runtime/task_state.h"
#include "common/base/file.h"

namespace tide::agent {

inline constexpr int kTestSeconds = 20;

inline bool WaitUntil(const std::function<bool()>& condition) {
  const int64_t deadline = MonotonicNanos() + Duration::Seconds(kTestSeconds).nanos();
  while (!condition()) {
    if (MonotonicNanos() > deadline) {
      return false;
    }
    ::poll(nullptr, 0, 2);
  }
  return true;
}

// The program that makes the tests' containers: runc, or what TIDE_TEST_OCI names by its path.
inline std::string OciProgram() {
  const char* const named = std::getenv("TIDE_TEST_OCI");
  return named != nullptr ? named : "/usr/sbin/runc";
}

// Empty when containers can be tested here; otherwise why not.
inline std::string WhyNoContainers() {
  if (::geteuid() != 0) {
    return "container tests need root";
  }
  const std::string program = OciProgram();
  return ::access(program.c_str(), X_OK) == 0 ? "" : "container tests need " + program;
}

class TaskFixture {
 public:
  TaskFixture() {
    std::string pattern = "/tmp/tide-runtime-XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    state_dir_ = pattern;
    Reopen();
  }
  TaskFixture(const TaskFixture&) = delete;
  TaskFixture& operator=(const TaskFixture&) = delete;
  ~TaskFixture() {
    const auto keys = runtime_->List();
    for (const std::string& key : keys.value_or(std::vector<std::string>())) {
      CHECK(KillTask(key, Folder(key)));
    }
    std::error_code ignored;
    std::filesystem::remove_all(state_dir_, ignored);
  }

  // As after a restart of the agent.
  void Reopen() {
    auto runtime = SupervisedRuntime::Open(state_dir_);
    REQUIRE(runtime);
    runtime_ = *std::move(runtime);
  }

  [[nodiscard]] TaskConfig Task(RuntimeKind kind, const std::vector<std::string>& scripts) const {
    TaskConfig config;
    config.key = "7.1.0";
    config.runtime = kind;
    for (const std::string& script : scripts) {
      const auto index = static_cast<uint32_t>(config.ranks.size());
      config.ranks.push_back({.rank = 8 + index,
                              .local_rank = index,
                              .env = {{"RANK", std::to_string(8 + index)}},
                              .argv = {"/bin/sh", "-c", script},
                              .cpus = {}});
    }
    config.workdir = "/tmp";
    config.uid = kind == RuntimeKind::kOci ? 65534 : ::geteuid();
    config.gid = kind == RuntimeKind::kOci ? 65534 : ::getegid();
    config.init_path = TIDE_INIT_PATH;
    config.runtime_path = OciProgram();
    config.failure_grace_ms = 60'000;
    config.term_grace_ms = 60'000;
    return config;
  }

  // Follows the events of a task until its last.
  TaskStatus WaitEnd(const std::string& key = "7.1.0") {
    TaskStatus last = runtime_->Query(key).value_or(TaskStatus());
    const int64_t deadline = MonotonicNanos() + Duration::Seconds(kTestSeconds).nanos();
    while (!last.finished && !last.lost) {
      INFO("still running: " << TaskStatusToJson(last));
      REQUIRE(MonotonicNanos() < deadline);
      pollfd changed{runtime_->EventFd(), POLLIN, 0};
      ::poll(&changed, 1, 1000);
      for (TaskEvent& event : runtime_->TakeEvents()) {
        if (event.key == key) {
          last = std::move(event.status);
        }
      }
    }
    INFO(TaskStatusToJson(last));
    CHECK(last.released);
    CHECK(ProcessesWithTag(TaskTag(key, Folder(key))).empty());
    return last;
  }

  TaskStatus Run(const TaskConfig& config) {
    const Status started = runtime_->Start(config);
    INFO((started ? "" : started.error().message));
    REQUIRE(started);
    return WaitEnd(config.key);
  }

  [[nodiscard]] std::string Folder(const std::string& key = "7.1.0") const {
    return state_dir_ + "/tasks/" + key;
  }
  [[nodiscard]] std::string Log(uint32_t rank, const std::string& key = "7.1.0") const {
    return ReadFile(Folder(key) + "/logs/" + LogName(rank) + ".log").value_or("(no log)");
  }
  [[nodiscard]] bool WaitLog(uint32_t rank,
                             const std::string& text,
                             const std::string& key = "7.1.0") const {
    return WaitUntil([&] { return Log(rank, key).find(text) != std::string::npos; });
  }
  SupervisedRuntime& runtime() { return *runtime_; }
  [[nodiscard]] const std::string& state_dir() const { return state_dir_; }

 private:
  std::string state_dir_;
  std::unique_ptr<SupervisedRuntime> runtime_;
};

// For each test that holds for both kinds: skips containers where there are none.
inline std::vector<RuntimeKind> KindsHere() {
  std::vector<RuntimeKind> kinds{RuntimeKind::kProcess};
  if (const std::string why = WhyNoContainers(); why.empty()) {
    kinds.push_back(RuntimeKind::kOci);
  } else {
    WARN("only the process runtime is tested: " << why);
  }
  return kinds;
}

}  // namespace tide::agent
