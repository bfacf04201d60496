#include "api/exec/exec_session.h"

#include <algorithm>

#include "common/base/time.h"
#include "common/exec/frame.h"
#include "common/exec/limits.h"
#include "common/log/log.h"

namespace tide::api {
namespace {

// How soon a client that went away without a word is noticed, and how often one hears that all is
// well.
constexpr auto kClientLook = std::chrono::milliseconds(500);
constexpr auto kAlive = std::chrono::seconds(15);
constexpr size_t kPieceBytes = 64U << 10U;

// What a frame of input is for the agent; nothing for one that no client sends.
std::optional<v1::ExecInput> ToInput(const Frame& frame) {
  v1::ExecInput input;
  switch (frame.kind) {
    case FrameKind::kInput:
      input.set_data(frame.payload);
      return input;
    case FrameKind::kEndOfInput:
      input.set_end_of_data(true);
      return input;
    case FrameKind::kResize: {
      const auto size = SizeOf(frame);
      if (!size) {
        return std::nullopt;
      }
      input.mutable_resize()->set_rows(std::min<uint32_t>(size->rows, kTerminalSideMax));
      input.mutable_resize()->set_columns(std::min<uint32_t>(size->columns, kTerminalSideMax));
      return input;
    }
    case FrameKind::kSignal: {
      const auto signal = SignalOf(frame);
      if (!signal) {
        return std::nullopt;
      }
      input.set_signal(*signal);
      return input;
    }
    case FrameKind::kOut:
    case FrameKind::kErr:
    case FrameKind::kTaken:
    case FrameKind::kEnded:
    case FrameKind::kError:
    case FrameKind::kAlive:
      return std::nullopt;
  }
  return std::nullopt;
}

Result<std::vector<v1::ExecInput>> ParseInput(std::string_view frames) {
  FrameReader reader;
  reader.Append(frames);
  std::vector<v1::ExecInput> inputs;
  while (true) {
    TIDE_ASSIGN(const std::optional<Frame> frame, reader.Next());
    if (!frame) {
      break;
    }
    auto input = ToInput(*frame);
    if (!input) {
      return Fail(ErrorCode::kInvalidArgument, "this is no input for a command");
    }
    inputs.push_back(*std::move(input));
  }
  if (reader.pending() != 0) {
    return Fail(ErrorCode::kInvalidArgument, "the last frame of the input is not whole");
  }
  return inputs;
}

}  // namespace

ExecSession::ExecSession(std::unique_ptr<ExecCall> call,
                         AuditRecord record,
                         AuditLog& audit,
                         std::function<bool()> may)
    : call_(std::move(call)),
      record_(std::move(record)),
      audit_(audit),
      may_(std::move(may)),
      began_(MonotonicNanos()),
      left_at_(began_),
      thread_([this] { Pump(); }) {}

ExecSession::~ExecSession() {
  Close("its session was ended");
  thread_.join();
}

void ExecSession::Close(const std::string& why) {
  {
    const std::scoped_lock lock(mutex_);
    if (!closed_ && !complete_) {
      closed_why_ = why;
    }
    closed_ = true;
  }
  call_->Cancel();
  changed_.notify_all();
}

bool ExecSession::running() {
  const std::scoped_lock lock(mutex_);
  return !complete_ && !closed_;
}

bool ExecSession::IsForgotten(std::chrono::milliseconds idle) {
  const std::scoped_lock lock(mutex_);
  return !reading_ && MonotonicNanos() - left_at_ > std::chrono::nanoseconds(idle).count();
}

Status ExecSession::Input(uint64_t seq, std::string_view frames) {
  TIDE_ASSIGN(const std::vector<v1::ExecInput> inputs, ParseInput(frames));
  {
    // A sign of life of one whose screen is full: input of nothing is one, too.
    const std::scoped_lock lock(mutex_);
    left_at_ = MonotonicNanos();
  }
  const std::scoped_lock lock(input_mutex_);
  if (seq <= taken_seq_) {
    return {};  // said again: its answer was lost
  }
  if (seq != taken_seq_ + 1) {
    return Fail(ErrorCode::kConflict,
                "input " + std::to_string(taken_seq_ + 1) + " comes before " + std::to_string(seq));
  }
  taken_seq_ = seq;
  for (const v1::ExecInput& input : inputs) {
    if (!call_->Write(input)) {
      return Fail(ErrorCode::kConflict, "the command has ended");
    }
  }
  return {};
}

Status ExecSession::CheckOffset(uint64_t offset) {
  const std::scoped_lock lock(mutex_);
  if (offset < kept_from_ || offset > kept_from_ + kept_.size()) {
    return Fail(ErrorCode::kConflict, "the output at this offset is not kept any more");
  }
  return {};
}

void ExecSession::CopyOutput(uint64_t offset, BodySink& sink) {
  std::unique_lock lock(mutex_);
  const uint64_t me = ++reader_;
  reading_ = true;
  read_to_ = offset;
  changed_.notify_all();
  auto quiet = std::chrono::milliseconds(0);
  bool wanted = true;
  while (wanted && reader_ == me && !closed_) {
    const uint64_t end = kept_from_ + kept_.size();
    if (read_to_ < kept_from_ || (complete_ && read_to_ == end)) {
      break;
    }
    std::string piece;
    if (read_to_ < end) {
      piece = kept_.substr(read_to_ - kept_from_, kPieceBytes);
    } else if (changed_.wait_for(lock, kClientLook) == std::cv_status::no_timeout) {
      continue;
    } else if (quiet + kClientLook < kAlive) {
      quiet += kClientLook;
      lock.unlock();
      wanted = sink.Alive();
      lock.lock();
      continue;
    }
    lock.unlock();
    std::string alive;
    AppendFrame(alive, FrameKind::kAlive);
    // Beside the numbered output: whoever resumes counts without it.
    wanted = sink.Write(piece.empty() ? alive : piece);
    quiet = std::chrono::milliseconds(0);
    lock.lock();
    if (reader_ == me) {
      read_to_ += piece.size();
      changed_.notify_all();
    }
  }
  if (reader_ == me) {
    reading_ = false;
    left_at_ = MonotonicNanos();
  }
}

bool ExecSession::Append(const std::string& frames) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock,
                [this] { return closed_ || kept_from_ + kept_.size() < read_to_ + kAheadBytes; });
  kept_ += frames;
  const uint64_t useless =
      read_to_ > kept_from_ + 2 * kKeptBytes ? read_to_ - kept_from_ - kKeptBytes : 0;
  kept_.erase(0, useless);
  kept_from_ += useless;
  changed_.notify_all();
  return !closed_;
}

