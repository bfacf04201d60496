#include "sdk/cpp/reporter.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "common/base/time.h"

namespace tide::cpp {
namespace {

constexpr int64_t kReportBudgetNs = 50'000'000;
constexpr size_t kReportLineLimit = 64U << 10U;

// True once the socket is ready for `events`; false at the deadline.
bool Ready(int socket, short events, int64_t deadline_ns) {
  const int64_t left_ms = std::max<int64_t>(1, (deadline_ns - MonotonicNanos()) / 1'000'000);
  pollfd wait{.fd = socket, .events = events, .revents = 0};
  return ::poll(&wait, 1, static_cast<int>(left_ms)) == 1;
}

}  // namespace

Reporter::Reporter(std::string path, int64_t rank) : path_(std::move(path)), rank_(rank) {}

bool Reporter::Send(std::string_view kind, std::string_view fields, bool await_reply) {
  if (path_.empty()) {
    return false;
  }
  std::string line = R"({"t":")";
  line.append(kind).append(R"(","rank":)").append(std::to_string(rank_));
  line.append(fields).append("}\n");
  if (line.size() > kReportLineLimit) {
    return false;
  }
  const int64_t deadline_ns = MonotonicNanos() + kReportBudgetNs;
  if (socket_.valid()) {
    Drain();  // finds out that the agent has gone since the last report
  }
  if ((socket_.valid() || Connect(deadline_ns)) && Write(line, deadline_ns)) {
    return !await_reply || Await(deadline_ns);
  }
  // Part of a line may be out; only a new connection starts at a line's border again.
  socket_.Close();
  return false;
}

void Reporter::Hello() {
  if (!path_.empty() && !Connect(MonotonicNanos() + kReportBudgetNs)) {
    socket_.Close();
  }
}

bool Reporter::Connect(int64_t deadline_ns) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof(address.sun_path)) {
    return false;
  }
  std::copy(path_.begin(), path_.end(), std::begin(address.sun_path));
  // A unix socket connects at once or not at all: EAGAIN means that the agent's queue is full.
  socket_ = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_.valid() ||
      ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return false;
  }
  return Write(R"({"t":"hello","rank":)" + std::to_string(rank_) + R"(,"pid":)" +
                   std::to_string(::getpid()) + ",\"version\":1}\n",
               deadline_ns);
}

bool Reporter::Write(std::string_view line, int64_t deadline_ns) {
  while (!line.empty()) {
    const ssize_t n = ::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      line.remove_prefix(static_cast<size_t>(n));
    } else if (errno != EINTR && (errno != EAGAIN || !Ready(socket_.get(), POLLOUT, deadline_ns))) {
      return false;
    }
  }
  return true;
}

bool Reporter::Await(int64_t deadline_ns) {
  std::array<char, 4096> reply{};
  return Ready(socket_.get(), POLLIN, deadline_ns) &&
         ::recv(socket_.get(), reply.data(), reply.size(), 0) > 0;
}

void Reporter::Drain() {
  std::array<char, 4096> replies{};
  ssize_t n = 0;
  do {
    n = ::recv(socket_.get(), replies.data(), replies.size(), 0);
  } while (n > 0);
  if (n == 0 || errno != EAGAIN) {
    socket_.Close();
  }
}

}  // namespace tide::cpp
