#pragma once
// How much longer a job will hold its nodes: a guess with a range, since Tide asks nobody for a
// time limit. The best of what is known:
//  1. its owner's past jobs of like size that ran longer than it has so far,
//  2. everybody's,
//  3. the law of elapsed time: a job that has run for t runs for t more as often as not,
//     P(more than r to go) = t / (t + r), the Pareto law with exponent 1. On the public traces half
//     to two thirds of the jobs that had run for one day or three ran for twice as long, and 0.7 to
//     0.96 of those that had run for 4 hours or less: it says too little rather than too much of
//     young jobs, and is asked only where few past jobs ran as long.
// A limit that the job states bounds all three.

#include <array>
#include <map>
#include <span>
#include <vector>

#include "scheduler/core/model/run_history.h"

namespace tide {

// What of an estimate is asked: the end of the range, or what is most likely.
enum class Outlook : uint8_t {
  kEarly,
  kLikely,
  kLate,
};
inline constexpr size_t kOutlooks = 3;

enum class RunTimeBasis : uint8_t {
  kLimit,    // max_runtime, and nothing else is known
  kOwnRuns,  // its owner's past jobs
  kAllRuns,  // everybody's
  kElapsed,  // nothing but how long it has run
};

struct Remaining {
  std::array<Duration, kOutlooks> spans;  // rising; never below zero
  RunTimeBasis basis = RunTimeBasis::kElapsed;
  bool operator==(const Remaining&) const = default;
};

class RunTimes {
 public:
  using Spans = std::vector<Duration>;       // rising
  using BySize = std::map<uint32_t, Spans>;  // by SizeClassOf

  // Cost: O(past runs).
  explicit RunTimes(const RunHistory& history);

  // Of an owner; nullptr = it has none. Cost: O(log owners).
  [[nodiscard]] const BySize* OwnRuns(const std::string& project, const std::string& user) const;
  //   own: of OwnRuns.
  //   ran: over all attempts up to now. A job that waits to start again goes on from there.
  //   Cost: O(log past runs).
  [[nodiscard]] Remaining Of(const Job& job, const BySize* own, Duration ran) const;
  [[nodiscard]] Remaining Of(const Job& job, Duration ran) const {
    return Of(job, OwnRuns(job.spec->project, job.user), ran);
  }

 private:
  std::map<RunHistory::Owner, BySize> own_;
  BySize all_;
};

}  // namespace tide
