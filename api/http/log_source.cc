#include "api/http/log_source.h"

#include <algorithm>

#include "common/base/time.h"

namespace tide::api {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestPause{25};        // while there is nobody to ask
constexpr int64_t kRetryNanos = 500'000'000;     // before asking an agent again
constexpr int64_t kRetryEndNanos = 100'000'000;  // the same, of a log that ended before its task
constexpr int64_t kGiveUpNanos = 5'000'000'000;  // silence after the task has ended

bool MayPass(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kNotFound ||
         error.code == ErrorCode::kDeadlineExceeded || error.code == ErrorCode::kExhausted;
}

}  // namespace

std::shared_ptr<const JobRow> FindJob(const App& app, uint64_t job_id) {
  const ViewPtr view = app.store.Get();
  const auto it = view->jobs.find(job_id);
  return it == view->jobs.end() ? nullptr : it->second;
}

const v1::Attempt* FindAttempt(const v1::Job& job, uint64_t epoch) {
  const auto it = std::ranges::find_if(
      job.attempts(), [epoch](const v1::Attempt& attempt) { return attempt.epoch() == epoch; });
  return it == job.attempts().end() ? nullptr : &*it;
}

struct LogSource::Where {
  LogPlace place;
  bool exited = false;   // the task is over: its log grows no more
  bool started = false;  // its agent has started it, so that it has a log
};

LogSource::LogSource(App& app, uint64_t job_id, uint64_t epoch, uint32_t rank, LogRange range)
    : app_(app),
      job_id_(job_id),
      epoch_(epoch),
      rank_(rank),
      range_(std::move(range)),
      asked_(MonotonicNanos()) {}
LogSource::~LogSource() = default;

Result<LogSource::Where> LogSource::Find() const {
  const auto job = FindJob(app_, job_id_);
  const v1::Attempt* attempt = job == nullptr ? nullptr : FindAttempt(job->message, epoch_);
  if (attempt == nullptr) {
    return Fail(ErrorCode::kNotFound,
                FormatJobName(job_id_) + " has no attempt " + std::to_string(epoch_));
  }
  const uint32_t per_node = std::max(1U, job->message.spec().ranks_per_node());
  const auto task = std::ranges::find_if(attempt->tasks(), [&](const v1::Task& candidate) {
    return candidate.index() == rank_ / per_node;
  });
  if (task == attempt->tasks().end()) {
    return Fail(ErrorCode::kNotFound,
                FormatJobName(job_id_) + " has no rank " + std::to_string(rank_));
  }
  const ViewPtr view = app_.store.Get();
  const auto node = view->nodes.find(task->node());
  if (node == view->nodes.end() || node->second->message.endpoint().empty()) {
    return Fail(ErrorCode::kNotFound,
                "node " + task->node() + ", which holds this log, is not part of the cluster now");
  }
  return Where{
      {{task->node(), node->second->message.endpoint()}, job_id_, epoch_, task->index(), rank_},
      task->state() == v1::TASK_STATE_EXITED || attempt->released_at() != 0 ||
          job->message.state() == v1::JOB_STATE_FINISHED,
      task->state() >= v1::TASK_STATE_RUNNING};
}

Result<LogSource::Where> LogSource::Open() {
  TIDE_ASSIGN(Where where, Find());
  LogRange range = range_;
  if (next_offset_) {
    range.offset = *next_offset_;
    range.tail_lines = -1;
    range.since = 0;
  }
  exited_before_ = where.exited;
  started_before_ = where.started;
  caught_up_ = false;
  asked_ = MonotonicNanos();
  reader_ = app_.agents.ReadLog(where.place, range);
  return where;
}

Result<LogPiece> LogSource::Peek(milliseconds wait) {
  TIDE_ASSIGN(const Where where, Open());
  LogPiece piece = reader_->Next(wait);
  if (piece.event == LogEvent::kError && IsYetToCome(piece.error)) {
    piece.event = LogEvent::kEnd;
  }
  if (piece.event == LogEvent::kError) {
    return Fail(piece.error.code,
                "cannot read the log on the agent at " + where.place.agent.endpoint + ": " +
                    piece.error.message);
  }
  peeked_ = piece;
  return piece;
}

LogPiece LogSource::Next(milliseconds wait) {
  if (done_) {
    return Last(LogEvent::kEnd, {});
  }
  if (reader_ == nullptr) {
    if (MonotonicNanos() < retry_at_) {
      (void)app_.store.Pause(std::min(wait, kLongestPause));  // the caller looks who has stopped
      return {};
    }
    if (const auto opened = Open(); !opened) {
      return OnError(opened.error());
    }
  }
  LogPiece piece = peeked_ ? *std::move(peeked_) : reader_->Next(wait);
  peeked_.reset();
  switch (piece.event) {
    case LogEvent::kData:
      quiet_since_ = 0;
      ended_ = false;
      caught_up_ = caught_up_ || piece.caught_up;
      next_offset_ = piece.next;
      return piece;
    case LogEvent::kEnd:
      return OnEnd();
    case LogEvent::kError:
      return OnError(piece.error);
    case LogEvent::kNothing:
      break;
  }
  return OnSilence();
}

LogPiece LogSource::OnEnd() {
  ended_ = true;
  // To an agent, a task that it is about to start or to adopt is one that writes no more.
  const bool until_now = range_.until != 0 && SystemNow().unix_nanos() > range_.until;
  if (range_.follow && !exited_before_ && !until_now) {
    return TryLater(kRetryEndNanos);
  }
  return Last(LogEvent::kEnd, {});
}

// The scheduler has placed the task, and its agent has not been told or makes its folder just now.
bool LogSource::IsYetToCome(const Error& error) const {
  return error.code == ErrorCode::kNotFound && !started_before_ && !exited_before_;
}

LogPiece LogSource::OnError(const Error& error) {
  if (!range_.follow && reader_ != nullptr && IsYetToCome(error)) {
    return Last(LogEvent::kEnd, {});
  }
  const auto where = Find();
  const bool may_pass = range_.follow && where && MayPass(error);
  if (may_pass && !where->exited) {
    quiet_since_ = 0;
    return TryLater(kRetryNanos);
  }
  if (ended_ && next_offset_) {
    return Last(LogEvent::kEnd, {});  // all of it was read, and its agent is gone now
  }
  // The agent of a task that is over may begin anew just now: the last lines are still there.
  if (may_pass && error.code != ErrorCode::kNotFound && !IsQuietForLong()) {
    return TryLater(kRetryNanos);
  }
  return Last(LogEvent::kError, error);
}

// An agent that is cut off never ends its stream; the scheduler knows that the task is over.
LogPiece LogSource::OnSilence() {
  const auto where = Find();
  if (where && !where->exited) {
    quiet_since_ = 0;
  } else if (IsQuietForLong()) {
    reader_.reset();
    return OnError({ErrorCode::kUnavailable, "its agent does not answer"});
  }
  return {};
}

bool LogSource::IsQuietForLong() {
  if (quiet_since_ == 0) {
    quiet_since_ = MonotonicNanos();
  }
  return MonotonicNanos() - quiet_since_ > kGiveUpNanos;
}

LogPiece LogSource::TryLater(int64_t nanos) {
  reader_.reset();
  retry_at_ = MonotonicNanos() + nanos;
  return {};
}

LogPiece LogSource::Last(LogEvent event, const Error& error) {
  done_ = true;
  reader_.reset();
  LogPiece piece;
  piece.event = event;
  piece.error = error;
  return piece;
}

}  // namespace tide::api
