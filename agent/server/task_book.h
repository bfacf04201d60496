#pragma once
// Pages by task, for the threads that serve peers.

#include <map>
#include <memory>
#include <string>

#include "agent/server/page.h"
#include "common/base/mutex.h"

namespace tide::agent {

class TaskBook {
 public:
  void Put(const std::string& key, std::shared_ptr<TaskPages> pages) {
    const MutexLock lock(mutex_);
    pages_[key] = std::move(pages);
  }
  void Remove(const std::string& key) {
    const MutexLock lock(mutex_);
    pages_.erase(key);
  }
  // Null when the task is not here.
  [[nodiscard]] std::shared_ptr<TaskPages> Find(const std::string& key) {
    const MutexLock lock(mutex_);
    const auto it = pages_.find(key);
    return it == pages_.end() ? nullptr : it->second;
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<TaskPages>> pages_ TIDE_GUARDED_BY(mutex_);
};

}  // namespace tide::agent
