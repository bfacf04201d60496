#pragma once
// The last answers to jobs of one class and shape, so that the next of them is not looked at again
// where nothing can be different for it.

#include <algorithm>
#include <utility>
#include <vector>

#include "scheduler/core/policy/refusals.h"

namespace tide {

// Reasons why a job waits. The list is made anew only when more jobs stand before it.
class WaitingReasons {
 public:
  WaitingReasons() = default;
  //   ahead: who was refused before it in its group, so far; must outlive this. nullptr: it stands
  //   in no order.
  WaitingReasons(std::vector<Reason> own, const std::vector<JobId>* ahead)
      : own_(std::move(own)), ahead_(ahead) {}

  [[nodiscard]] const ReasonList& List() {
    const size_t count = ahead_ == nullptr ? 0 : ahead_->size();
    if (counted_ != count) {
      counted_ = count;
      std::vector<Reason> all = own_;
      if (count > 0) {
        all.push_back({.code = ReasonCode::kOrderAhead,
                       .other = ahead_->front(),
                       .count = static_cast<uint32_t>(count)});
      }
      list_ = ReasonList(std::move(all));
    }
    return list_;
  }

 private:
  std::vector<Reason> own_;
  const std::vector<JobId>* ahead_ = nullptr;
  size_t counted_ = SIZE_MAX;  // of those before it, in `list_`
  ReasonList list_;
};

// Answer to a job, for others of its owner, and where there are no quotas of owners who hold as
// much.
struct Answer {
  uint64_t turn = 0;  // of the pass: it holds in this one
  Holding holding;    // of the job
  Instant since;
  Footing footing;
  bool patient = false;
  Told told;
  WaitingReasons reasons;
};

class Answers {
 public:
  // Returns the first for which `holds`; nullptr: there is none.
  [[nodiscard]] Answer* Find(const auto& holds) {
    const auto it = std::ranges::find_if(answers_, holds);
    if (it == answers_.end()) {
      return nullptr;
    }
    if (it != answers_.begin()) {
      std::swap(*it, *std::prev(it));  // what is asked for often is found soon
      return &*std::prev(it);
    }
    return &*it;
  }
  // Keeps it in place of the one that is asked for least.
  void Add(Answer answer) {
    constexpr size_t kKept = 8;  // no one of them holds for all that come after it
    if (answers_.size() == kKept) {
      answers_.pop_back();
    }
    answers_.push_back(std::move(answer));
  }

 private:
  std::vector<Answer> answers_;
};

}  // namespace tide
