#pragma once
// One command that runs inside a task for a person, from its start until nothing of it is left.
//
// Threads: Run belongs to one thread; everything else may be called from any other meanwhile.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "agent/access/entry.h"
#include "common/base/mutex.h"

namespace tide::agent {

class CommandSink {
 public:
  virtual ~CommandSink() = default;
  // False: nobody wants it any more. May block; then the command is held up by its full pipe.
  virtual bool Out(std::string_view data) = 0;
  virtual bool Err(std::string_view data) = 0;
  // So many bytes of input so far have left for the command.
  virtual bool Taken(uint64_t bytes) = 0;
};

struct CommandEnd {
  int32_t code = 0;
  int32_t signal = 0;
  std::string reason;  // in words, where it was not the command's own doing
};

class Command {
 public:
  // Returns once the command runs. Errors: those of EnterTask; what the OCI runtime says;
  // kInvalidArgument when there is no such program; kDeadlineExceeded.
  [[nodiscard]] static Result<std::unique_ptr<Command>> Start(const std::string& folder,
                                                              const EntryRequest& request);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Passes output on until the command has ended and nothing it started is left.
  [[nodiscard]] CommandEnd Run(CommandSink& sink);

  // False: more than kExecWindow bytes ahead of what was taken.
  [[nodiscard]] bool Write(std::string_view data);
  void EndInput();
  void Resize(WindowSize size);
  void Signal(int signal);
  // Nobody is there any more: SIGHUP, soon after SIGKILL.
  void HangUp();

 private:
  explicit Command(Entered entered, bool terminal);
  [[nodiscard]] Status AwaitStart();
  [[nodiscard]] Error WhyNotStarted();
  // What the socket has to say; nothing when it has nothing.
  void TakeReport();
  void Flush() TIDE_REQUIRES(mutex_);
  // False once there is nothing more to come from `fd`.
  [[nodiscard]] static bool Copy(Fd& fd, const std::function<bool(std::string_view)>& to);
  [[nodiscard]] bool SayTaken(CommandSink& sink);
  void Reap();

  Entered entered_;
  const bool terminal_;
  Fd wake_;  // eventfd: there is input to write
  bool reported_ = false;
  bool ended_ = false;  // nothing more comes over the leash
  CommandEnd end_;
  uint64_t taken_said_ = 0;

  Mutex mutex_;
  std::deque<std::string> waiting_ TIDE_GUARDED_BY(mutex_);  // input the command has not taken
  size_t waiting_bytes_ TIDE_GUARDED_BY(mutex_) = 0;
  uint64_t taken_ TIDE_GUARDED_BY(mutex_) = 0;
  bool end_of_input_ TIDE_GUARDED_BY(mutex_) = false;
  bool deaf_ TIDE_GUARDED_BY(mutex_) = false;  // it reads no more
  bool hung_up_ TIDE_GUARDED_BY(mutex_) = false;
};

}  // namespace tide::agent
