#include "cli/remote_command.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/environment.h"
#include "cli/json_view.h"
#include "cli/terminal.h"
#include "common/base/file.h"
#include "common/base/mutex.h"
#include "common/base/time.h"
#include "common/exec/frame.h"

namespace tide::cli {
namespace {

constexpr size_t kReadBytes = 16 * 1024;
// The server says something every 15 s.
constexpr Duration kServerSilence = Duration::Seconds(40);
constexpr Duration kInputTimeout = Duration::Seconds(20);
constexpr Duration kLeaveTimeout = Duration::Seconds(3);
// How long a broken connection is tried again: less than the server waits for a reader.
constexpr Duration kReconnect = Duration::Seconds(30);
constexpr Duration kReconnectEvery = Duration::Millis(200);
constexpr char kInterruptKey = 3;
constexpr int kAliveMillis = 15'000;

class Wake {
 public:
  Wake() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  void Set() const {
    const uint64_t one = 1;
    static_cast<void>(::write(fd_.get(), &one, sizeof(one)));
  }
  void Clear() const {
    uint64_t count = 0;
    static_cast<void>(::read(fd_.get(), &count, sizeof(count)));
  }
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  const Fd fd_;
};

// Sends input in order, on a thread of its own: a request may take long, and a key must not wait
// for more than the one before it.
class InputSender {
 public:
  InputSender(const Server& server, std::string path)
      : connection_(server, kInputTimeout), path_(std::move(path)), thread_([this] { Run(); }) {}
  ~InputSender() {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
      changed_.NotifyAll();
    }
    connection_.Stop();
    thread_.join();
  }
  InputSender(const InputSender&) = delete;
  InputSender& operator=(const InputSender&) = delete;

  void Send(std::string_view frames) {
    const MutexLock lock(mutex_);
    waiting_ += frames;
    changed_.NotifyAll();
  }
  // Says that somebody is there, though nothing is typed and nothing read: a pager is at work.
  void SayAlive() {
    const MutexLock lock(mutex_);
    alive_ = true;
    changed_.NotifyAll();
  }

 private:
  void Run() {
    for (uint64_t seq = 1;; ++seq) {
      std::string frames;
      {
        const MutexLock lock(mutex_);
        while (waiting_.empty() && !alive_ && !stopping_) {
          changed_.WaitFor(mutex_, -1);
        }
        alive_ = false;
        if (stopping_) {
          return;
        }
        frames.swap(waiting_);
      }
      if (!Post(seq, frames)) {
        return;
      }
    }
  }

  // Again until it is known to have arrived: the number makes that safe.
  bool Post(uint64_t seq, const std::string& frames) {
    while (true) {
      const KeptConnection::Reply reply = connection_.Post(
          path_ + "?seq=" + std::to_string(seq), frames, "application/octet-stream");
      if (reply.status == 200) {
        return true;
      }
      const bool again = reply.status == 0 || reply.status == 429 || reply.status >= 500;
      if (!again) {
        return false;  // it has ended; its output says how
      }
      const MutexLock lock(mutex_);
      if (stopping_) {
        return false;
      }
      changed_.WaitFor(mutex_, kReconnectEvery.nanos());
    }
  }

  KeptConnection connection_;
  const std::string path_;
  Mutex mutex_;
  Condition changed_;
  std::string waiting_ TIDE_GUARDED_BY(mutex_);
  bool alive_ TIDE_GUARDED_BY(mutex_) = false;
  bool stopping_ TIDE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the members above
};

// Copies output to stdout and stderr, on a thread of its own, over broken connections.
class OutputCopier {
 public:
  OutputCopier(const Client& client, std::string path, const Wake& wake)
      : client_(client), path_(std::move(path)), wake_(wake), thread_([this] { Run(); }) {}
  ~OutputCopier() {
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  OutputCopier(const OutputCopier&) = delete;
  OutputCopier& operator=(const OutputCopier&) = delete;

  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] uint64_t taken() const { return taken_; }
  // The program ends without it.
  void Abandon() { thread_.detach(); }

  struct Result {
    std::optional<FrameEnd> end;
    std::string failure;  // where `end` is nothing
  };
  // Once done.
  [[nodiscard]] const Result& result() const { return result_; }

