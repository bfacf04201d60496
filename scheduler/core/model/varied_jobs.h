#pragma once
// Jobs of one owner and shape about which nothing is special, each with a wait and a slowdown of
// its own: nearly all of them have run before. Blocks of them know how long and how much at most,
// so that what one of them was told is passed on to most of the others without a look at each.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduler/core/model/slowdown_bound.h"
#include "scheduler/core/model/waiting_job.h"

namespace tide {

class VariedJobs {
 public:
  // Reports whether it may be one of some.
  [[nodiscard]] static bool Takes(const WaitingJob& job);

  explicit VariedJobs(uint32_t shape) : shape_(shape) {}

  [[nodiscard]] uint32_t shape() const { return shape_; }
  [[nodiscard]] bool empty() const { return blocks_.empty(); }
  // Returns the first of them, if there is one.
  [[nodiscard]] JobId first() const { return first_.id; }

  // Has the memory fetched that a pass over them reads first, while it does other things.
  void Prefetch() const;

  // Places rise in the order of their owner, from 0; any change makes them meaningless.
  [[nodiscard]] size_t end() const { return blocks_.size() * kBlock; }
  // Returns the place after one that is not the end.
  [[nodiscard]] size_t Next(size_t place) const { return At(place / kBlock, place % kBlock + 1); }
  //   place: not the end.
  [[nodiscard]] WaitingJob operator[](size_t place) const;
  // Returns the place of the first job that comes after one of such a rank and number.
  [[nodiscard]] size_t After(int64_t rank, JobId id) const;
  // Returns the place, from that one on, of the first job that an answer may not hold for.
  //   Cost: O(blocks passed + kBlock).
  [[nodiscard]] size_t Beyond(const AnswerReach& reach, size_t from) const;
  [[nodiscard]] bool Has(JobId id) const;

  // Adds a job that is not there and that Takes.   Cost of both: O(blocks + kBlock).
  void Insert(const WaitingJob& job);
  // Takes a job out that is there, and returns since when it waited.
  Instant Remove(JobId id);

 private:
  static constexpr size_t kBlock = 64;  // jobs in one at most

  struct Line {
    JobId id;
    Instant since;
    Slowdown slowdown;
    bool has_run = false;
  };
  struct Block {
    // Bounds of all its jobs, and of the few that it had lately.
    Instant first_since = Instant::Never();
    Instant last_since;
    SlowdownBound slowdown;
    size_t gone = 0;          // of those few
    std::vector<Line> lines;  // ascending by id, not empty
  };
  static void Bound(Block& block, const Line& line);
  // Works the bounds out anew.
  static void BoundAll(Block& block);
  // Returns the place of the slot, or that of the next block's first.
  [[nodiscard]] size_t At(size_t block, size_t slot) const {
    return slot < blocks_[block].lines.size() ? block * kBlock + slot : (block + 1) * kBlock;
  }
  [[nodiscard]] WaitingJob Open(const Line& line) const;
  // Returns the block that has the job or would have it; not for an empty set.
  [[nodiscard]] size_t BlockOf(JobId id) const;
  void Split(size_t block);

  uint32_t shape_;
  Line first_;  // a copy: a pass that opens the first reads no more memory than this object
  std::vector<Block> blocks_;
};

}  // namespace tide
