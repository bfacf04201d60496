#include "agent/fabric/sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "common/base/time.h"

namespace tide::allreduce {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<Addresses> Resolve(const std::string& address, bool listening) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) {
    return Fail(ErrorCode::kInvalidArgument, "\"" + address + "\" is no address; write HOST:PORT");
  }
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (listening ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (error != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "\"" + address + "\" cannot be resolved: " + ::gai_strerror(error));
  }
  return Addresses(found, &::freeaddrinfo);
}

Fd MakeSocket(const addrinfo& address) {
  return Fd(::socket(
      address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
}

}  // namespace

Result<Fd> ListenOn(const std::string& address) {
  TIDE_ASSIGN(const Addresses found, Resolve(address, true));
  Fd socket = MakeSocket(*found);
  const int on = 1;
  if (!socket.valid() ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(socket.get(), 128) != 0) {
    return FailErrno("cannot listen on " + address, errno);
  }
  return socket;
}

Result<Fd> StartConnecting(const std::string& address) {
  TIDE_ASSIGN(const Addresses found, Resolve(address, false));
  Fd socket = MakeSocket(*found);
  if (!socket.valid() ||
      (::connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS)) {
    return FailErrno("cannot connect to " + address, errno);
  }
  return socket;
}

void SetNoDelay(const Fd& socket) {
  const int on = 1;
  // Where it is refused, the run is slower, and that is what it measures.
  static_cast<void>(::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
}

bool WaitUntilReady(const Fd& socket, short events, int halt_fd, int64_t deadline) {
  std::array<pollfd, 2> fds = {pollfd{socket.get(), events, 0}, pollfd{halt_fd, POLLIN, 0}};
  while (true) {
    const int64_t left = deadline - MonotonicNanos();
    if (left <= 0) {
      return false;
    }
    const int ready = ::poll(fds.data(), fds.size(), static_cast<int>(left / 1'000'000 + 1));
    if (ready > 0) {
      return fds[1].revents == 0;
    }
    if (ready < 0 && errno != EINTR) {
      return false;
    }
  }
}

Status ReadFully(const Fd& socket, std::span<unsigned char> bytes, int halt_fd, int64_t deadline) {
  while (!bytes.empty()) {
    const ssize_t count = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (count > 0) {
      bytes = bytes.subspan(static_cast<size_t>(count));
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      return Fail(ErrorCode::kUnavailable, "closed by the peer");
    } else if (!WaitUntilReady(socket, POLLIN, halt_fd, deadline)) {
      return Fail(ErrorCode::kDeadlineExceeded, "no answer");
    }
  }
  return {};
}

Status WriteFully(const Fd& socket,
                  std::span<const unsigned char> bytes,
                  int halt_fd,
                  int64_t deadline) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(count));
    } else if (errno != EAGAIN && errno != EINTR) {
      return Fail(ErrorCode::kUnavailable, "closed by the peer");
    } else if (!WaitUntilReady(socket, POLLOUT, halt_fd, deadline)) {
      return Fail(ErrorCode::kDeadlineExceeded, "takes nothing");
    }
  }
  return {};
}

}  // namespace tide::allreduce
