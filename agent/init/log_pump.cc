#include "agent/init/log_pump.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/time.h"

namespace tide::agent {
namespace {

constexpr size_t kReadBytes = 65536;
constexpr int kReadsPerTurn = 8;
constexpr int kFullWaitMillis = 5;

}  // namespace

LogPump::LogPump(std::unique_ptr<LogWriter> writer, std::vector<Fd> pipes)
    : writer_(std::move(writer)), pipes_(std::move(pipes)), buffer_(kReadBytes, '\0') {
  writer_->Start();
}

int LogPump::AddTo(std::vector<pollfd>& fds) {
  if (full_since_ != 0 && !writer_->HasRoom()) {
    return kFullWaitMillis;
  }
  for (const Fd& pipe : pipes_) {
    if (pipe.valid()) {
      fds.push_back({pipe.get(), POLLIN, 0});
    }
  }
  return -1;
}

void LogPump::Pump() {
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    bool drop = false;
    if (writer_->HasRoom()) {
      full_since_ = 0;
    } else {
      const int64_t now = MonotonicNanos();
      full_since_ = full_since_ == 0 ? now : full_since_;
      if (now - full_since_ < kMaxHoldNanos) {
        return;
      }
      drop = true;
    }
    size_t total = 0;
    for (size_t i = 0; i < pipes_.size(); ++i) {
      total += ReadOne(i, drop);
    }
    if (total == 0) {
      return;
    }
  }
}

size_t LogPump::ReadOne(size_t pipe, bool drop) {
  if (!pipes_[pipe].valid()) {
    return 0;
  }
  const ssize_t n = ::read(pipes_[pipe].get(), buffer_.data(), buffer_.size());
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
    pipes_[pipe].Close();
  }
  if (n <= 0) {
    return 0;
  }
  const auto size = static_cast<size_t>(n);
  if (drop) {
    writer_->Drop(pipe / 2, size);
  } else {
    writer_->Push(pipe / 2,
                  pipe % 2 == 0 ? kStdoutStream : kStderrStream,
                  std::string_view(buffer_).substr(0, size),
                  SystemNow().unix_nanos());
  }
  return size;
}

void LogPump::Finish() {
  // No more than the pipes hold, so this may go past the limit of the writer's buffer. Someone
  // outside the task may still have an end open: an empty pipe is as good as a closed one.
  for (size_t i = 0; i < pipes_.size(); ++i) {
    while (ReadOne(i, false) != 0) {
    }
    pipes_[i].Close();
  }
  writer_->Finish();
}

}  // namespace tide::agent
