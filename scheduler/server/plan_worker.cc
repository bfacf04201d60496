#include "scheduler/server/plan_worker.h"

#include <future>
#include <utility>

namespace tide {
namespace {

constexpr size_t kQuestionsMax = 64;

struct Snapshot {
  ClusterState state;
  Instant now;
};

}  // namespace

PlanWorker::PlanWorker(Loop& loop) : loop_(loop), thread_([this] { Run(); }) {}

PlanWorker::~PlanWorker() {
  std::deque<Question> left;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    left.swap(questions_);
  }
  wake_.NotifyAll();
  thread_.join();
  for (const Question& question : left) {
    question.answer(Fail(ErrorCode::kUnavailable, "the scheduler is stopping; try again shortly"));
  }
}

bool PlanWorker::Ask(Question question) {
  {
    const MutexLock lock(mutex_);
    if (stopping_ || questions_.size() >= kQuestionsMax) {
      return false;
    }
    questions_.push_back(std::move(question));
  }
  wake_.NotifyAll();
  return true;
}

void PlanWorker::Run() {
  while (true) {
    Question question;
    {
      const MutexLock lock(mutex_);
      while (questions_.empty() && !stopping_) {
        wake_.WaitFor(mutex_, -1);
      }
      if (stopping_) {
        return;
      }
      question = std::move(questions_.front());
      questions_.pop_front();
    }
    question.answer(Plan(question));
  }
}

Result<JobPlan> PlanWorker::Plan(const Question& question) {
  std::promise<Result<Snapshot>> taken;
  std::future<Result<Snapshot>> snapshot = taken.get_future();
  Request copy;
  // The copy is what it asks of the loop, not an event: nothing is logged or committed for it.
  copy.make = [this, &taken, &question](BatchContext& batch,
                                        Reply&) -> Result<std::vector<EventBody>> {
    Status usable = loop_.secrets().Check(question.user, question.spec.secrets);
    if (usable) {  // the copy has neither folders nor jobs that are held
      usable = CheckCheckpointFolder(batch.state(), question.spec, question.user);
    }
    taken.set_value(
        usable ? Result<Snapshot>({CopyForPlan(batch.state(), question.spec.after), batch.now()})
               : std::unexpected(usable.error()));
    return std::vector<EventBody>{};
  };
  copy.done = [](const Reply&) {};
  if (!loop_.Enqueue(std::move(copy))) {
    return Fail(ErrorCode::kExhausted, "the scheduler's queue is full; try again in a second");
  }
  TIDE_ASSIGN(Snapshot of, snapshot.get());
  return PlanJob(std::move(of.state), loop_.policy(), question.spec, question.user, of.now);
}

}  // namespace tide
