#pragma once
// One connection to the control socket of a task's supervisor. One thread at a time.

#include <memory>
#include <optional>
#include <string>

#include "agent/runtime/task_status.h"
#include "common/base/file.h"
#include "common/base/result.h"
#include "common/base/time.h"

namespace tide::agent {

class ControlClient {
 public:
  // Errors: kUnavailable when nobody listens there.
  [[nodiscard]] static Result<ControlClient> Connect(const std::string& folder);

  // Sends one line of JSON.
  [[nodiscard]] Status Send(const std::string& request);
  // Waits for one status. Errors: kDeadlineExceeded, kUnavailable when the connection ends.
  [[nodiscard]] Result<TaskStatus> Receive(Duration timeout);
  // The newest status that has come, without waiting. `closed()` tells of the end.
  [[nodiscard]] std::optional<TaskStatus> TakeNewest();

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool closed() const { return closed_; }

 private:
  explicit ControlClient(Fd fd) : fd_(std::move(fd)) {}
  void Fill();
  [[nodiscard]] std::optional<std::string> TakeLine();

  Fd fd_;
  std::string buffer_;
  bool closed_ = false;
};

[[nodiscard]] std::string SignalRequest(int signal);
[[nodiscard]] std::string StopRequest(Duration grace);
inline constexpr const char* kStatusRequest = R"({"op":"status"})";
inline constexpr const char* kWatchRequest = R"({"op":"watch"})";
inline constexpr const char* kKillRequest = R"({"op":"kill"})";

}  // namespace tide::agent