void ExecSession::Pump() {
  std::optional<v1::ExecEnded> ended;
  bool wanted = true;
  while (wanted && !ended) {
    const auto output = call_->Read();
    if (!output) {
      break;
    }
    std::string frames;
    if (output->has_ended()) {
      ended = output->ended();
    } else if (!output->out().empty()) {
      AppendFrame(frames, FrameKind::kOut, output->out());
    } else if (!output->err().empty()) {
      AppendFrame(frames, FrameKind::kErr, output->err());
    } else if (output->has_taken()) {
      AppendTaken(frames, output->taken());
    }
    wanted = Append(frames);
  }
  if (!wanted) {
    call_->Cancel();
  }
  while (call_->Read()) {
  }
  const Status finished = call_->Finish();
  // First: nobody learns of an end that is not on record.
  RecordEnd(ended, finished);
  AppendLast(ended, finished);
}

void ExecSession::AppendLast(const std::optional<v1::ExecEnded>& ended, const Status& finished) {
  std::string frames;
  if (ended) {
    AppendEnd(frames,
              {static_cast<uint8_t>(ended->code()),
               static_cast<uint8_t>(ended->signal()),
               ended->reason()});
  } else {
    AppendFrame(frames,
                FrameKind::kError,
                "the connection to the agent of node " + record_.node + " broke" +
                    (finished ? "" : ": " + finished.error().message));
  }
  const std::scoped_lock lock(mutex_);
  kept_ += frames;
  complete_ = true;
  changed_.notify_all();
}

void ExecSession::RecordEnd(const std::optional<v1::ExecEnded>& ended, const Status& finished) {
  record_.event = "ended";
  record_.seconds = (MonotonicNanos() - began_) / 1'000'000'000;
  {
    const std::scoped_lock lock(mutex_);
    record_.reason = closed_why_;
  }
  if (ended) {
    record_.exit_code = ended->code();
    record_.signal = ended->signal();
    record_.reason = ended->reason();
  } else if (record_.reason.empty()) {
    record_.reason = finished ? "the agent ended the call" : finished.error().message;
  }
  if (const Status recorded = audit_.Record(record_); !recorded) {
    log::Failure("end of a command not recorded",
                 {{"command", record_.command}, {"error", recorded.error().message}});
  }
}

}  // namespace tide::api
