#pragma once
// Runtime by one supervisor process (tide-init supervise) per task, for both runtime kinds.

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/runtime/control_client.h"
#include "agent/runtime/runtime.h"
#include "common/base/file.h"

namespace tide::agent {

class SupervisedRuntime : public Runtime {
 public:
  // Tasks are kept in <state_dir>/tasks. state_dir: absolute, made if missing.
  [[nodiscard]] static Result<std::unique_ptr<SupervisedRuntime>> Open(
      const std::string& state_dir);

  [[nodiscard]] Status Start(const TaskConfig& config) override;
  [[nodiscard]] Status Signal(const std::string& key, int signal) override;
  [[nodiscard]] Status Stop(const std::string& key, Duration grace) override;
  [[nodiscard]] Result<TaskStatus> Query(const std::string& key) override;
  [[nodiscard]] Result<std::vector<std::string>> List() override;
  [[nodiscard]] Status Remove(const std::string& key, bool keep_logs) override;
  [[nodiscard]] int EventFd() const override { return epoll_.get(); }
  [[nodiscard]] std::vector<TaskEvent> TakeEvents() override;

 private:
  SupervisedRuntime(std::string tasks_dir, Fd epoll, Fd timer);
  [[nodiscard]] std::string Folder(const std::string& key) const { return tasks_dir_ + "/" + key; }
  [[nodiscard]] Status CheckKnown(const std::string& key) const;
  void Watch(const std::string& key);
  void AskAgain(const std::string& key);
  [[nodiscard]] std::optional<std::string> NextToAsk();
  // EventFd is readable after this time.
  void SetTimer(Duration after);
  void Unwatch(const std::string& key);

  std::string tasks_dir_;
  Fd epoll_;
  Fd timer_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::map<std::string, std::unique_ptr<ControlClient>> watched_;
  std::set<std::string> silent_;    // alive, but did not answer
  std::deque<std::string> to_ask_;  // connection closed, or silent a while ago
};

}  // namespace tide::agent
