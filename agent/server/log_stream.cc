#include "agent/server/log_stream.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "agent/logs/log_block.h"
#include "common/base/time.h"

namespace tide::agent {
namespace {

// A rank that prints single lines causes no message for each of them.
constexpr int kPaceMillis = 10;
constexpr size_t kSmallPiece = 32U << 10U;
// A record follows its bytes at once, unless the index cannot be written.
constexpr Duration kRecordPatience = Duration::Millis(100);
constexpr size_t kMaxTailBytes = 8U << 20U;

// Searches are one at a time, block by block: the node's cores are the job's.
std::mutex& SearchTurn() {
  static std::mutex turn;
  return turn;
}

}  // namespace

LogStream::LogStream(LogCall call, const tide::v1::ReadLogRequest& request)
    : call_(std::move(call)),
      request_(request),
      log_(call_.folder, request.rank()),
      offset_(request.offset()),
      lines_left_(request.follow()
                      ? UINT64_MAX - 1
                      : (request.max_lines() == 0 ? kDefaultMaxLines : request.max_lines())) {}

Status LogStream::Run() {
  if (!request_.grep().empty()) {
    TIDE_ASSIGN(LineMatcher matcher,
                LineMatcher::Make({request_.grep(), request_.literal(), request_.ignore_case()}));
    matcher_.emplace(std::move(matcher));
    tailing_ = request_.tail_lines() >= 0;
  }
  std::unique_ptr<LogWatch> watch;
  while (!call_.cancelled()) {
    // Looked at before reading: what was written before the end is read after it.
    const bool over = call_.is_over();
    TIDE_TRY(log_.Refresh());
    if (log_.exists() && !begun_) {
      TIDE_TRY(Begin());
    }
    TIDE_ASSIGN(const Turn turn, Look(over));
    if (turn == Turn::kOver) {
      return {};
    }
    if (turn == Turn::kSent) {
      continue;
    }
    if (!request_.follow() || over) {
      // A task that is over has no output. One that runs has its folder, and perhaps said nothing
      // yet.
      return begun_ || over || request_.follow() || ::access(call_.folder.c_str(), F_OK) == 0
                 ? Status()
                 : Fail(ErrorCode::kNotFound, "no output of " + call_.name + " here");
    }
    if (!SayCaughtUp()) {
      return {};
    }
    if (watch == nullptr) {
      // Then look once more: it knows nothing of what was before.
      watch = std::make_unique<LogWatch>(call_.folder, request_.rank());
      continue;
    }
    watch->Wait();
  }
  return {};
}

Status LogStream::Begin() {
  TIDE_ASSIGN(offset_, FirstByte());
  if (!request_.follow()) {
    TIDE_ASSIGN(end_, log_.End());
  }
  if (request_.until() != 0 &&
      (!request_.follow() || SystemNow().unix_nanos() > request_.until())) {
    TIDE_ASSIGN(end_, log_.FindTime(request_.until()));
  }
  if (matcher_) {
    search_.emplace(log_, *matcher_, offset_);
  }
  begun_ = true;
  return {};
}

Result<uint64_t> LogStream::FirstByte() {
  uint64_t first = request_.offset();
  if (request_.since() != 0) {
    TIDE_ASSIGN(const uint64_t since, log_.FindTime(request_.since()));
    first = std::max(first, since);
  }
  if (request_.tail_lines() >= 0 && !matcher_) {
    TIDE_ASSIGN(const uint64_t tail, log_.FindTail(request_.tail_lines()));
    // Of a task that is gone, `until` may leave nothing of its last lines.
    first = std::max(first, tail);
  }
  return first;
}

Result<uint64_t> LogStream::Limit(bool over) {
  if (request_.follow() && end_ == UINT64_MAX && request_.until() != 0 &&
      SystemNow().unix_nanos() > request_.until()) {
    TIDE_ASSIGN(end_, log_.FindTime(request_.until()));
  }
  TIDE_ASSIGN(const uint64_t all, log_.End());
  if (!request_.follow() || over) {
    return std::min(all, end_);
  }
  TIDE_ASSIGN(const uint64_t recorded, log_.RecordedEnd());
  const int64_t now = MonotonicNanos();
  if (recorded >= all || offset() < recorded) {
    unrecorded_since_ = 0;
  } else if (unrecorded_since_ == 0) {
    unrecorded_since_ = now;
  } else if (now - unrecorded_since_ > kRecordPatience.nanos()) {
    return std::min(all, end_);
  }
  return std::min(recorded, end_);
}

Result<LogStream::Turn> LogStream::Look(bool over) {
  if (!begun_) {
    return Turn::kNothing;
  }
  TIDE_ASSIGN(const uint64_t limit, Limit(over));
  const bool to_the_end = !request_.follow() || over || limit == end_;
  const auto turn = search_ ? SendMatches(*search_, limit, to_the_end) : SendBytes(limit);
  if (!turn && turn.error().code == ErrorCode::kNotFound) {
    TIDE_TRY(SkipRemoved());
    return Turn::kSent;
  }
  if (turn && *turn == Turn::kNothing && offset() >= end_) {
    return Turn::kOver;
  }
  return turn;
}

// What was to be read next is gone: its segment was the oldest, or lost with the machine.
Status LogStream::SkipRemoved() {
  TIDE_TRY(log_.Refresh());
  const uint64_t next = log_.After(offset());
  if (next == offset()) {
    return Fail(ErrorCode::kNotFound, "the output of " + call_.name + " is kept no more");
  }
  removed_ += next - offset();
  if (search_) {
    search_->SkipTo(next);
  }
  offset_ = next;
  return {};
}

bool LogStream::SayCaughtUp() {
  if (caught_up_) {
    return true;
  }
  caught_up_ = true;
  tide::v1::LogChunk chunk;
  chunk.set_offset(offset());
  chunk.set_removed(std::exchange(removed_, 0));
  chunk.set_next(offset());
  chunk.set_caught_up(true);
  return call_.send(chunk);
}

Result<LogStream::Turn> LogStream::SendBytes(uint64_t limit) {
  TIDE_ASSIGN(const LogBlock block, ReadBlock(log_, offset_, limit, request_.marks()));
  if (block.data.empty()) {
    return Turn::kNothing;
  }
  tide::v1::LogChunk chunk;
  chunk.set_offset(block.offset);
  chunk.set_data(block.data);
  chunk.set_removed(std::exchange(removed_, 0));
  for (const LogMark& mark : block.marks) {
    tide::v1::LogMark& added = *chunk.add_marks();
    added.set_begin(mark.begin);
    added.set_at(mark.at);
    added.set_stream(mark.stream);
    added.set_offset(block.offset + mark.begin);
  }
  offset_ += block.data.size();
  chunk.set_next(offset_);
  if (!call_.send(chunk)) {
    return Turn::kOver;
  }
  if (caught_up_ && block.data.size() < kSmallPiece) {
    ::poll(nullptr, 0, kPaceMillis);
  }
  return Turn::kSent;
}

Result<LogStream::Turn> LogStream::SendMatches(LogSearch& search, uint64_t limit, bool to_the_end) {
  std::vector<FoundLine> found;
  bool more = false;
  {
    const std::lock_guard turn(SearchTurn());
    constexpr uint64_t kLinesAtOnce = 1024;
    const uint64_t most = tailing_ ? kLinesAtOnce : std::min(kLinesAtOnce, lines_left_ + 1);
    TIDE_ASSIGN(more, search.Step(limit, to_the_end, most, found));
  }
  if (tailing_) {
    return Tail(found, more) ? Send(found, false) : Turn::kSent;
  }
  const bool cut = found.size() > lines_left_;
  if (cut) {
    found.resize(lines_left_);
  }
  lines_left_ -= found.size();
  const Turn sent = Send(found, cut);
  return cut ? Turn::kOver : (sent == Turn::kNothing && more ? Turn::kSent : sent);
}

// Keeps the last lines until everything was searched. True: now they are in `lines`.
bool LogStream::Tail(std::vector<FoundLine>& lines, bool more) {
  const auto wanted = static_cast<uint64_t>(request_.tail_lines());
  size_t bytes = 0;
  for (FoundLine& line : lines) {
    tail_.push_back(std::move(line));
  }
  lines.clear();
  for (size_t i = tail_.size(); i > 0; --i) {
    bytes += tail_[i - 1].text.size();
    if (tail_.size() - i + 1 > std::min(wanted, kDefaultMaxLines) || bytes > kMaxTailBytes) {
      tail_.erase(tail_.begin(), tail_.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  }
  if (more) {
    return false;
  }
  tailing_ = false;
  lines.assign(std::make_move_iterator(tail_.begin()), std::make_move_iterator(tail_.end()));
  tail_.clear();
  return true;
}

LogStream::Turn LogStream::Send(const std::vector<FoundLine>& lines, bool cut) {
  tide::v1::LogChunk chunk;
  for (const FoundLine& line : lines) {
    if (chunk.data().size() + line.text.size() > kMaxBlockBytes) {
      if (!call_.send(chunk)) {
        return Turn::kOver;
      }
      chunk.Clear();
    }
    if (chunk.marks().empty()) {
      chunk.set_offset(line.offset);
      chunk.set_removed(std::exchange(removed_, 0));
    }
    tide::v1::LogMark& mark = *chunk.add_marks();
    mark.set_begin(static_cast<uint32_t>(chunk.data().size()));
    mark.set_at(line.at);
    mark.set_stream(line.stream);
    mark.set_offset(line.offset);
    chunk.set_next(line.next);
    chunk.mutable_data()->append(line.text).push_back('\n');
  }
  if (chunk.data().empty() && !cut) {
    return Turn::kNothing;
  }
  chunk.set_cut(cut);
  return call_.send(chunk) ? Turn::kSent : Turn::kOver;
}

}  // namespace tide::agent
