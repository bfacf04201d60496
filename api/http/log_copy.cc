#include "api/http/log_copy.h"

#include <algorithm>

#include "api/http/log_lines.h"
#include "api/http/log_merge.h"
#include "common/base/time.h"

namespace tide::api {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWait{250};  // for output; then the client is looked after
constexpr milliseconds kRetry{500};
constexpr milliseconds kFirstPiece{5000};
constexpr milliseconds kFirstPieceOfMany{1000};  // of a log that is followed: it may not be there
constexpr size_t kBodyPiece = 64U << 10U;
constexpr size_t kReadAhead = 16;
constexpr size_t kReadAheadOfMany = 2;
constexpr int kNodesInMarker = 4;

std::string RemovedMarker(uint32_t rank, uint64_t bytes) {
  return "--- rank " + std::to_string(rank) + ": " + std::to_string(bytes) +
         " bytes of older output are kept no more ---";
}

std::string CutMarker(uint32_t rank) {
  return "--- rank " + std::to_string(rank) +
         ": more lines match; narrow it down by time, or ask for the last ones (tail) ---";
}

std::string ErrorMarker(const LogSource& source, const Error& error) {
  return "--- cannot read rank " + std::to_string(source.rank()) + " of attempt " +
         std::to_string(source.epoch()) + ": " + error.message + " ---";
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

// Copies several ranks of an attempt line by line, the oldest first.
class LogCopy::Merge {
 public:
  Merge(LogCopy& copy, std::vector<std::unique_ptr<LogSource>> sources, BodySink& sink)
      : copy_(copy), sink_(sink) {
    for (auto& source : sources) {
      lanes_.emplace_back().source = std::move(source);
    }
    inputs_.resize(lanes_.size());
  }

  // False when the client is gone.
  bool Run() {
    uint64_t arrived = 0;
    for (size_t i = 0; i < lanes_.size(); ++i) {
      Fill(i);
    }
    while (true) {
      const MergeChoice choice = ChooseNext(inputs_, copy_.query_.follow, MonotonicNanos());
      if (choice.next) {
        Take(*choice.next);
        if (body_.size() >= kBodyPiece && !Flush()) {
          return false;
        }
        continue;
      }
      if (!Flush()) {
        return false;
      }
      if (std::ranges::none_of(inputs_, &MergeInput::open)) {
        return true;
      }
      if (copy_.app_.store.Pause(milliseconds(0)) || !sink_.Alive()) {
        return false;
      }
      arrived = copy_.arrivals_->WaitBeyond(arrived, WaitFor(choice));
      for (size_t i = 0; i < lanes_.size(); ++i) {
        Fill(i);
      }
    }
  }

 private:
  struct Lane {
    std::unique_ptr<LogSource> source;
    LineSplitter lines;
    int64_t came = 0;  // when the last piece did, monotonic ns
    bool cut = false;  // more lines match than were sent
  };

  // While somebody has to be asked again, no arrival tells when.
  static milliseconds WaitFor(const MergeChoice& choice) {
    constexpr milliseconds kLook{25};
    const int64_t left = (choice.look_again - MonotonicNanos()) / 1'000'000 + 1;
    return choice.look_again == 0 ? kLook
                                  : milliseconds(std::clamp<int64_t>(left, 1, kLook.count()));
  }

  // Reads until there is a line, or nothing more for now.
  void Fill(size_t i) {
    Lane& lane = lanes_[i];
    while (lane.lines.empty() && !lane.source->done()) {
      const LogPiece piece = lane.source->Next(milliseconds(0));
      if (piece.event == LogEvent::kNothing) {
        break;
      }
      lane.came = MonotonicNanos();
      if (piece.removed > 0) {
        AddMarker(RemovedMarker(lane.source->rank(), piece.removed));
      }
      lane.lines.Add(piece);
      if (piece.event != LogEvent::kData) {
        lane.lines.End();
      }
      if (piece.event == LogEvent::kError) {
        AddMarker(ErrorMarker(*lane.source, piece.error));
      }
      if (piece.cut) {
        lane.cut = true;
      }
    }
    MergeInput& input = inputs_[i];
    input.open = !lane.source->done();
    input.at = lane.lines.empty() ? std::nullopt : std::optional(lane.lines.front().at);
    input.came = lane.came;
    input.caught_up = lane.source->caught_up();
    input.asked = lane.source->asked();
    if (!input.open && !input.at && std::exchange(lane.cut, false)) {
      AddMarker(CutMarker(lane.source->rank()));
    }
  }

  void Take(size_t i) {
    Lane& lane = lanes_[i];
    const LogLine line = lane.lines.Take();
    if (copy_.query_.prefixed) {
      body_ += "[" + std::to_string(lane.source->rank()) + "] ";
    }
    if (copy_.query_.timestamps) {
      body_ += line.at == 0 ? "-" : FormatRfc3339(Instant::FromUnixNanos(line.at));
      body_ += ' ';
    }
    body_ += line.text;
    body_ += '\n';
    Fill(i);
  }

  void AddMarker(const std::string& text) { body_ += text + "\n"; }

  bool Flush() {
    const std::string body = std::exchange(body_, {});
    return body.empty() || sink_.Write(body);
  }

  LogCopy& copy_;
  BodySink& sink_;
  std::vector<Lane> lanes_;
  std::vector<MergeInput> inputs_;  // one for each lane
  std::string body_;
};

LogCopy::LogCopy(App& app, uint64_t job_id, LogQuery query)
    : app_(app), job_id_(job_id), query_(std::move(query)), tail_(query_.tail) {}
LogCopy::~LogCopy() = default;

std::unique_ptr<LogSource> LogCopy::MakeSource(uint64_t epoch, uint32_t rank) const {
  const bool many = query_.ranks.size() > 1;
  return std::make_unique<LogSource>(app_,
                                     job_id_,
                                     epoch,
                                     rank,
                                     LogRange{.offset = query_.offset,
                                              .tail_lines = tail_,
                                              .follow = query_.follow,
                                              .since = query_.since,
                                              .until = query_.until,
                                              .marks = query_.by_lines(),
                                              .grep = query_.grep,
                                              .read_ahead = many ? kReadAheadOfMany : kReadAhead,
                                              .arrivals = arrivals_});
}

std::optional<uint64_t> LogCopy::FirstAttempt(const v1::Job& job) const {
  if (query_.attempt || job.attempts().empty()) {
    return query_.attempt;
  }
  return query_.all_attempts ? job.attempts(0).epoch()
                             : job.attempts(job.attempts_size() - 1).epoch();
}

Status LogCopy::Open() {
  const auto job = FindJob(app_, job_id_);
  const auto epoch = job == nullptr ? std::nullopt : FirstAttempt(job->message);
  if (!epoch) {
    if (query_.follow) {
      return {};
    }
    return Fail(ErrorCode::kNotFound,
                FormatJobName(job_id_) + " has not started yet, so it has no output; `tide why " +
                    FormatJobName(job_id_) + "` says what it waits for");
  }
  auto source = MakeSource(*epoch, query_.ranks.front());
  const auto piece = source->Peek(query_.follow ? kFirstPieceOfMany : kFirstPiece);
  if (!piece) {
    const bool refused = piece.error().code == ErrorCode::kInvalidArgument;
    // Of several attempts the others may still be there.
    return (query_.follow || query_.all_attempts) && !refused ? Status()
                                                              : std::unexpected(piece.error());
  }
  if (piece->event == LogEvent::kData) {
    start_offset_ = piece->offset;
  } else if (piece->event == LogEvent::kEnd && query_.tail < 0 && query_.since == 0) {
    start_offset_ = query_.offset;
  }
  opened_ = std::move(source);
  return {};
}

void LogCopy::Run(BodySink& sink) {
  const auto job = FindJob(app_, job_id_);
  if (job == nullptr) {
    return;
  }
  std::optional<uint64_t> epoch = FirstAttempt(job->message);
  if (!epoch) {
    epoch = NextAttempt(0, sink);
  }
  const bool go_on = (query_.follow || query_.all_attempts) && !query_.attempt;
  while (epoch && CopyAttempt(*epoch, sink) && go_on) {
    epoch = NextAttempt(*epoch, sink);
    if (!epoch) {
      return;
    }
    tail_ = query_.all_attempts ? query_.tail : -1;
    const auto now = FindJob(app_, job_id_);
    const v1::Attempt* attempt = now == nullptr ? nullptr : FindAttempt(now->message, *epoch);
    if (attempt == nullptr || !Line(AttemptMarker(now->message, *attempt), sink)) {
      return;
    }
  }
}

std::optional<uint64_t> LogCopy::NextAttempt(uint64_t epoch, BodySink& sink) const {
  uint64_t seq = 0;
  while (sink.Alive() && !app_.store.stopped()) {
    const auto job = FindJob(app_, job_id_);
    if (job == nullptr) {
      return std::nullopt;
    }
    for (const v1::Attempt& attempt : job->message.attempts()) {
      if (attempt.epoch() > epoch) {
        return attempt.epoch();
      }
    }
    if (job->message.state() == v1::JOB_STATE_FINISHED || !query_.follow) {
      return std::nullopt;
    }
    seq = app_.store.WaitBeyond(seq, kRetry)->seq;
  }
  return std::nullopt;
}

bool LogCopy::CopyAttempt(uint64_t epoch, BodySink& sink) {
  std::vector<std::unique_ptr<LogSource>> sources;
  for (const uint32_t rank : query_.ranks) {
    const bool opened = opened_ != nullptr && opened_->epoch() == epoch && opened_->rank() == rank;
    sources.push_back(opened ? std::move(opened_) : MakeSource(epoch, rank));
  }
  opened_.reset();
  return query_.by_lines() ? Merge(*this, std::move(sources), sink).Run()
                           : CopyBytes(*sources.front(), sink);
}

bool LogCopy::CopyBytes(LogSource& source, BodySink& sink) {
  bool begun = start_offset_ && query_.exact();  // then the start was told already
  while (true) {
    const LogPiece piece = source.Next(kWait);
    switch (piece.event) {
      case LogEvent::kData:
        if (piece.removed > 0 && !begun &&
            !Line(RemovedMarker(source.rank(), piece.removed), sink)) {
          return false;
        }
        begun = false;
        at_line_start_ = piece.data.empty() ? at_line_start_ : piece.data.back() == '\n';
        if (!piece.data.empty() && !sink.Write(piece.data)) {
          return false;
        }
        break;
      case LogEvent::kEnd:
        return true;
      case LogEvent::kError:
        return Line(ErrorMarker(source, piece.error), sink);
      case LogEvent::kNothing:
        if (app_.store.Pause(milliseconds(0)) || !sink.Alive()) {
          return false;
        }
        break;
    }
  }
}

bool LogCopy::Line(const std::string& text, BodySink& sink) {
  const std::string line = (at_line_start_ ? "" : "\n") + text + "\n";
  at_line_start_ = true;
  return sink.Write(line);
}

}  // namespace tide::api
