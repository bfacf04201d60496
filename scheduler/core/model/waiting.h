#pragma once
// The waiting jobs as decisions read them: a few words for each, side by side, by class and owner.
// A pass over them opens few jobs, and of those that are alike it looks at the first alone.

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/sorted_blocks.h"
#include "scheduler/core/model/job.h"
#include "scheduler/core/model/owners.h"
#include "scheduler/core/model/varied_jobs.h"
#include "scheduler/core/model/waiting_job.h"

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

// Numbers for shapes, from 0 and kept small: that of a shape nobody has any more is given again.
class JobShapes {
 public:
  uint32_t Add(const JobShape& shape);
  void Remove(const JobShape& shape);
  // Returns the number of a shape; nothing: nobody has it.
  [[nodiscard]] std::optional<uint32_t> Find(const JobShape& shape) const;
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

// Jobs of one owner and shape about which nothing is special, which have not run, and which wait no
// longer than those before them. Number and time say all there is to know of such a job, and what
// the first of them is told is true of the others.
class AlikeJobs {
 public:
  explicit AlikeJobs(uint32_t shape) : shape_(shape) {}

  [[nodiscard]] uint32_t shape() const { return shape_; }
  [[nodiscard]] size_t size() const { return lines_.size(); }
  [[nodiscard]] WaitingJob operator[](size_t place) const;
  [[nodiscard]] JobId first() const { return first_.id; }
  // Returns the place of the first job that comes after one of such a rank and number.
  [[nodiscard]] size_t After(int64_t rank, JobId id) const;
  // Returns the place, from that one on, of the first job that waits since later than that.
  [[nodiscard]] size_t LaterThan(Instant since, size_t from) const;
  // Returns the place, from that one on, of the first job that an answer may not hold for which
  // holds for the one before it.
  [[nodiscard]] size_t Beyond(const AnswerReach& reach, size_t from) const {
    return LaterThan(reach.last_since, from);
  }
  [[nodiscard]] size_t end() const { return lines_.size(); }
  [[nodiscard]] static size_t Next(size_t place) { return place + 1; }
  [[nodiscard]] bool Has(JobId id) const;

  // Returns whether it is one of them from now on.
  bool Insert(const WaitingJob& job);
  void Remove(JobId id);

 private:
  struct Line {
    JobId id;
    Instant since;
  };
  void NoteEnds();

  uint32_t shape_;
  // Copies: a pass that looks at the ends alone reads no more memory than this object.
  Line first_;
  Line last_;
  std::deque<Line> lines_;  // ascending by both
};

// Jobs that one owner has waiting in one class.
struct OwnerQueue {
  std::vector<AlikeJobs> alike;    // by shape; none is empty
  std::vector<VariedJobs> varied;  // by shape; none is empty
  std::deque<WaitingJob> singles;  // all others, in the order of their owner
  size_t after_fault = 0;          // how many of those are

  [[nodiscard]] bool empty() const { return alike.empty() && varied.empty() && singles.empty(); }
  // Returns all of them in the order of their owner.   Cost: O(jobs × log).
  [[nodiscard]] std::vector<WaitingJob> InOrder() const;
  // Returns those that are not in `alike`.   Cost: as InOrder.
  [[nodiscard]] std::vector<WaitingJob> InOrderButAlike() const;
};

// Jobs of one owner and class that are told the same, most of them, and explained together.
struct Bundle {
  uint32_t shape = 0;
  bool varied = false;  // they are VariedJobs; else AlikeJobs
  auto operator<=>(const Bundle&) const = default;
};

class WaitingJobs {
 public:
  struct Key {
    int32_t priority = 0;  // the class it asks for
    uint32_t owner = 0;    // of ClusterState::owners
    auto operator<=>(const Key&) const = default;
  };
  using Queues = std::map<Key, OwnerQueue>;  // none is empty

  // `job` of `owner` waits. Again: what was special about it has changed.
  void Put(const Job& job, uint32_t owner);
  // It waits no more, or is about to change its rank. Cost of both: O(log jobs + jobs of its owner
  // and class).
  void Remove(const Job& job, uint32_t owner);
  void Clear() { *this = WaitingJobs(); }

  [[nodiscard]] const Queues& queues() const { return queues_; }
  [[nodiscard]] size_t shapes() const { return shapes_.bound(); }
  // Returns the bundle that a job is in; nothing: it is a single.
  [[nodiscard]] std::optional<Bundle> BundleOf(const Job& job, uint32_t owner) const;
  // Returns since when the first of all VariedJobs waits that waits since later than that; not set:
  // there is none.
  [[nodiscard]] Instant FirstVariedAfter(Instant since) const;
  // The same jobs in the same order; numbers of shapes and owners may differ.
  [[nodiscard]] bool SameJobs(const Owners& owners,
                              const WaitingJobs& other,
                              const Owners& owners_of_other) const;

 private:
  // Returns whether the job was there, and took it out.
  bool TakeOut(OwnerQueue& queue, const Job& job, uint32_t shape);
  // Adds a job that is not there.
  void Insert(OwnerQueue& queue, const WaitingJob& line);
  void InsertVaried(OwnerQueue& queue, const WaitingJob& line);

  Queues queues_;
  JobShapes shapes_;
  SortedBlocks<std::pair<Instant, JobId>> varied_since_;  // since when all VariedJobs wait
};

}  // namespace tide
