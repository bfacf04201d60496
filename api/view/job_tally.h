#pragma once
// How many jobs of a part of the view are in which state, by array: so lists and arrays of a
// hundred thousand jobs are counted without a look at each of them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "api/view/json.h"
#include "tide/v1/types.pb.h"

namespace tide::api {

// States, then the outcomes of finished jobs: what a person calls a job by.
inline constexpr size_t kJobWords =
    static_cast<size_t>(tide::v1::JobState_MAX) + 1 + tide::v1::Outcome_MAX + 1;
static_assert(kJobWords <= 32, "sets of them are 32 bits");

// Returns the word's index; that of "unspecified" for what only a newer scheduler knows.
[[nodiscard]] inline size_t JobWordOf(tide::v1::Outcome outcome) {
  const bool known = tide::v1::Outcome_IsValid(outcome);
  return static_cast<size_t>(tide::v1::JobState_MAX) + 1 +
         (known ? static_cast<size_t>(outcome) : 0);
}
[[nodiscard]] inline size_t JobWordOf(const tide::v1::Job& job) {
  if (job.state() == tide::v1::JOB_STATE_FINISHED) {
    return JobWordOf(job.outcome());
  }
  return tide::v1::JobState_IsValid(job.state()) ? static_cast<size_t>(job.state()) : 0;
}
[[nodiscard]] inline std::string JobWordText(size_t word) {
  constexpr size_t kStates = static_cast<size_t>(tide::v1::JobState_MAX) + 1;
  return word < kStates ? StateWord(static_cast<tide::v1::JobState>(word))
                        : OutcomeWord(static_cast<tide::v1::Outcome>(word - kStates));
}

class JobTally {
 public:
  using Counts = std::array<uint32_t, kJobWords>;  // by word

  //   Row: of a job.
  template <typename Row>
  void Add(const Row& row) {
    ++by_array_[row.message.array()][JobWordOf(row.message)];
  }
  template <typename Row>
  void Remove(const Row& row) {
    const auto counts = by_array_.find(row.message.array());
    --counts->second[JobWordOf(row.message)];
    if (counts->second == Counts{}) {
      by_array_.erase(counts);
    }
  }
  // Under 0 jobs of no array. None is all zeros.
  [[nodiscard]] const std::map<uint64_t, Counts>& by_array() const { return by_array_; }

 private:
  std::map<uint64_t, Counts> by_array_;
};

}  // namespace tide::api
