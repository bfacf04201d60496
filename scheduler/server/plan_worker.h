#pragma once
// Answers "what would this job do?" (core/whatif.h) on a thread of its own. The loop gives a copy
// of its state and goes on; the decisions on that copy are made here. One question is worked on at
// a time, so a turn of the loop pays for one copy at most, however many are asked.
// Thread rule: Ask from any thread; answers come on the worker's.

#include <deque>
#include <functional>
#include <thread>

#include "common/base/mutex.h"
#include "scheduler/core/whatif.h"
#include "scheduler/server/loop.h"

namespace tide {

class PlanWorker {
 public:
  struct Question {
    JobSpec spec;
    std::string user;
    std::function<void(const Result<JobPlan>&)> answer;  // called exactly once
  };

  // `loop` must outlive it.
  explicit PlanWorker(Loop& loop);
  // Answers what it has taken; what still waits gets kUnavailable.
  ~PlanWorker();
  PlanWorker(const PlanWorker&) = delete;
  PlanWorker& operator=(const PlanWorker&) = delete;

  // False when too many wait already: the caller tells its client to come back.
  [[nodiscard]] bool Ask(Question question);

 private:
  void Run();
  [[nodiscard]] Result<JobPlan> Plan(const Question& question);

  Loop& loop_;
  Mutex mutex_;
  Condition wake_;
  std::deque<Question> questions_ TIDE_GUARDED_BY(mutex_);
  bool stopping_ TIDE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace tide
