#include "api/http/log_copy.h"

#include <algorithm>

#include "common/base/time.h"

namespace tide::api {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWait{250};               // for output of a single rank
constexpr milliseconds kSweepWait{25};           // the same where several are read in turn
constexpr milliseconds kRetry{500};              // before asking an agent again
constexpr milliseconds kRetryEnd{100};           // the same, of a log that ended before its task
constexpr int64_t kGiveUpNanos = 5'000'000'000;  // silence after the task has ended
constexpr milliseconds kFirstPiece{5000};
constexpr size_t kLongestLine = 64U << 10U;
constexpr int kNodesInMarker = 4;

const v1::Attempt* FindAttempt(const v1::Job& job, uint64_t epoch) {
  const auto it = std::ranges::find_if(
      job.attempts(), [epoch](const v1::Attempt& attempt) { return attempt.epoch() == epoch; });
  return it == job.attempts().end() ? nullptr : &*it;
}

bool MayPass(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kNotFound ||
         error.code == ErrorCode::kDeadlineExceeded || error.code == ErrorCode::kExhausted;
}

}  // namespace

std::string AttemptMarker(const v1::Job& job, const v1::Attempt& attempt) {
  std::string nodes;
  for (int i = 0; i < std::min(attempt.tasks_size(), kNodesInMarker); ++i) {
    nodes += (i > 0 ? "," : "") + attempt.tasks(i).node();
  }
  if (attempt.tasks_size() > kNodesInMarker) {
    nodes += " and " + std::to_string(attempt.tasks_size() - kNodesInMarker) + " more";
  }
  // The checkpoint it began from: the newest of the attempts before.
  int64_t step = -1;
  if (job.has_checkpoint() && job.checkpoint().at() != 0 &&
      job.checkpoint().epoch() < attempt.epoch()) {
    step = job.checkpoint().step();
  } else if (const v1::Attempt* before = FindAttempt(job, attempt.epoch() - 1)) {
    step = before->saved_at() != 0 ? before->stop_step() : -1;
  }
  std::string how = "started";
  if (attempt.start_reason() == "resumed") {
    how = "resumed";
  } else if (attempt.start_reason() == "fault") {
    how = "restarted after a fault";
  } else if (attempt.start_reason() == "retry") {
    how = "retried";
  }
  return "--- attempt " + std::to_string(attempt.epoch()) + " on " + nodes + " (" + how +
         (step > 0 ? " at step " + std::to_string(step) : std::string()) + ") ---";
}

struct LogCopy::Where {
  LogPlace place;
  bool exited = false;  // the task is over: its log grows no more
};

struct LogCopy::Rank {
  uint64_t epoch = 0;
  uint32_t rank = 0;
  std::unique_ptr<LogReader> reader;
  std::optional<LogPiece> peeked;
  std::optional<uint64_t> next_offset;  // once something was read
  std::string line;                     // an unfinished one, where lines get a prefix
  int64_t retry_at = 0;                 // monotonic ns
  int64_t quiet_since = 0;              // since the task was seen to be over, monotonic ns
  bool exited_before = false;           // the task was over before `reader` began
  bool ended = false;                   // nothing came since the agent said that it is all
  bool done = false;
};

LogCopy::LogCopy(App& app, uint64_t job_id, LogQuery query)
    : app_(app), job_id_(job_id), query_(query), tail_(query.tail) {}
LogCopy::~LogCopy() = default;

std::shared_ptr<const JobRow> LogCopy::Job() const {
  const ViewPtr view = app_.store.Get();
  const auto it = view->jobs.find(job_id_);
  return it == view->jobs.end() ? nullptr : it->second;
}

std::vector<uint32_t> LogCopy::RanksOf(const v1::Job& job) const {
  if (query_.rank) {
    return {*query_.rank};
  }
  std::vector<uint32_t> ranks(job.spec().nodes() * std::max(1U, job.spec().ranks_per_node()));
  for (uint32_t i = 0; i < ranks.size(); ++i) {
    ranks[i] = i;
  }
  return ranks;
}

