#pragma once
// The jobs of one owner in one class, one by one in the owner's order. Of jobs that are alike the
// first is handed out; the others only where what it was told does not hold for them.

#include <optional>
#include <vector>

#include "scheduler/core/model/waiting.h"

namespace tide {

// Jobs of one owner in one class, in its own order.
struct OwnerJobs {
  using Singles = std::deque<WaitingJob>;

  uint32_t owner = 0;  // of ClusterState::owners
  // nullptr: there are none of the kind; not all are.
  const std::vector<AlikeJobs>* alike = nullptr;
  const std::vector<VariedJobs>* varied = nullptr;
  const Singles* singles = nullptr;
  int64_t use = 0;           // lately, as Shares::UseOf has it
  bool after_fault = false;  // some of the singles may be

  // Returns the number of the first of them.
  [[nodiscard]] JobId First() const;
  // Have the memory fetched that a cursor reads first, while the pass does other things: where it
  // begins, and then, once that is there, what it reads after that.
  void PrefetchPlaces() const;
  void PrefetchJobs() const;
};

class OwnerCursor {
 public:
  // Begins with the first of them. What they point to must outlive it.   Cost: O(kinds of them).
  void Begin(const OwnerJobs& jobs);
  // Returns nullptr at the end. What it points to stays until the next call.
  //   Cost: O(log kinds).
  [[nodiscard]] const WaitingJob* Next();
  // Returns the bundle that the job that came last is of; nothing: it is a single.
  [[nodiscard]] std::optional<Bundle> bundle() const {
    return source_ == kSingle ? std::nullopt : std::optional(Bundle{last_.shape, IsVaried()});
  }
  // Passes over those of its bundle after the job that came last, up to the first that the answer
  // it was given may not hold for.
  void PassOver(const AnswerReach& reach);
  // Takes up again what was passed over, as far as it comes after the job that came last: what that
  // one's likes were told holds no more.
  void TakeUp();

 private:
  static constexpr size_t kSingle = SIZE_MAX;

  // The next job of a source.
  struct Head {
    JobId id;
    size_t source = 0;  // a bundle: of jobs_.alike, then of jobs_.varied
    size_t place = 0;   // in it
  };
  static bool ComesAfter(const Head& a, const Head& b) { return a.id > b.id; }
  void Push(size_t source, size_t place);
  [[nodiscard]] size_t Alikes() const { return jobs_.alike == nullptr ? 0 : jobs_.alike->size(); }
  [[nodiscard]] bool IsVaried() const { return source_ >= Alikes(); }
  // Calls `ask` with the bundle.
  template <typename Ask>
  auto OfBundle(size_t source, const Ask& ask) const {
    return source < Alikes() ? ask((*jobs_.alike)[source])
                             : ask((*jobs_.varied)[source - Alikes()]);
  }

  OwnerJobs jobs_;
  size_t next_single_ = 0;
  std::vector<Head> heads_;  // a heap, the first on top
  WaitingJob last_;
  size_t source_ = kSingle;     // of the job that came last
  size_t next_place_ = 0;       // in that source; not among the heads yet
  std::vector<size_t> passed_;  // sources of which some were passed over
};

}  // namespace tide
