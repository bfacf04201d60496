#include "agent/server/rank_socket.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tide::agent {
namespace {

constexpr size_t kLineMax = 64 * 1024;
// Shared by the tasks of the node, so that none takes another's part; as many as a task has ranks,
// and some for what its ranks start, it has in any case.
constexpr size_t kConnectionsShared = 512;
constexpr size_t kBesideRanks = 16;
// Of one connection at a time, so that a rank that never stops talking does not stop the loop.
constexpr int kReadsMax = 32;
constexpr int kAcceptsMax = 64;
constexpr std::string_view kAnswer = "{\"ok\":true}\n";

// Reports whether the process at the other end is of `uid`, or of the agent's.
bool MayTalk(int fd, uint32_t uid) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == uid || peer.uid == ::geteuid());
}

}  // namespace

RankSockets::RankSockets(std::function<void(const std::string& key)> on_message)
    : on_message_(std::move(on_message)), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

Status RankSockets::Add(const std::string& key, const std::string& folder, Ranks ranks) {
  const std::string path = folder + "/agent.sock";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Fail(ErrorCode::kInvalidArgument,
                path + " is too long for a socket; choose a shorter --run-root");
  }
  std::memcpy(static_cast<char*>(address.sun_path), path.c_str(), path.size() + 1);
  ::unlink(path.c_str());
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const void* generic = &address;
  if (!fd.valid() || ::bind(fd.get(), static_cast<const sockaddr*>(generic), sizeof address) != 0 ||
      ::listen(fd.get(), 64) != 0) {
    return FailErrno("cannot listen on " + path, errno);
  }
  // The folder lets others through; who may talk is decided by peer credentials.
  ::chmod(path.c_str(), 0666);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd.get();
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) {
    return FailErrno("cannot watch " + path, errno);
  }
  Remove(key);
  listeners_[key] = {std::move(fd), ranks};
  return {};
}

void RankSockets::Remove(const std::string& key) {
  listeners_.erase(key);
  std::erase_if(connections_, [&](const auto& entry) { return entry.second.key == key; });
}

void RankSockets::Accept(int listener, const std::string& key) {
  Listener& own = listeners_.at(key);
  const size_t share =
      std::max<size_t>(kConnectionsShared / listeners_.size(), own.ranks.count + kBesideRanks);
  for (int i = 0; i < kAcceptsMax; ++i) {
    Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      return;
    }
    if (!MayTalk(fd.get(), own.ranks.uid) || own.connections >= share) {
      continue;
    }
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd.get();
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) == 0) {
      const int number = fd.get();
      connections_[number] = {std::move(fd), key, ""};
      ++own.connections;
    }
  }
}

bool RankSockets::Read(Connection& connection) {
  std::array<char, 4096> buffer{};
  for (int i = 0; i < kReadsMax; ++i) {
    const ssize_t n = ::read(connection.fd.get(), buffer.data(), buffer.size());
    if (n < 0) {
      return errno == EAGAIN || errno == EINTR;
    }
    if (n == 0) {
      return false;
    }
    connection.input.append(buffer.data(), static_cast<size_t>(n));
    for (size_t end = connection.input.find('\n'); end != std::string::npos;
         end = connection.input.find('\n')) {
      connection.input.erase(0, end + 1);
      on_message_(connection.key);
      if (::send(connection.fd.get(), kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL) < 0) {
        return false;
      }
    }
    if (connection.input.size() > kLineMax) {
      return false;
    }
  }
  return true;  // epoll brings it back
}

void RankSockets::Serve() {
  std::array<epoll_event, 32> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    const int fd = events[static_cast<size_t>(i)].data.fd;
    const auto connection = connections_.find(fd);
    if (connection != connections_.end()) {
      if (!Read(connection->second)) {
        --listeners_.at(connection->second.key).connections;
        connections_.erase(connection);
      }
      continue;
    }
    for (const auto& [key, listener] : listeners_) {
      if (listener.fd.get() == fd) {
        Accept(fd, key);
        break;
      }
    }
  }
}

}  // namespace tide::agent