Result<LogCopy::Where> LogCopy::Find(uint64_t epoch, uint32_t rank) const {
  const auto job = Job();
  const v1::Attempt* attempt = job == nullptr ? nullptr : FindAttempt(job->message, epoch);
  if (attempt == nullptr) {
    return Fail(ErrorCode::kNotFound,
                FormatJobName(job_id_) + " has no attempt " + std::to_string(epoch));
  }
  const uint32_t per_node = std::max(1U, job->message.spec().ranks_per_node());
  const auto task = std::ranges::find_if(attempt->tasks(), [&](const v1::Task& candidate) {
    return candidate.index() == rank / per_node;
  });
  if (task == attempt->tasks().end()) {
    return Fail(ErrorCode::kNotFound,
                FormatJobName(job_id_) + " has no rank " + std::to_string(rank));
  }
  const ViewPtr view = app_.store.Get();
  const auto node = view->nodes.find(task->node());
  if (node == view->nodes.end() || node->second->message.endpoint().empty()) {
    return Fail(ErrorCode::kNotFound,
                "node " + task->node() + ", which holds this log, is not part of the cluster now");
  }
  return Where{{node->second->message.endpoint(), job_id_, epoch, task->index(), rank},
               task->state() == v1::TASK_STATE_EXITED || attempt->released_at() != 0 ||
                   job->message.state() == v1::JOB_STATE_FINISHED};
}

Result<LogCopy::Where> LogCopy::OpenRank(Rank& rank) {
  TIDE_ASSIGN(Where where, Find(rank.epoch, rank.rank));
  LogRange range{.follow = query_.follow};
  if (rank.next_offset) {
    range.offset = *rank.next_offset;
  } else {
    range.tail_lines = tail_;
  }
  rank.exited_before = where.exited;
  rank.reader = app_.agents.ReadLog(where.place, range);
  return where;
}

Status LogCopy::Open() {
  const auto job = Job();
  if (job == nullptr || job->message.attempts().empty()) {
    return Fail(ErrorCode::kNotFound,
                FormatJobName(job_id_) + " has not started yet, so it has no output; `tide why " +
                    FormatJobName(job_id_) + "` says what it waits for");
  }
  const auto& attempts = job->message.attempts();
  auto first = std::make_unique<Rank>();
  first->epoch = query_.attempt.value_or(attempts[attempts.size() - 1].epoch());
  first->rank = query_.rank.value_or(0);
  TIDE_ASSIGN(const Where where, OpenRank(*first));
  LogPiece piece = first->reader->Next(kFirstPiece);
  if (piece.event == LogEvent::kError) {
    return Fail(
        piece.error.code,
        "cannot read the log on the agent at " + where.place.endpoint + ": " + piece.error.message);
  }
  first->peeked = std::move(piece);
  ranks_.push_back(std::move(first));
  return {};
}

void LogCopy::Run(BodySink& sink) {
  const auto job = Job();
  if (job == nullptr) {
    return;
  }
  const auto& attempts = job->message.attempts();
  std::optional<uint64_t> epoch = query_.attempt;
  if (!epoch && !attempts.empty()) {
    epoch = attempts[attempts.size() - 1].epoch();
  }
  if (!epoch) {
    epoch = NextAttempt(0, sink);
  }
  while (epoch && CopyAttempt(*epoch, sink) && query_.follow && !query_.attempt) {
    epoch = NextAttempt(*epoch, sink);
    if (!epoch) {
      return;
    }
    tail_ = -1;
    const auto now = Job();
    const v1::Attempt* attempt = now == nullptr ? nullptr : FindAttempt(now->message, *epoch);
    if (attempt == nullptr || !Line(AttemptMarker(now->message, *attempt), sink)) {
      return;
    }
  }
}

std::optional<uint64_t> LogCopy::NextAttempt(uint64_t epoch, BodySink& sink) const {
  uint64_t seq = 0;
  while (sink.Alive() && !app_.store.stopped()) {
    const auto job = Job();
    if (job == nullptr) {
      return std::nullopt;
    }
    for (const v1::Attempt& attempt : job->message.attempts()) {
      if (attempt.epoch() > epoch) {
        return attempt.epoch();
      }
    }
    if (job->message.state() == v1::JOB_STATE_FINISHED) {
      return std::nullopt;
    }
    seq = app_.store.WaitBeyond(seq, kRetry)->seq;
  }
  return std::nullopt;
}

