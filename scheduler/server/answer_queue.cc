#include "scheduler/server/answer_queue.h"

#include <utility>

namespace tide {

AnswerQueue::AnswerQueue() : thread_([this] { Run(); }) {}

AnswerQueue::~AnswerQueue() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  thread_.join();
}

void AnswerQueue::Add(std::function<void()> answer) {
  bool first = false;
  {
    const MutexLock lock(mutex_);
    first = answers_.empty();
    answers_.push_back(std::move(answer));
  }
  if (first) {
    wake_.NotifyAll();
  }
}

void AnswerQueue::Run() {
  while (true) {
    std::vector<std::function<void()>> answers;
    {
      const MutexLock lock(mutex_);
      while (answers_.empty() && !stopping_) {
        wake_.WaitFor(mutex_, -1);
      }
      answers.swap(answers_);
    }
    if (answers.empty()) {
      return;
    }
    for (const auto& answer : answers) {
      answer();
    }
  }
}

}  // namespace tide
