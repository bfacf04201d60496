#pragma once
// The last answers to jobs of one class and shape, so that the next of them is not looked at again
// where nothing can be different for it.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/core/model/explanations.h"
#include "scheduler/core/policy/refusals.h"

namespace tide {

// Answer to a job, for others of its owner, and of owners who hold as much and stand as it does to
// their quotas.
struct Answer {
  uint64_t turn = 0;         // of the pass: it holds in this one
  const Job* job = nullptr;  // whose it was first
  Holding holding;           // of the job
  Standing standing = Standing::kNoRow;
  Instant since;
  Footing footing;
  size_t barred = 0;  // MaintenancePlan::CountBarred of it
  Told told;
  std::vector<Reason> found;                                    // before anybody's quotas
  std::map<uint32_t, std::shared_ptr<WaitingReasons>> reasons;  // by Quotas::RowSetOf the owner
};

using Ahead =
    std::map<std::string, std::shared_ptr<AheadList>>;  // by group: who was refused, so far

// Returns the list of a group, which is made where it is not there.
[[nodiscard]] std::shared_ptr<AheadList> AheadIn(Ahead& ahead, const std::string& group);

// Knowledge of a pass that answers are looked for with. All of it outlives them.
struct PassView {
  const ClusterState& state;
  const Policy& policy;
  Quotas& quotas;
  Ahead& ahead;  // of the class at hand
  Instant now;
};

// Reports whether a job that waits since then does not ask others of its class to leave yet.
[[nodiscard]] inline bool IsPatient(Instant since, const Policy& policy, Instant now) {
  return AsksFrom(since, policy) > now;
}

// Returns what a job is told that waits beside others, for what was found out before anybody's
// quotas.   row_set: Quotas::RowSetOf its owner.
[[nodiscard]] std::shared_ptr<WaitingReasons> ReasonsBeside(const PassView& pass,
                                                            const Job& job,
                                                            uint32_t row_set,
                                                            std::vector<Reason> found);

// The last answers to jobs of one class, by shape.
class ClassAnswers {
 public:
  //   runners: of the pass, which are only made where somebody asks.
  ClassAnswers(const PassView& pass, std::function<const Runners&()> runners)
      : pass_(pass), runners_(std::move(runners)), by_shape_(pass.state.queue.shapes()) {}

  struct Known {
    std::shared_ptr<WaitingReasons> reasons;  // nullptr: they have to be found out
    // Jobs of its owner and shape that are told the same, if nothing is special about them. Who
    // waits no longer does not ask others to leave before the one that was told it first.
    Instant since;         // they wait since then at the earliest
    int64_t slowdown = 0;  // and were slowed down so much at most
  };
  // Returns what the job would be told.
  //   turn: counts what the pass has done to the answer of a waiting job.
  //   barred: MaintenancePlan::CountBarred of it.
  [[nodiscard]] Known Find(const WaitingJob& job, uint32_t owner, uint64_t turn, size_t barred);
  // Keeps it in place of the one of its shape that nobody was told for longest.
  void Add(uint32_t shape, Answer answer);

 private:
  [[nodiscard]] bool IsFor(uint32_t owner, uint64_t turn, const Answer& answer);
  [[nodiscard]] bool StandsAs(uint32_t owner, uint64_t turn, const Answer& answer);

  [[nodiscard]] int64_t HoldsAt(const Holding& holding, uint64_t turn);

  const PassView pass_;
  const std::function<const Runners&()> runners_;
  // Runners::HoldsOf as asked last: an owner's jobs come one after the other.
  Holding asked_;
  uint64_t asked_at_ = 0;  // in that turn; 0 = not yet
  int64_t holds_ = 0;
  std::vector<std::vector<std::unique_ptr<Answer>>> by_shape_;  // told last first
};

}  // namespace tide
