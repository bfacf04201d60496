#include "agent/access/command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>

#include "agent/runtime/exec_config.h"
#include "common/base/time.h"
#include "common/exec/limits.h"

namespace tide::agent {
namespace {

constexpr Duration kEnterTimeout = Duration::Seconds(15);
// After the end: output that is still in a pipe, which an escaped process may hold open.
constexpr Duration kLastOutput = Duration::Seconds(2);
// After a hang-up, and for the OCI runtime to end: then SIGKILL.
constexpr Duration kEndTimeout = Duration::Seconds(10);
constexpr char kEndOfTransmission = 4;
constexpr size_t kCopyBytes = 32 * 1024;

int MillisUntil(int64_t deadline) {
  const int64_t left = deadline - MonotonicNanos();
  return left <= 0 ? 0 : static_cast<int>(left / 1'000'000 + 1);
}

// One packet of the attendant. `closed`: there will be no more.
std::optional<ExecReport> ReceiveReport(int leash, bool& closed) {
  std::array<char, kExecPacketMax> data{};
  ssize_t size = ::recv(leash, data.data(), data.size(), MSG_DONTWAIT);
  if (size < 0 && errno == ECONNRESET) {
    size = ::recv(leash, data.data(), data.size(), MSG_DONTWAIT);  // what it sent before
  }
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
    return std::nullopt;
  }
  closed = size <= 0;
  return closed ? std::nullopt : ExecReportFromText({data.data(), static_cast<size_t>(size)});
}

// A command that closed its input must not end the agent by SIGPIPE. Whatever the caller has masked
// stays as it was.
ssize_t WriteQuietly(int fd, const std::string& data) {
  sigset_t pipe_signal{};
  sigset_t before{};
  ::sigemptyset(&pipe_signal);
  ::sigaddset(&pipe_signal, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  const ssize_t size = ::write(fd, data.data(), data.size());
  const int error = errno;
  if (size < 0 && error == EPIPE && ::sigismember(&before, SIGPIPE) == 0) {
    const timespec at_once{};
    ::sigtimedwait(&pipe_signal, nullptr, &at_once);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return size;
}

}  // namespace

Command::Command(Entered entered, bool terminal)
    : entered_(std::move(entered)),
      terminal_(terminal),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Command::~Command() {
  HangUp();
  entered_.leash.Close();
  Reap();
}

Result<std::unique_ptr<Command>> Command::Start(const std::string& folder,
                                                const EntryRequest& request) {
  TIDE_ASSIGN(Entered entered, EnterTask(folder, request));
  std::unique_ptr<Command> command(new Command(std::move(entered), request.size.has_value()));
  TIDE_TRY(command->AwaitStart());
  return command;
}

Status Command::AwaitStart() {
  const int64_t deadline = MonotonicNanos() + kEnterTimeout.nanos();
  while (true) {
    pollfd wanted{entered_.leash.get(), POLLIN, 0};
    if (::poll(&wanted, 1, MillisUntil(deadline)) == 0) {
      return Fail(ErrorCode::kDeadlineExceeded, "the task was not entered within 15 s");
    }
    bool closed = false;
    const auto report = ReceiveReport(entered_.leash.get(), closed);
    if (closed) {
      return std::unexpected(WhyNotStarted());
    }
    if (report && report->kind == ExecReport::Kind::kCannotStart) {
      return Fail(ErrorCode::kInvalidArgument, report->text + " in the task");
    }
    if (report && report->kind == ExecReport::Kind::kStarted) {
      return {};
    }
  }
}

Error Command::WhyNotStarted() {
  Reap();  // then everything was said
  std::array<char, 1024> text{};
  const ssize_t size = ::read(entered_.complaints.get(), text.data(), text.size());
  std::string why(text.data(), size > 0 ? static_cast<size_t>(size) : 0);
  why.erase(why.find_last_not_of('\n') + 1);
  return {
      ErrorCode::kConflict,
      "the task cannot be entered" + (why.empty() ? "; it may have ended just now" : ": " + why)};
}

CommandEnd Command::Run(CommandSink& sink) {
  int64_t deadline = INT64_MAX;
  bool wanted = true;
  const auto pass = [&](const std::function<bool(std::string_view)>& to) {
    return [&wanted, to](std::string_view data) {
      wanted = wanted && to(data);
      return wanted;
    };
  };
  const auto out = pass([&sink](std::string_view data) { return sink.Out(data); });
  const auto err = pass([&sink](std::string_view data) { return sink.Err(data); });
  while (!ended_ || entered_.output.valid() || entered_.errors.valid()) {
    int input = -1;
    {
      const MutexLock lock(mutex_);
      input = !waiting_.empty() && !deaf_ ? entered_.input.get() : -1;
      if (hung_up_ && deadline == INT64_MAX) {
        deadline = MonotonicNanos() + kEndTimeout.nanos();
      }
    }
    std::array<pollfd, 5> fds{pollfd{ended_ ? -1 : entered_.leash.get(), POLLIN, 0},
                              pollfd{entered_.output.get(), POLLIN, 0},
                              pollfd{entered_.errors.get(), POLLIN, 0},
                              pollfd{input, POLLOUT, 0},
                              pollfd{wake_.get(), POLLIN, 0}};
    const int ready =
        ::poll(fds.data(), fds.size(), deadline == INT64_MAX ? -1 : MillisUntil(deadline));
    if (ready == 0 && MonotonicNanos() >= deadline) {
      break;
    }
    uint64_t count = 0;
    static_cast<void>(::read(wake_.get(), &count, sizeof(count)));
    if (fds[3].revents != 0) {
      const MutexLock lock(mutex_);
      Flush();
    }
    if (fds[1].revents != 0 && !Copy(entered_.output, out)) {
      entered_.output.Close();
    }
    if (fds[2].revents != 0 && !Copy(entered_.errors, err)) {
      entered_.errors.Close();
    }
    if (fds[0].revents != 0 && !ended_) {
      TakeReport();
      if (ended_) {
        deadline = MonotonicNanos() + kLastOutput.nanos();
      }
    }
    if (!SayTaken(sink) || !wanted) {
      HangUp();
    }
  }
  Reap();
  if (!reported_) {
    end_ = {0, SIGKILL, "the task was left or ended, and with it everything in it"};
  }
  return end_;
}

void Command::TakeReport() {
  const auto report = ReceiveReport(entered_.leash.get(), ended_);
  if (report && report->kind == ExecReport::Kind::kEnded) {
    reported_ = true;
    ended_ = true;
    end_ = {report->code, report->signal, ""};
  }
}

bool Command::Copy(Fd& fd, const std::function<bool(std::string_view)>& to) {
  std::array<char, kCopyBytes> buffer{};
  const ssize_t size = ::read(fd.get(), buffer.data(), buffer.size());
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
    return true;
  }
  // A terminal that nobody holds open any more is an error (EIO) and not an end.
  if (size <= 0) {
    return false;
  }
  to({buffer.data(), static_cast<size_t>(size)});  // read on even if it is not wanted
  return true;
}

bool Command::SayTaken(CommandSink& sink) {
  uint64_t taken = 0;
  {
    const MutexLock lock(mutex_);
    taken = taken_;
  }
  if (taken - taken_said_ < kExecTakenStep) {
    return true;
  }
  taken_said_ = taken;
  return sink.Taken(taken);
}

bool Command::Write(std::string_view data) {
  const MutexLock lock(mutex_);
  if (waiting_bytes_ + data.size() > kExecWindow) {
    return false;
  }
  if (data.empty() || end_of_input_) {
    return true;
  }
  waiting_.emplace_back(data);
  waiting_bytes_ += data.size();
  Flush();  // a key press need not wait for the other thread
  if (!waiting_.empty() || taken_ % kExecTakenStep < data.size()) {
    const uint64_t one = 1;
    static_cast<void>(::write(wake_.get(), &one, sizeof(one)));
  }
  return true;
}

void Command::Flush() {
  while (!waiting_.empty()) {
    std::string& front = waiting_.front();
    const ssize_t size =
        deaf_ ? static_cast<ssize_t>(front.size()) : WriteQuietly(entered_.input.get(), front);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    }
    if (size < 0) {
      deaf_ = true;  // it closed its input; what else comes for it is dropped
      continue;
    }
    taken_ += static_cast<uint64_t>(size);
    waiting_bytes_ -= static_cast<size_t>(size);
    front.erase(0, static_cast<size_t>(size));
    if (front.empty()) {
      waiting_.pop_front();
    }
  }
  if (end_of_input_ && !terminal_) {
    entered_.input.Close();
  }
}

