#pragma once
// Why jobs wait, as one decision found out. Of jobs that are alike it is kept once, and made out
// for one of them where somebody asks.

#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "scheduler/core/model/explanation.h"
#include "scheduler/core/model/state.h"

namespace tide {

// A job that was refused before others of its group and class.
struct AheadJob {
  JobId id;
  int64_t rank = 0;   // Job::queue_rank
  uint64_t turn = 0;  // of its owner: WaitingOrder::turn
};

// Jobs that were refused in one group of a class, as they were looked at.
class AheadList {
 public:
  [[nodiscard]] size_t size() const { return jobs_.size(); }
  [[nodiscard]] bool empty() const { return jobs_.empty(); }
  [[nodiscard]] JobId front() const { return jobs_.front().id; }
  void Add(const AheadJob& job) { jobs_.push_back(job); }
  // Returns how many stand before a job of rank 0 that would have been looked at in that turn of
  // its owner, later than the first `from` of them.
  [[nodiscard]] size_t CountBefore(JobId job, uint64_t turn, size_t from) const;

 private:
  std::vector<AheadJob> jobs_;
};

// Reasons why a job waits. The list is made anew only where more jobs stand before it.
class WaitingReasons {
 public:
  WaitingReasons() = default;
  //   ahead: who was refused before it in its group, so far; nullptr: it stands in no order.
  WaitingReasons(std::vector<Reason> own, std::shared_ptr<const AheadList> ahead)
      : own_(std::move(own)), ahead_(std::move(ahead)) {}

  [[nodiscard]] size_t CountAhead() const { return ahead_ == nullptr ? 0 : ahead_->size(); }
  [[nodiscard]] const AheadList* ahead() const { return ahead_.get(); }
  // Returns them with as many jobs ahead.
  [[nodiscard]] const ReasonList& List(size_t count);

 private:
  std::vector<Reason> own_;
  std::shared_ptr<const AheadList> ahead_;
  size_t counted_ = SIZE_MAX;  // of those before it, in `list_`
  ReasonList list_;
};

class Explanations {
 public:
  void Add(JobId job, ReasonList reasons) {
    singles_.push_back({job, std::move(reasons)});
    sorted_ = false;
  }
  // Records what a job of a bundle is told, and those after it up to the next for which something
  // was added.
  //   turn: of their owner.
  void AddBundle(const WaitingJobs::Key& queue,
                 const Bundle& bundle,
                 JobId first,
                 std::shared_ptr<WaitingReasons> reasons,
                 uint64_t turn);
  // Jobs that come later are not explained.
  void Close(const ClusterState& state) { end_ = JobId(state.next_job_id); }

  // Returns nothing for a job that it knows nothing of.
  //   state: as it was decided about, or later; the job waits.
  //   Cost: O(log); the first time after it was made O(jobs × log).
  [[nodiscard]] std::optional<ReasonList> Of(const ClusterState& state, JobId job) const;
  // Returns them all, by job. Of jobs that are alike those that still wait.
  [[nodiscard]] std::vector<Explanation> All(const ClusterState& state) const;
  [[nodiscard]] bool empty() const { return singles_.empty() && alike_.empty(); }

 private:
  struct Alike {
    WaitingJobs::Key queue;
    Bundle bundle;
    JobId from;
    uint64_t turn = 0;
    size_t ahead = 0;  // of the first of them
    std::shared_ptr<WaitingReasons> reasons;
    [[nodiscard]] auto Place() const { return std::tuple(queue, bundle, from); }
  };
  void Sort() const;
  // Returns what the job is told, which is one of such jobs; nullptr: nothing.
  [[nodiscard]] const Alike* Find(const WaitingJobs::Key& queue,
                                  const Bundle& bundle,
                                  JobId job) const;
  template <typename Jobs>
  void AddAll(const WaitingJobs::Key& queue,
              const Bundle& bundle,
              const Jobs& jobs,
              std::vector<Explanation>& all) const;
  [[nodiscard]] static ReasonList ListFor(const Alike& alike, JobId job);

  // Sorted where somebody asks.
  mutable std::vector<Explanation> singles_;
  mutable std::vector<Alike> alike_;
  mutable bool sorted_ = true;
  JobId end_;
};

}  // namespace tide
