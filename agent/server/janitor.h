#pragma once
// Deletes folders of tasks that are gone on a thread of its own: a job may leave millions of files,
// and the loop must not wait for them.
//
// Threads: the agent's loop thread calls; a folder is renamed before Discard returns.

#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "common/base/mutex.h"

namespace tide::agent {

class Janitor {
 public:
  // folder: holds the folders to delete, by name.
  explicit Janitor(std::string folder);
  // Leaves what is not deleted yet to the next agent's DiscardAll.
  ~Janitor();
  Janitor(const Janitor&) = delete;
  Janitor& operator=(const Janitor&) = delete;

  void Discard(const std::string& name);
  // Everything but what `keep` says yes to, and what an earlier agent had begun to delete.
  void DiscardAll(const std::function<bool(const std::string& name)>& keep);

 private:
  void Run();

  const std::string folder_;
  Mutex mutex_;
  Condition changed_;
  bool ending_ TIDE_GUARDED_BY(mutex_) = false;
  std::deque<std::string> doomed_ TIDE_GUARDED_BY(mutex_);
  std::thread thread_;  // last: uses the rest
};

}  // namespace tide::agent