 private:
  void Run() {
    Copy();
    done_ = true;
    wake_.Set();
  }

  void Copy() {
    int64_t lost_at = 0;
    while (true) {
      FrameReader reader;
      const uint64_t before = offset_;
      const auto end = client_.Stream(
          path_ + "?offset=" + std::to_string(offset_),
          [&](std::string_view data) {
            broken_ = false;
            Take(reader, data);
          },
          {},
          kServerSilence);
      if (over_) {
        return;
      }
      if (!end) {
        result_.failure = end.error().message;
        return;
      }
      const int64_t now = MonotonicNanos();
      broken_ = true;
      lost_at = lost_at == 0 || offset_ != before ? now : lost_at;
      if (now - lost_at > kReconnect.nanos()) {
        result_.failure = "the connection to the server broke, and it does not answer any more";
        return;
      }
      ::poll(nullptr, 0, static_cast<int>(kReconnectEvery.millis()));
    }
  }

  void Take(FrameReader& reader, std::string_view data) {
    reader.Append(data);
    while (!over_) {
      const auto frame = reader.Next();
      if (!frame) {
        Give(std::nullopt, "the server sent something else than output");
        return;
      }
      if (!*frame) {
        return;
      }
      Use(**frame);
    }
  }

  void Use(const Frame& frame) {
    if (frame.kind == FrameKind::kAlive) {
      return;
    }
    std::string same;
    AppendFrame(same, frame.kind, frame.payload);
    offset_ += same.size();
    if (frame.kind == FrameKind::kOut || frame.kind == FrameKind::kErr) {
      const int fd = frame.kind == FrameKind::kOut ? STDOUT_FILENO : STDERR_FILENO;
      if (const Status written = WriteAll(fd, frame.payload); !written) {
        Give(std::nullopt, "cannot write its output: " + written.error().message);
      }
    } else if (const auto taken = TakenOf(frame)) {
      taken_ = *taken;
      wake_.Set();
    } else if (const auto end = EndOf(frame)) {
      Give(end, "");
    } else if (frame.kind == FrameKind::kError) {
      Give(std::nullopt, frame.payload);
    }
  }

  void Give(std::optional<FrameEnd> end, const std::string& failure) {
    over_ = true;
    result_ = {std::move(end), failure};
    done_ = true;
    wake_.Set();
  }

  const Client& client_;
  const std::string path_;
  const Wake& wake_;
  uint64_t offset_ = 0;
  bool over_ = false;
  Result result_;
  std::atomic<uint64_t> taken_ = 0;
  std::atomic<bool> broken_ = false;
  std::atomic<bool> done_ = false;
  std::thread thread_;  // last: it uses the members above
};

class RemoteRun {
 public:
  RemoteRun(Context& context, const Client& client, const RemoteCommand& command)
      : context_(context), client_(client), command_(command) {}

  int Run() {
    const auto started =
        context_.Post("/v1/jobs/" + UrlStep(command_.job) + "/exec",
                      {.text = Body(), .type = "application/json", .idempotency_key = ""});
    if (!started) {
      static_cast<void>(context_.Report(started.error()));
      return kExitOwnFailure;
    }
    TakeOverSignals();  // before there are threads
    job_ = Text(*started, "job");
    session_ = "/v1/exec/" + UrlStep(Text(*started, "session"));
    window_ = static_cast<uint64_t>(std::max<int64_t>(Number(*started, "window", 0), kReadBytes));
    OutputCopier output(client_, session_ + "/output", wake_);
    InputSender input(client_.server(), session_ + "/input");
    if (command_.terminal) {
      raw_.emplace();
    }
    if (!command_.input) {
      EndInput(input);
    }
    while (!output.done() && left_by_ == 0) {
      Wait(output, input);
    }
    if (raw_) {
      raw_->Restore();
    }
    if (left_by_ != 0) {
      output.Abandon();
      Leave();
      ::_exit(128 + left_by_);  // the output's thread may wait for a server that is gone
    }
    return Finish(output.result());
  }

