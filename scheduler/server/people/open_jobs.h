#pragma once
// How many jobs of each user and project have not finished, and how many each may have: what fills
// the queue, the store and every reader's memory. Elements of an array are jobs. Thread rule: the
// loop's.

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "common/base/result.h"
#include "scheduler/core/model/state.h"

namespace tide {

struct JobLimits {
  uint64_t of_user = 50'000;
  uint64_t of_project = 200'000;
};

class OpenJobs {
 public:
  explicit OpenJobs(JobLimits limits = {}) : limits_(limits) {}

  // Counts a job as it is now.
  void Note(const Job& job);
  // Jobs that were promised are there now, or were refused after all.
  void EndTurn();
  // Promises room for `count` more, until the end of the turn.
  //   Errors: kLimitReached, saying which limit and who can raise it.
  [[nodiscard]] Status Promise(const std::string& user, const JobSpec& spec);

 private:
  struct Counts {
    std::map<std::string, uint64_t> of_user;
    std::map<std::string, uint64_t> of_project;
  };
  const JobLimits limits_;
  std::set<JobId> open_;
  Counts there_;
  Counts promised_;
};

}  // namespace tide
