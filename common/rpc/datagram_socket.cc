// Where datagrams go and come from: gRPC's words for addresses, as sockets.

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "common/rpc/datagram.h"

namespace tide::rpc {
namespace {

// What came while the reader was busy; the system may allow less.
constexpr int kReceiveBytes = 4 << 20;

struct HostPort {
  std::string host;  // empty = all addresses
  uint16_t port = 0;
};

Result<HostPort> Split(std::string_view text) {
  const auto wrong = [&] {
    return Fail(ErrorCode::kInvalidArgument, "\"" + std::string(text) + "\" is not host:port");
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return wrong();
  }
  HostPort parts;
  std::string_view host = text.substr(0, colon);
  // gRPC writes the brackets of a peer's address as in a URL.
  if (host.starts_with("%5B") && host.ends_with("%5D")) {
    host = host.substr(3, host.size() - 6);
  } else if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  parts.host = host;
  const std::string_view port = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), parts.port);
  if (error != std::errc() || end != port.data() + port.size()) {
    return wrong();
  }
  return parts;
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Result<Addresses> Find(const std::string& host, uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(
      host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return Fail(ErrorCode::kInvalidArgument, host + ": " + ::gai_strerror(error));
  }
  return Addresses(found);
}

void SetOption(const Fd& socket, int level, int name, int value) {
  (void)::setsockopt(socket.get(), level, name, &value, sizeof value);
}

Fd NewSocket(int family) {
  return Fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

Result<uint16_t> PortOf(const Fd& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  void* any = &address;
  if (::getsockname(socket.get(), static_cast<sockaddr*>(any), &length) != 0) {
    return FailErrno("cannot read a socket's port", errno);
  }
  return ntohs(address.ss_family == AF_INET6 ? static_cast<sockaddr_in6*>(any)->sin6_port
                                             : static_cast<sockaddr_in*>(any)->sin_port);
}

Result<DatagramPort> Bind(const addrinfo& address) {
  DatagramPort bound{NewSocket(address.ai_family), 0};
  if (!bound.socket.valid()) {
    return FailErrno("cannot make a UDP socket", errno);
  }
  SetOption(bound.socket, SOL_SOCKET, SO_RCVBUF, kReceiveBytes);
  SetOption(bound.socket, SOL_SOCKET, SO_RCVBUFFORCE, kReceiveBytes);  // root gets it anyway
  if (address.ai_family == AF_INET6) {
    SetOption(bound.socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);  // IPv4 as well, as gRPC
    SetOption(bound.socket, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
  } else {
    SetOption(bound.socket, IPPROTO_IP, IP_PKTINFO, 1);
  }
  if (::bind(bound.socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    return FailErrno("cannot bind a UDP socket", errno);
  }
  TIDE_ASSIGN(bound.port, PortOf(bound.socket));
  return bound;
}

}  // namespace

Result<DatagramPort> BindDatagrams(const std::string& listen) {
  TIDE_ASSIGN(HostPort parts, Split(listen));
  if (parts.host == "0.0.0.0" || parts.host.empty()) {
    // As gRPC, which takes IPv6 there as well, on machines that have it.
    if (const auto both = Find("::", parts.port, AI_PASSIVE)) {
      if (auto bound = Bind(**both)) {
        return bound;
      }
    }
  }
  TIDE_ASSIGN(const Addresses found, Find(parts.host, parts.port, AI_PASSIVE));
  return Bind(*found);
}

Result<Fd> ConnectDatagrams(const std::string& peer, uint16_t port) {
  std::string_view rest = peer;
  for (const std::string_view kind : {"ipv4:", "ipv6:"}) {
    if (rest.starts_with(kind)) {
      rest.remove_prefix(kind.size());
      TIDE_ASSIGN(const HostPort parts, Split(rest));
      TIDE_ASSIGN(const Addresses found, Find(parts.host, port, AI_NUMERICHOST));
      Fd socket = NewSocket(found->ai_family);
      if (!socket.valid() || ::connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0) {
        return FailErrno("cannot reach UDP port " + std::to_string(port) + " of " + parts.host,
                         errno);
      }
      return socket;
    }
  }
  return Fail(ErrorCode::kInvalidArgument, peer + " is no IP address");
}

}  // namespace tide::rpc