 private:
  void TakeOverSignals() {
    ::signal(SIGPIPE, SIG_IGN);
    sigset_t taken{};
    sigemptyset(&taken);
    for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGWINCH}) {
      sigaddset(&taken, signal);
    }
    ::pthread_sigmask(SIG_BLOCK, &taken, nullptr);
    signals_ = Fd(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  [[nodiscard]] std::string Body() const {
    json body = {{"rank", command_.rank}};
    if (!command_.argv.empty()) {
      body["argv"] = command_.argv;
    }
    if (command_.terminal) {
      const FrameSize size = TerminalSize().value_or(FrameSize{24, 80});
      const std::string type = Env("TERM");
      body["terminal"] = {{"rows", size.rows}, {"columns", size.columns}};
      if (!type.empty()) {
        body["terminal"]["type"] = type;
      }
    }
    return body.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  void Wait(const OutputCopier& output, InputSender& input) {
    const bool room = sent_ - std::min(sent_, output.taken()) + kReadBytes <= window_;
    std::array<pollfd, 3> fds{
        pollfd{input_open_ && (room || (output.broken() && raw_)) ? STDIN_FILENO : -1, POLLIN, 0},
        pollfd{signals_.get(), POLLIN, 0},
        pollfd{wake_.fd(), POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), kAliveMillis) == 0) {
      input.SayAlive();
    }
    wake_.Clear();
    TakeSignals(output, input);
    if (fds[0].revents != 0 && !output.done()) {
      TakeInput(output, input);
    }
  }

  void TakeInput(const OutputCopier& output, InputSender& input) {
    std::array<char, kReadBytes> data{};
    const ssize_t size = ::read(STDIN_FILENO, data.data(), data.size());
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    }
    if (size <= 0) {
      EndInput(input);
      return;
    }
    const std::string_view text(data.data(), static_cast<size_t>(size));
    if (output.broken() && raw_ && text.find(kInterruptKey) != std::string_view::npos) {
      left_by_ = SIGINT;  // nobody else would hear it
      return;
    }
    std::string frames;
    AppendFrame(frames, FrameKind::kInput, text);
    sent_ += text.size();
    input.Send(frames);
  }

  void EndInput(InputSender& input) {
    input_open_ = false;
    std::string frames;
    AppendFrame(frames, FrameKind::kEndOfInput);
    input.Send(frames);
  }

  void TakeSignals(const OutputCopier& output, InputSender& input) {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      std::string frames;
      if (signal == SIGWINCH) {
        if (const auto size = TerminalSize(); size && command_.terminal) {
          AppendResize(frames, *size);
        }
      } else if ((signal == SIGINT || signal == SIGQUIT) && !output.broken()) {
        AppendSignal(frames, signal);
      } else {
        left_by_ = signal;
      }
      if (!frames.empty()) {
        input.Send(frames);
      }
    }
  }

  // Ends the command; the server would, too, but later.
  void Leave() const {
    KeptConnection connection(client_.server(), kLeaveTimeout);
    static_cast<void>(connection.Delete(session_));
  }

  int Finish(const OutputCopier::Result& result) const {
    Leave();  // what has ended has no need of a place at the server
    if (!result.end) {
      return context_.Report({kExitOwnFailure, result.failure, {}, false});
    }
    if (!result.end->reason.empty()) {
      context_.Hint(Printable("tide: " + result.end->reason + "; see `tide show " + job_ + "`"));
    }
    return result.end->signal != 0 ? 128 + result.end->signal : result.end->code;
  }

  Context& context_;
  const Client& client_;
  const RemoteCommand& command_;
  std::string job_;
  std::string session_;  // path
  uint64_t window_ = 0;
  uint64_t sent_ = 0;
  bool input_open_ = true;
  int left_by_ = 0;  // signal that ends this program
  const Wake wake_;
  Fd signals_;
  std::optional<RawTerminal> raw_;
};

}  // namespace

int RunRemote(Context& context, const RemoteCommand& command) {
  context.own_failure = kExitOwnFailure;
  const auto client = context.Connect();
  if (!client) {
    static_cast<void>(context.Report(client.error()));
    return kExitOwnFailure;
  }
  return RemoteRun(context, **client, command).Run();
}

}  // namespace tide::cli
