#pragma once
// Bounds what the scratch folders of one user's tasks take of this node's disk, which all share. A
// thread of its own looks now and then, as a job may leave millions of files; so a limit may be
// passed by what is written between two looks.
//
// Threads: the agent's loop thread calls; `over` is called by the watch's own.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "common/base/disk_use.h"
#include "common/base/mutex.h"
#include "common/base/time.h"

namespace tide::agent {

struct ScratchUse {
  std::string user;
  DiskUse disk;
};
struct OverLimit {
  std::string key;  // of the task
  std::string why;  // for people
};
// Returns of each user whose tasks hold more than `limit` the one that holds most, and those that
// cannot be counted.
[[nodiscard]] std::vector<OverLimit> FindOverLimit(const std::map<std::string, ScratchUse>& by_key,
                                                   uint64_t limit);

class ScratchWatch {
 public:
  using Over = std::function<void(const OverLimit&)>;

  //   folder: holds the scratch folders, by task key.
  //   limit: bytes for one user; 0 = any.
  //   every: the least time between looks; they take a tenth of a thread's time at most.
  ScratchWatch(std::string folder,
               uint64_t limit,
               Over over,
               Duration every = Duration::Seconds(10));
  ~ScratchWatch();
  ScratchWatch(const ScratchWatch&) = delete;
  ScratchWatch& operator=(const ScratchWatch&) = delete;

  void Add(const std::string& key, const std::string& user);
  void Forget(const std::string& key);

 private:
  void Run();
  void Look();

  const std::string folder_;
  const uint64_t limit_;
  const Over over_;
  const Duration every_;
  Mutex mutex_;
  Condition changed_;
  bool ending_ TIDE_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::string> users_ TIDE_GUARDED_BY(mutex_);  // by task key
  std::thread thread_;                                                // last: uses the rest
};

}  // namespace tide::agent
