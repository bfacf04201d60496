#pragma once
// Moves the ranks' output from their pipes to the LogWriter. A rank is held up only while the
// writer's buffer is full, and for no more than kMaxHold at a time: after that its output is
// dropped and counted until there is room again.

#include <poll.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/init/log_writer.h"
#include "common/base/file.h"

namespace tide::agent {

class LogPump {
 public:
  static constexpr int64_t kMaxHoldNanos = 1'000'000'000;

  // `pipes`: read ends, non-blocking; stdout and stderr of each rank in turn.
  LogPump(std::unique_ptr<LogWriter> writer, std::vector<Fd> pipes);
  // Adds the pipes worth waiting for. Returns the longest useful wait in ms, -1 = any.
  [[nodiscard]] int AddTo(std::vector<pollfd>& fds);
  // Takes what is there now, a bounded amount.
  void Pump();
  // Takes the rest, once no rank is left, and writes everything.
  void Finish();

 private:
  // Returns bytes read; closes the pipe at its end.
  size_t ReadOne(size_t pipe, bool drop);

  std::unique_ptr<LogWriter> writer_;
  std::vector<Fd> pipes_;
  std::string buffer_;
  int64_t full_since_ = 0;  // monotonic ns; 0 = there is room
};

}  // namespace tide::agent
