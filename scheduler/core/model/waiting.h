#pragma once
// The waiting jobs as decisions read them: a few words for each, side by side, in buckets
// by class and owner. A pass over ten thousand of them does not open ten thousand jobs.

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "scheduler/core/model/job.h"
#include "scheduler/core/model/owners.h"
#include "scheduler/core/model/slowdown.h"

namespace tide {

// All that decides where a job may run, and the class it asks for. Many jobs have the same.
struct JobShape {
  std::string group;
  std::string zone;
  uint32_t nodes = 1;
  uint32_t gpus_per_node = 0;
  uint32_t cpus_per_node = 0;
  uint64_t memory_bytes_per_node = 0;
  uint64_t disk_bytes_per_node = 0;
  std::string gpu_model;
  int32_t priority = 0;
  auto operator<=>(const JobShape&) const = default;
};
[[nodiscard]] JobShape ShapeOf(const JobSpec& spec);

struct WaitingJob {
  JobId id;
  Instant since;
  int64_t rank = 0;    // Job::queue_rank
  uint32_t shape = 0;  // of JobShapes
  // Nothing is special about it: no claim, no back-off, no one it waits for, no failure behind it.
  // Two plain jobs of one owner, class and shape have the same answer.
  bool plain = false;
  bool has_run = false;
  bool after_fault = false;  // one ended its last attempt
  Slowdown slowdown;
  bool operator==(const WaitingJob&) const = default;
};

// In the order of their owner: as the owner has moved them, then first come (user_order.h).
[[nodiscard]] inline bool ComesBefore(const WaitingJob& a, const WaitingJob& b) {
  return std::tuple(a.rank, a.id) < std::tuple(b.rank, b.id);
}

// Numbers for shapes, from 0 and kept small: that of a shape nobody has any more is given again.
class JobShapes {
 public:
  uint32_t Add(const JobShape& shape);
  void Remove(const JobShape& shape);
  // No number is as high.
  [[nodiscard]] size_t bound() const { return bound_; }

 private:
  struct Users {
    uint32_t number = 0;
    size_t count = 0;
  };
  std::map<JobShape, Users> shapes_;
  std::vector<uint32_t> free_;
  uint32_t bound_ = 0;
};

class WaitingJobs {
 public:
  struct Key {
    int32_t priority = 0;  // the class it asks for
    uint32_t owner = 0;    // of ClusterState::owners
    auto operator<=>(const Key&) const = default;
  };
  using Bucket = std::deque<WaitingJob>;  // in the order of their owner
  using Buckets = std::map<Key, Bucket>;  // none is empty

  // `job` of `owner` waits. Again: what was special about it has changed.
  void Put(const Job& job, uint32_t owner);
  // It waits no more, or is about to change its rank. Cost of both: O(log jobs + jobs of its owner
  // and class).
  void Remove(const Job& job, uint32_t owner);
  void Clear() { *this = WaitingJobs(); }

  [[nodiscard]] const Buckets& buckets() const { return buckets_; }
  [[nodiscard]] size_t shapes() const { return shapes_.bound(); }
  // The same jobs in the same order; numbers of shapes and owners may differ.
  [[nodiscard]] bool SameJobs(const Owners& owners,
                              const WaitingJobs& other,
                              const Owners& owners_of_other) const;

 private:
  Buckets buckets_;
  JobShapes shapes_;
};

}  // namespace tide
