#include "scheduler/server/store_reader.h"

#include <algorithm>
#include <utility>

#include "proto/wire/state.h"
#include "scheduler/store/archive.h"

namespace tide {
namespace {

constexpr size_t kReadsMax = 64;
constexpr Duration kReadPatience = Duration::Seconds(5);

}  // namespace

Result<tide::v1::Job> ReadArchivedJob(Database& database, JobId id) {
  TIDE_ASSIGN(const Job job, LoadArchivedJob(database, id));
  ClusterState names;  // all that a message of a job takes of the state
  TIDE_ASSIGN(names.nodes, LoadNodeNames(database));
  const bool known = std::ranges::all_of(job.attempts, [&](const Attempt& attempt) {
    return std::ranges::all_of(
        attempt.tasks, [&](const Task& task) { return names.FindNode(task.node) != nullptr; });
  });
  if (!known) {
    return Fail(ErrorCode::kCorrupt,
                FormatJobName(id.value()) + " is archived with a task on a node that is missing");
  }
  tide::v1::Job message = wire::ToProto(names, job);
  message.set_step(job.checkpoint.step);
  return message;
}

StoreReader::StoreReader(Open open) : open_(std::move(open)), thread_([this] { Run(); }) {}

StoreReader::~StoreReader() {
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

bool StoreReader::Ask(Question question) {
  {
    const MutexLock lock(mutex_);
    if (stopping_ || questions_.size() >= kReadsMax) {
      return false;
    }
    questions_.push_back(std::move(question));
  }
  wake_.NotifyAll();
  return true;
}

void StoreReader::Run() {
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
    question.answer(Read(question));
  }
}

Status StoreReader::Read(const Question& question) {
  if (database_ == nullptr) {
    TIDE_ASSIGN(database_, open_());
  }
  Status read = database_->Begin(kReadPatience, TransactionKind::kRead);
  if (read) {
    read = question.read(*database_);
  }
  if (read) {
    read = database_->Commit();
  }
  if (!read) {
    database_->Rollback();
    if (read.error().code != ErrorCode::kNotFound) {
      database_.reset();
    }
  }
  return read;
}

}  // namespace tide