// False when the client is gone.
bool LogCopy::CopyAttempt(uint64_t epoch, BodySink& sink) {
  const auto job = Job();
  if (job == nullptr) {
    return false;
  }
  std::vector<std::unique_ptr<Rank>> opened = std::move(ranks_);  // by Open(), if anything
  ranks_.clear();
  for (const uint32_t number : RanksOf(job->message)) {
    if (!opened.empty() && opened.front()->epoch == epoch && opened.front()->rank == number) {
      ranks_.push_back(std::move(opened.front()));
      opened.clear();
      continue;
    }
    ranks_.push_back(std::make_unique<Rank>());
    ranks_.back()->epoch = epoch;
    ranks_.back()->rank = number;
  }
  // Without `follow` rank after rank, so that the order is the same each time; with it all at
  // once, in turn.
  bool open = true;
  while (open) {
    open = false;
    bool busy = false;
    for (const auto& rank : ranks_) {
      if (rank->done) {
        continue;
      }
      open = true;
      const bool alone = ranks_.size() == 1 || !query_.follow;
      if (!CopyRank(*rank, sink, alone ? kWait : milliseconds(0), busy)) {
        return false;
      }
      if (!query_.follow) {
        break;
      }
    }
    if (open && !busy &&
        (app_.store.Pause(ranks_.size() > 1 ? kSweepWait : milliseconds(0)) || !sink.Alive())) {
      return false;
    }
  }
  return true;
}

bool LogCopy::CopyRank(Rank& rank, BodySink& sink, milliseconds wait, bool& busy) {
  if (rank.reader == nullptr) {
    if (MonotonicNanos() < rank.retry_at) {
      return !app_.store.Pause(std::min(wait, kSweepWait));
    }
    if (const auto opened = OpenRank(rank); !opened) {
      return HandleError(rank, opened.error(), sink);
    }
  }
  LogPiece piece = rank.peeked ? std::move(*rank.peeked) : rank.reader->Next(wait);
  rank.peeked.reset();
  switch (piece.event) {
    case LogEvent::kData:
      busy = true;
      rank.quiet_since = 0;
      rank.ended = false;
      rank.next_offset = piece.offset + piece.data.size();
      return Emit(rank, piece.data, sink);
    case LogEvent::kEnd:
      rank.ended = true;
      // To an agent, a task that it is about to start or to adopt is one that writes no more.
      if (query_.follow && !rank.exited_before) {
        rank.reader.reset();
        rank.retry_at = MonotonicNanos() + kRetryEnd.count() * 1'000'000;
        return true;
      }
      rank.done = true;
      return rank.line.empty() || Emit(rank, "\n", sink);
    case LogEvent::kError:
      return HandleError(rank, piece.error, sink);
    case LogEvent::kNothing:
      break;
  }
  // An agent that is cut off never ends its stream; the scheduler knows that the task is over.
  const auto where = Find(rank.epoch, rank.rank);
  if (where && !where->exited) {
    rank.quiet_since = 0;
  } else if (rank.quiet_since == 0) {
    rank.quiet_since = MonotonicNanos();
  } else if (MonotonicNanos() - rank.quiet_since > kGiveUpNanos) {
    rank.reader.reset();
    return HandleError(rank, {ErrorCode::kUnavailable, "its agent does not answer"}, sink);
  }
  return true;
}

bool LogCopy::HandleError(Rank& rank, const Error& error, BodySink& sink) {
  const auto where = Find(rank.epoch, rank.rank);
  if (query_.follow && where && !where->exited && MayPass(error)) {
    rank.reader.reset();
    rank.retry_at = MonotonicNanos() + kRetry.count() * 1'000'000;
    return true;
  }
  rank.done = true;
  if (rank.ended && rank.next_offset) {  // its agent is gone now, but all of it was read
    return rank.line.empty() || Emit(rank, "\n", sink);
  }
  return Line("--- cannot read rank " + std::to_string(rank.rank) + " of attempt " +
                  std::to_string(rank.epoch) + ": " + error.message + " ---",
              sink);
}

bool LogCopy::Emit(Rank& rank, const std::string& data, BodySink& sink) {
  if (query_.rank) {
    at_line_start_ = data.empty() ? at_line_start_ : data.back() == '\n';
    return sink.Write(data);
  }
  std::string out;
  rank.line += data;
  size_t begin = 0;
  for (size_t end = rank.line.find('\n'); end != std::string::npos;
       end = rank.line.find('\n', begin)) {
    out += "[" + std::to_string(rank.rank) + "] " + rank.line.substr(begin, end + 1 - begin);
    begin = end + 1;
  }
  rank.line.erase(0, begin);
  if (rank.line.size() > kLongestLine) {
    out += "[" + std::to_string(rank.rank) + "] " + rank.line + "\n";
    rank.line.clear();
  }
  return out.empty() || sink.Write(out);
}

bool LogCopy::Line(const std::string& text, BodySink& sink) {
  const std::string line = (at_line_start_ ? "" : "\n") + text + "\n";
  at_line_start_ = true;
  return sink.Write(line);
}

}  // namespace tide::api
