#include "agent/server/access_service.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <thread>
#include <utility>

#include "agent/access/command.h"
#include "agent/server/call_place.h"
#include "agent/server/held_task.h"
#include "agent/server/start_plan.h"
#include "common/base/mutex.h"
#include "common/base/time.h"
#include "common/exec/limits.h"
#include "common/log/log.h"
#include "tide/v1/access.grpc.pb.h"

namespace tide::agent {
namespace {

using ExecStream = grpc::ServerReaderWriter<tide::v1::ExecOutput, tide::v1::ExecInput>;

// Between the last message and the caller's closing of the stream.
constexpr Duration kClosing = Duration::Seconds(5);

Status CheckBounds(const tide::v1::ExecStart& start) {
  size_t bytes = 0;
  bool empty_program = start.argv_size() > 0 && start.argv(0).empty();
  for (const std::string& word : start.argv()) {
    bytes += word.size();
    empty_program = empty_program || word.find('\0') != std::string::npos;
  }
  const tide::v1::TerminalSize& size = start.terminal();
  const bool bad_size =
      start.has_terminal() && (size.rows() == 0 || size.rows() > kTerminalSideMax ||
                               size.columns() == 0 || size.columns() > kTerminalSideMax);
  if (empty_program || bad_size || bytes > kExecArgumentBytesMax ||
      static_cast<size_t>(start.argv_size()) > kExecArgumentsMax ||
      start.terminal_type().size() > kTerminalTypeMax ||
      start.terminal_type().find_first_of(std::string("\0/", 2)) != std::string::npos) {
    return Fail(ErrorCode::kInvalidArgument,
                "the command, its terminal's size or its type is not within bounds");
  }
  return {};
}

WindowSize SizeOf(const tide::v1::TerminalSize& size) {
  const auto side = [](uint32_t value) {
    return static_cast<uint16_t>(std::clamp(value, 1U, kTerminalSideMax));
  };
  return {side(size.rows()), side(size.columns())};
}

// Reads what the caller sends, on a thread of its own, until it hangs up.
class CallerReader {
 public:
  CallerReader(grpc::ServerContext& context, ExecStream& stream, Command& command)
      : context_(context), stream_(stream), command_(command), thread_([this] { Run(); }) {}
  // The caller closes once it was told of the end; one that does not is cut off.
  ~CallerReader() {
    const int64_t deadline = MonotonicNanos() + kClosing.nanos();
    {
      const MutexLock lock(mutex_);
      while (!over_ && MonotonicNanos() < deadline) {
        changed_.WaitFor(mutex_, std::max<int64_t>(0, deadline - MonotonicNanos()));
      }
      if (!over_) {
        context_.TryCancel();
      }
    }
    thread_.join();
  }
  CallerReader(const CallerReader&) = delete;
  CallerReader& operator=(const CallerReader&) = delete;

 private:
  void Run() {
    for (tide::v1::ExecInput input; stream_.Read(&input) && Take(input);) {
    }
    command_.HangUp();
    const MutexLock lock(mutex_);
    over_ = true;
    changed_.NotifyAll();
  }

  bool Take(const tide::v1::ExecInput& input) {
    switch (input.body_case()) {
      case tide::v1::ExecInput::kData:
        return command_.Write(input.data());
      case tide::v1::ExecInput::kEndOfData:
        command_.EndInput();
        return true;
      case tide::v1::ExecInput::kResize:
        command_.Resize(SizeOf(input.resize()));
        return true;
      case tide::v1::ExecInput::kSignal:
        if (input.signal() > 0 && input.signal() < NSIG) {
          command_.Signal(input.signal());
        }
        return true;
      case tide::v1::ExecInput::kStart:
      case tide::v1::ExecInput::BODY_NOT_SET:
        return false;
    }
    return false;
  }

  grpc::ServerContext& context_;
  ExecStream& stream_;
  Command& command_;
  Mutex mutex_;
  Condition changed_;
  bool over_ TIDE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the members above
};

class StreamSink final : public CommandSink {
 public:
  explicit StreamSink(ExecStream& stream) : stream_(stream) {}
  bool Out(std::string_view data) override {
    tide::v1::ExecOutput output;
    output.set_out(data.data(), data.size());
    return stream_.Write(output);
  }
  bool Err(std::string_view data) override {
    tide::v1::ExecOutput output;
    output.set_err(data.data(), data.size());
    return stream_.Write(output);
  }
  bool Taken(uint64_t bytes) override {
    tide::v1::ExecOutput output;
    output.set_taken(bytes);
    return stream_.Write(output);
  }

