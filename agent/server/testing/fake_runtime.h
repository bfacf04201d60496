#pragma once
// A runtime without processes: tasks end when the test says so. Outlives the agents that use it,
// as supervisors do. For tests.

#include <sys/eventfd.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/runtime/runtime.h"
#include "common/base/file.h"
#include "common/base/mutex.h"

namespace tide::agent {

// What is on the node. Any thread.
class FakeNode {
 public:
  // The task ends by itself, every rank with this code.
  void Exit(const std::string& key, int32_t code) { End(key, code, 0); }
  void FailStarts(ErrorCode code) {
    const MutexLock lock(mutex_);
    start_error_ = code;
  }
  // Makes the task one whose agent was killed before its supervisor was there.
  void MakeUnstarted(const std::string& key) {
    const MutexLock lock(mutex_);
    TaskStatus& status = tasks_[key];
    status = TaskStatus();
    status.lost = status.unstarted = status.released = true;
  }
  // Calls of this name ("signal", "query", "remove") fail until it is said otherwise.
  void Fail(const std::string& call, bool fails = true) {
    const MutexLock lock(mutex_);
    fails ? (void)failing_.insert(call) : (void)failing_.erase(call);
  }
  // Kills do nothing any more.
  void MakeImmortal() {
    const MutexLock lock(mutex_);
    immortal_ = true;
  }
  // Called during each Stop and Query, of which any may take long.
  void OnSlowCall(std::function<void()> action) {
    const MutexLock lock(mutex_);
    on_slow_call_ = std::move(action);
  }
  [[nodiscard]] std::vector<std::string> calls() {
    const MutexLock lock(mutex_);
    return calls_;
  }
  [[nodiscard]] bool Has(const std::string& key) {
    const MutexLock lock(mutex_);
    return tasks_.contains(key);
  }

 private:
  friend class FakeRuntime;
  void End(const std::string& key, int32_t code, int32_t signal) {
    {
      const MutexLock lock(mutex_);
      const auto it = tasks_.find(key);
      if (it == tasks_.end() || it->second.finished) {
        return;
      }
      TaskStatus& status = it->second;
      for (RankStatus& rank : status.ranks) {
        rank.exited = true;
        rank.code = code;
        rank.signal = signal;
      }
      status.finished = true;
      status.released = true;
      events_.push_back({key, status});
    }
    Wake();
  }
  void BeSlow() {
    std::function<void()> action;
    {
      const MutexLock lock(mutex_);
      action = on_slow_call_;
    }
    if (action) {
      action();
    }
  }
  [[nodiscard]] Status Check(const std::string& call) TIDE_REQUIRES(mutex_) {
    return failing_.contains(call) ? Status(tide::Fail(ErrorCode::kSystem, call + " fails"))
                                   : Status();
  }
  void Wake() {
    const uint64_t one = 1;
    (void)!::write(event_.get(), &one, sizeof one);
  }

  Fd event_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  Mutex mutex_;
  std::map<std::string, TaskStatus> tasks_ TIDE_GUARDED_BY(mutex_);
  std::vector<TaskEvent> events_ TIDE_GUARDED_BY(mutex_);
  std::vector<std::string> calls_ TIDE_GUARDED_BY(mutex_);
  std::set<std::string> failing_ TIDE_GUARDED_BY(mutex_);
  bool immortal_ TIDE_GUARDED_BY(mutex_) = false;
  std::function<void()> on_slow_call_ TIDE_GUARDED_BY(mutex_);
  ErrorCode start_error_ TIDE_GUARDED_BY(mutex_) = ErrorCode::kInternal;  // kInternal = none
};

class FakeRuntime final : public Runtime {
 public:
  explicit FakeRuntime(FakeNode& node) : node_(node) {}

  Status Start(const TaskConfig& config) override {
    {
      const MutexLock lock(node_.mutex_);
      node_.calls_.push_back("start " + config.key);
      if (node_.start_error_ != ErrorCode::kInternal) {
        return Fail(node_.start_error_, "not today");
      }
      TaskStatus& status = node_.tasks_[config.key];
      status.started = true;
      for (const RankConfig& rank : config.ranks) {
        status.ranks.push_back({.rank = rank.rank, .local_rank = rank.local_rank});
      }
      node_.events_.push_back({config.key, status});
    }
    node_.Wake();
    return {};
  }
  Status Signal(const std::string& key, int signal) override {
    const MutexLock lock(node_.mutex_);
    node_.calls_.push_back("signal " + std::to_string(signal) + " " + key);
    return node_.Check("signal");
  }
  Status Stop(const std::string& key, Duration grace) override {
    node_.BeSlow();
    {
      const MutexLock lock(node_.mutex_);
      if (!node_.tasks_.contains(key)) {
        return Fail(ErrorCode::kNotFound, key);
      }
      node_.calls_.push_back((grace.nanos() > 0 ? "stop " : "kill ") + key);
    }
    bool dies = grace.nanos() == 0;
    {
      const MutexLock lock(node_.mutex_);
      dies = dies && !node_.immortal_;
    }
    if (dies) {
      node_.End(key, 0, 9);
    }
    return {};
  }
  Result<TaskStatus> Query(const std::string& key) override {
    node_.BeSlow();
    const MutexLock lock(node_.mutex_);
    TIDE_TRY(node_.Check("query"));
    const auto it = node_.tasks_.find(key);
    if (it == node_.tasks_.end()) {
      return Fail(ErrorCode::kNotFound, key);
    }
    return it->second;
  }
  Result<std::vector<std::string>> List() override {
    const MutexLock lock(node_.mutex_);
    std::vector<std::string> keys;
    for (const auto& [key, status] : node_.tasks_) {
      keys.push_back(key);
    }
    return keys;
  }
  Status Remove(const std::string& key, bool /*keep_logs*/) override {
    const MutexLock lock(node_.mutex_);
    const auto it = node_.tasks_.find(key);
    if (it == node_.tasks_.end()) {
      return Fail(ErrorCode::kNotFound, key);
    }
    if (!it->second.finished && !it->second.lost) {
      return Fail(ErrorCode::kConflict, key);
    }
    TIDE_TRY(node_.Check("remove"));
    node_.tasks_.erase(it);
    node_.calls_.push_back("remove " + key);
    return {};
  }
  int EventFd() const override { return node_.event_.get(); }
  std::vector<TaskEvent> TakeEvents() override {
    uint64_t count = 0;
    (void)!::read(node_.event_.get(), &count, sizeof count);
    const MutexLock lock(node_.mutex_);
    return std::exchange(node_.events_, {});
  }

 private:
  FakeNode& node_;
};

}  // namespace tide::agent