void Command::EndInput() {
  const MutexLock lock(mutex_);
  if (end_of_input_) {
    return;
  }
  if (terminal_) {
    waiting_.emplace_back(1, kEndOfTransmission);
    ++waiting_bytes_;
  }
  end_of_input_ = true;
  Flush();
  const uint64_t one = 1;
  static_cast<void>(::write(wake_.get(), &one, sizeof(one)));
}

void Command::Resize(WindowSize size) {
  const MutexLock lock(mutex_);
  if (terminal_ && entered_.input.valid()) {
    SetWindowSize(entered_.input.get(), size);
  }
}

void Command::Signal(int signal) {
  const std::string text = ExecSignalToText(signal);
  ::send(entered_.leash.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Command::HangUp() {
  const MutexLock lock(mutex_);
  if (!hung_up_) {
    hung_up_ = true;
    // Its reports still come this way.
    ::shutdown(entered_.leash.get(), SHUT_WR);
    const uint64_t one = 1;
    static_cast<void>(::write(wake_.get(), &one, sizeof(one)));
  }
}

void Command::Reap() {
  if (entered_.pid == 0) {
    return;
  }
  const int64_t deadline = MonotonicNanos() + kEndTimeout.nanos();
  int status = 0;
  while (::waitpid(entered_.pid, &status, WNOHANG) == 0) {
    if (MonotonicNanos() > deadline) {
      ::kill(entered_.pid, SIGKILL);
      ::waitpid(entered_.pid, &status, 0);
      break;
    }
    ::poll(nullptr, 0, 1);  // tidy: poll, bounded; a child's end is told to no descriptor we hold
  }
  entered_.pid = 0;
}

}  // namespace tide::agent
