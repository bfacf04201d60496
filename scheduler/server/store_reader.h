#pragma once
// Reads for people what only the store has – archived jobs, the audit – on a thread and a database
// connection of its own: the loop neither waits for it nor knows of it. A connection that fails is
// made anew for the next question. Thread rule: Ask from any thread; answers come on the reader's.

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

class StoreReader {
 public:
  using Open = std::function<Result<std::unique_ptr<Database>>()>;
  struct Question {
    // Reads, inside a transaction, and keeps what it found.
    std::function<Status(Database&)> read;
    std::function<void(const Status&)> answer;  // called exactly once
  };

  // open: makes a connection for reading.
  explicit StoreReader(Open open);
  // Answers what it has taken; what still waits gets kUnavailable.
  ~StoreReader();
  StoreReader(const StoreReader&) = delete;
  StoreReader& operator=(const StoreReader&) = delete;

  // False when too many wait already: the caller tells its client to come back.
  [[nodiscard]] bool Ask(Question question);

 private:
  void Run();
  [[nodiscard]] Status Read(const Question& question);

  const Open open_;
  std::unique_ptr<Database> database_;  // the reader's thread only; null until it is needed
  Mutex mutex_;
  Condition wake_;
  std::deque<Question> questions_ TIDE_GUARDED_BY(mutex_);
  bool stopping_ TIDE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the members above
};

// An archived job as the view would show it. Inside a transaction. Errors: kNotFound, kCorrupt.
[[nodiscard]] Result<tide::v1::Job> ReadArchivedJob(Database& database, JobId id);

}  // namespace tide
