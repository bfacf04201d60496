#pragma once
// Answers callers on a thread of its own, in the order in which the loop gives the answers: to put
// one into bytes, encrypt and send it costs as much as to decide about the job, and the loop's next
// turn can begin meanwhile.

#include <functional>
#include <thread>
#include <vector>

#include "common/base/mutex.h"

namespace tide {

class AnswerQueue {
 public:
  AnswerQueue();
  // Gives all answers that are left.
  ~AnswerQueue();
  AnswerQueue(const AnswerQueue&) = delete;
  AnswerQueue& operator=(const AnswerQueue&) = delete;

  // Any thread.
  void Add(std::function<void()> answer);

 private:
  void Run();

  Mutex mutex_;
  Condition wake_;
  std::vector<std::function<void()>> answers_ TIDE_GUARDED_BY(mutex_);
  bool stopping_ TIDE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace tide
