#pragma once
// Runtime by one supervisor process (tide-init supervise) per task, for both runtime kinds.

#include <sys/types.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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

  struct Watched {
    uint64_t number = 0;                    // in epoll; not given twice
    std::unique_ptr<ControlClient> client;  // none: its supervisor is gone, or does not answer
    std::optional<TaskStatus> over;         // its last status, said until the task is removed
    bool doubtful = false;                  // in doubtful_
    pid_t supervisor = 0;                   // a child of this process; 0 = an earlier agent's
  };
  void Watch(const std::string& key);
  void Unwatch(const std::string& key);
  void AskDoubtful(std::vector<TaskEvent>& events);
  [[nodiscard]] std::optional<std::string> NextDoubtful();
  // With mutex_ held:
  bool Connect(Watched& task, const std::string& folder) const;
  void ReadNews(const std::string& key, Watched& task, std::vector<TaskEvent>& events);
  void LookAtAll(std::vector<TaskEvent>& events);
  void ReapEnded();
  void Doubt(const std::string& key, Watched& task);
  // EventFd is readable after this time at the latest.
  void LookWithin(Duration pause);

  std::string tasks_dir_;
  Fd epoll_;
  Fd timer_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::map<std::string, Watched> watched_;   // until they are removed
  std::map<uint64_t, std::string> numbers_;  // keys of watched_
  uint64_t next_number_ = 1;
  std::vector<pid_t> ended_;          // supervisors of removed tasks, to be waited for
  std::deque<std::string> doubtful_;  // their verdict is to be asked for
  int64_t look_at_ns_ = 0;            // when the timer fires; 0 = it does not
};

}  // namespace tide::agent
