#include "scheduler/core/policy/answers.h"

#include <algorithm>
#include <iterator>

#include "scheduler/core/policy/nearest_change.h"

namespace tide {
namespace {

constexpr size_t kKept = 8;  // of a shape: no one of them holds for all that come after it

}  // namespace

std::shared_ptr<WaitingReasons> ReasonsBeside(const PassView& pass,
                                              const Job& job,
                                              uint32_t row_set,
                                              std::vector<Reason> found) {
  if (!pass.policy.quotas.empty()) {
    KeepOpenClasses(pass.quotas, row_set, job, found);
  }
  return std::make_shared<WaitingReasons>(std::move(found), AheadIn(pass.ahead, job.spec->group));
}

std::shared_ptr<AheadList> AheadIn(Ahead& ahead, const std::string& group) {
  std::shared_ptr<AheadList>& list = ahead[group];
  if (list == nullptr) {
    list = std::make_shared<AheadList>();
  }
  return list;
}

ClassAnswers::Known ClassAnswers::Find(const WaitingJob& job,
                                       uint32_t owner,
                                       uint64_t turn,
                                       size_t barred) {
  if (!job.plain) {
    return {};
  }
  std::optional<int64_t> slowdown;
  std::vector<std::unique_ptr<Answer>>& answers = by_shape_[job.shape];
  auto known = std::ranges::find_if(answers, [&](const auto& each) {
    const Answer& answer = *each;
    if (answer.barred != barred || job.since < answer.since || !IsFor(owner, turn, answer)) {
      return false;
    }
    if (!slowdown) {
      slowdown = job.slowdown.At(pass_.now, pass_.policy.minimum_run);
    }
    return *slowdown <= answer.footing.slowdown;
  });
  if (known == answers.end()) {
    return {};
  }
  std::rotate(answers.begin(), known, std::next(known));
  Answer& answer = *answers.front();
  const uint32_t row_set = pass_.quotas.RowSetOf(owner);
  auto reasons = answer.reasons.find(row_set);
  if (reasons == answer.reasons.end()) {
    reasons =
        answer.reasons.emplace(row_set, ReasonsBeside(pass_, *answer.job, row_set, answer.found))
            .first;
  }
  return {reasons->second, answer.since, answer.footing.slowdown};
}

void ClassAnswers::Add(uint32_t shape, Answer answer) {
  std::vector<std::unique_ptr<Answer>>& answers = by_shape_[shape];
  if (answers.size() == kKept) {
    answers.pop_back();
  }
  answers.insert(answers.begin(), std::make_unique<Answer>(std::move(answer)));
}

// Reports whether what one of its shape was told holds for a job of this owner, too.
bool ClassAnswers::IsFor(uint32_t owner, uint64_t turn, const Answer& answer) {
  const bool own = answer.holding.owner == owner;
  if (answer.turn == turn && own) {
    return true;
  }
  // Nodes that others took since are no more for it; only its quota, or what its owner holds, may
  // have changed in its favour.
  const Holding holding{owner, answer.holding.group, answer.holding.priority};
  return StandsAs(owner, turn, answer) && HoldsAt(holding, turn) >= answer.footing.holds &&
         (own || HoldsFor(pass_.state.owners.UserNumber(owner), answer.told));
}

int64_t ClassAnswers::HoldsAt(const Holding& holding, uint64_t turn) {
  if (asked_at_ != turn || asked_ != holding) {
    asked_ = holding;
    asked_at_ = turn;
    holds_ = runners_().HoldsOf(holding);
  }
  return holds_;
}

// Reports whether a job of this owner stands to its quotas as the one that was told it.
bool ClassAnswers::StandsAs(uint32_t owner, uint64_t turn, const Answer& answer) {
  if (pass_.policy.quotas.empty()) {
    return true;
  }
  if (answer.turn != turn) {
    return false;
  }
  const uint32_t row_set = pass_.quotas.RowSetOf(owner);
  return answer.reasons.contains(row_set) ||
         (answer.standing != Standing::kOverLimit && answer.job->spec->priority != kAutoPriority &&
          pass_.quotas.Check(row_set, *answer.job) == answer.standing);
}

}  // namespace tide