 private:
  ExecStream& stream_;
};

class AccessService final : public tide::v1::AgentAccess::Service {
 public:
  explicit AccessService(AccessServiceOptions options) : options_(std::move(options)) {}

  grpc::Status Exec(grpc::ServerContext* context, ExecStream* stream) override {
    if (grpc::Status admitted = options_.security.Admit(*context, rpc::Role::kApi);
        !admitted.ok()) {
      return admitted;
    }
    const CallPlace place(sessions_, kExecSessionsMax);
    tide::v1::ExecInput first;
    if (!place.have()) {
      return rpc::ToGrpc({ErrorCode::kExhausted,
                          "this node runs " + std::to_string(kExecSessionsMax) +
                              " commands of people already; try again when one has ended"},
                         context);
    }
    if (!stream->Read(&first) || !first.has_start()) {
      return rpc::ToGrpc({ErrorCode::kInvalidArgument, "a command begins with its start"}, context);
    }
    const auto command = Start(first.start());
    if (!command) {
      log::Info("Command not started",
                {{"Actor", first.start().actor()},
                 {"Task", TaskKey(IdOf(first.start()))},
                 {"Reason", command.error().message}});
      return rpc::ToGrpc(command.error(), context);
    }
    Serve(*context, *stream, **command, first.start());
    return grpc::Status::OK;
  }

 private:
  Result<std::unique_ptr<Command>> Start(const tide::v1::ExecStart& start) const {
    TIDE_TRY(CheckBounds(start));
    const std::string key = TaskKey(IdOf(start));
    const auto held = ReadHeld(options_.state_dir, key);
    // Numbers of jobs repeat when the scheduler's database is lost.
    const bool same = held && (start.submitted_at() == 0 || held->start.submitted_at() == 0 ||
                               held->start.submitted_at() == start.submitted_at());
    if (!same || options_.is_over(key)) {
      return Fail(ErrorCode::kConflict, "task " + key + " does not run on this node");
    }
    EntryRequest request{.rank = start.rank(),
                         .argv = {start.argv().begin(), start.argv().end()},
                         .size = {},
                         .terminal_type = start.terminal_type()};
    if (start.has_terminal()) {
      request.size = SizeOf(start.terminal());
    }
    return Command::Start(options_.state_dir + "/tasks/" + key, request);
  }

  // Arguments may hold secrets: the log says how many there are.
  static void Serve(grpc::ServerContext& context,
                    ExecStream& stream,
                    Command& command,
                    const tide::v1::ExecStart& start) {
    const std::string key = TaskKey(IdOf(start));
    const std::string program = start.argv_size() == 0 ? "(shell)" : start.argv(0);
    const int64_t began = MonotonicNanos();
    log::Info("Command started",
              {{"Actor", start.actor()},
               {"Task", key},
               {"Rank", start.rank()},
               {"Program", program},
               {"Arguments", std::max(0, start.argv_size() - 1)},
               {"Terminal", start.has_terminal()}});
    tide::v1::ExecOutput started;
    started.set_started(true);
    stream.Write(started);
    CommandEnd end;
    {
      const CallerReader reader(context, stream, command);
      StreamSink sink(stream);
      end = command.Run(sink);
      tide::v1::ExecOutput last;
      last.mutable_ended()->set_code(end.code);
      last.mutable_ended()->set_signal(end.signal);
      last.mutable_ended()->set_reason(end.reason);
      stream.Write(last);
    }
    log::Info("Command ended",
              {{"Actor", start.actor()},
               {"Task", key},
               {"Rank", start.rank()},
               {"Program", program},
               {"Seconds", (MonotonicNanos() - began) / 1'000'000'000},
               {"Code", end.code},
               {"Signal", end.signal}});
  }

  const AccessServiceOptions options_;
  std::atomic<int> sessions_ = 0;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeAccessService(AccessServiceOptions options) {
  return std::make_unique<AccessService>(std::move(options));
}

}  // namespace tide::agent
