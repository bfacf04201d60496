#pragma once
// A watcher of a scheduler, as the API server is one: notes when it was shown that nodes went out
// of service, and that attempts of jobs ran. What is shown is committed.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "bench/daemons/scheduler_process.h"

namespace tide::bench {

class ClusterWatch {
 public:
  // Returns once the view is whole.
  explicit ClusterWatch(const SchedulerProcess& scheduler);
  ~ClusterWatch();
  ClusterWatch(const ClusterWatch&) = delete;
  ClusterWatch& operator=(const ClusterWatch&) = delete;

  // Each blocks until it is so, with a bound; times are of CLOCK_MONOTONIC, by the first moment at
  // which it was shown.
  // Returns by node when it went out of service, of so many nodes or more.
  [[nodiscard]] std::map<std::string, int64_t> WaitForWithdrawn(size_t nodes) const;
  // Returns when so many nodes served.
  int64_t WaitForServing(size_t nodes) const;
  struct Running {
    int64_t at_ns = 0;
    uint64_t epoch = 0;
    std::map<uint32_t, std::string> nodes;  // by task
  };
  // Returns the first attempt that had all its tasks running, of those from this epoch on.
  [[nodiscard]] Running WaitForRunning(uint64_t job, uint64_t epoch) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tide::bench
