#pragma once
// Reads archived jobs back for people, on a thread and a database connection of its own: the loop
// neither waits for it nor knows of it. A connection that fails is made anew for the next question.
// Thread rule: Ask from any thread; answers come on the reader's.

#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "scheduler/store/database.h"
#include "tide/v1/types.pb.h"

namespace tide {

class ArchiveReader {
 public:
  using Open = std::function<Result<std::unique_ptr<Database>>()>;
  struct Question {
    JobId job;
    std::function<void(const Result<tide::v1::Job>&)> answer;  // called exactly once
  };

  // open: makes a connection for reading.
  explicit ArchiveReader(Open open);
  // Answers what it has taken; what still waits gets kUnavailable.
  ~ArchiveReader();
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  // False when too many wait already: the caller tells its client to come back.
  [[nodiscard]] bool Ask(Question question);

 private:
  void Run();
  [[nodiscard]] Result<tide::v1::Job> Read(JobId job);

  const Open open_;
  std::unique_ptr<Database> database_;  // the reader's thread only; null until it is needed
  Mutex mutex_;
  Condition wake_;
  std::deque<Question> questions_ TIDE_GUARDED_BY(mutex_);
  bool stopping_ TIDE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace tide
