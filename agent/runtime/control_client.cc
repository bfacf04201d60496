#include "agent/runtime/control_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "agent/runtime/task_folder.h"

namespace tide::agent {
namespace {

constexpr size_t kMaxStatusBytes = 4U << 20U;

}  // namespace

Result<ControlClient> ControlClient::Connect(const std::string& folder) {
  const Fd dir(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // By way of the folder's descriptor: a socket's path may have 107 bytes, state folders have more.
  const std::string path = "/proc/self/fd/" + std::to_string(dir.get()) + "/" + kControlSocket;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  if (!dir.valid() || !fd.valid() ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return Fail(ErrorCode::kUnavailable,
                FailErrno("cannot reach the supervisor of " + folder, errno).error().message);
  }
  return ControlClient(std::move(fd));
}

Status ControlClient::Send(const std::string& request) {
  const std::string line = request + "\n";
  const ssize_t sent = ::send(fd_.get(), line.data(), line.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(line.size())) {
    closed_ = true;
    return Fail(ErrorCode::kUnavailable,
                FailErrno("the supervisor does not listen", errno).error().message);
  }
  return {};
}

Result<TaskStatus> ControlClient::Receive(Duration timeout) {
  const int64_t deadline = MonotonicNanos() + timeout.nanos();
  while (true) {
    if (const std::optional<std::string> line = TakeLine(); line) {
      return TaskStatusFromJson(*line);
    }
    if (closed_) {
      return Fail(ErrorCode::kUnavailable, "the supervisor ended the connection");
    }
    const int64_t left = deadline - MonotonicNanos();
    if (left <= 0) {
      return Fail(ErrorCode::kDeadlineExceeded, "the supervisor does not answer");
    }
    pollfd wanted{fd_.get(), POLLIN, 0};
    ::poll(&wanted, 1, static_cast<int>(left / 1'000'000 + 1));
    Fill();
  }
}

std::optional<TaskStatus> ControlClient::TakeNewest() {
  Fill();
  std::optional<TaskStatus> newest;
  while (const std::optional<std::string> line = TakeLine()) {
    if (Result<TaskStatus> status = TaskStatusFromJson(*line); status) {
      newest = *std::move(status);
    } else {
      closed_ = true;
    }
  }
  return newest;
}

void ControlClient::Fill() {
  std::array<char, 16384> part{};
  while (!closed_) {
    const ssize_t n = ::recv(fd_.get(), part.data(), part.size(), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    }
    closed_ = n <= 0 || buffer_.size() > kMaxStatusBytes;
    buffer_.append(part.data(), n > 0 ? static_cast<size_t>(n) : 0);
  }
}

std::optional<std::string> ControlClient::TakeLine() {
  const size_t end = buffer_.find('\n');
  if (end == std::string::npos) {
    return std::nullopt;
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

std::string SignalRequest(int signal) {
  return R"({"op":"signal","signal":)" + std::to_string(signal) + "}";
}

std::string StopRequest(Duration grace) {
  return R"({"op":"stop","grace_ms":)" + std::to_string(grace.millis()) + "}";
}

}  // namespace tide::agent
