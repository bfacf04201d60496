#include "api/gate/listener.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

namespace tide::api {
namespace {

constexpr size_t kNetworkBytes = 8;  // of an IPv6 address

Result<Listener> ListenAt(const addrinfo& at) {
  Fd fd(::socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, at.ai_protocol));
  const int yes = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (!fd.valid() || ::bind(fd.get(), at.ai_addr, at.ai_addrlen) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    return FailErrno("cannot listen", errno);
  }
  sockaddr_storage bound = {};
  socklen_t size = sizeof bound;
  std::array<char, NI_MAXSERV> port{};
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<const sockaddr*>(&bound),
                    size,
                    nullptr,
                    0,
                    port.data(),
                    port.size(),
                    NI_NUMERICSERV) != 0) {
    return FailErrno("cannot find out the port", errno);
  }
  return Listener{std::move(fd), std::stoi(port.data())};
}

std::string Text(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(family, address, text.data(), text.size());
  return text.data();
}

}  // namespace

Result<Listener> ListenOn(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  std::string why = error != 0 ? ::gai_strerror(error) : "";
  for (const addrinfo* at = error == 0 ? found : nullptr; at != nullptr; at = at->ai_next) {
    auto listener = ListenAt(*at);
    if (listener) {
      return listener;
    }
    why = std::generic_category().message(listener.error().os_error);
  }
  return Fail(ErrorCode::kUnavailable,
              "cannot listen on " + host + ":" + std::to_string(port) + ": " + why +
                  "; stop what holds it or choose another port with --listen");
}

PeerAddress AddressOf(const sockaddr_storage& peer) {
  if (peer.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
    const std::string text = Text(AF_INET, &v4.sin_addr);
    return {text, text};
  }
  in6_addr address = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    const std::string text = Text(AF_INET, &address.s6_addr[12]);
    return {text, text};
  }
  const std::string text = Text(AF_INET6, &address);
  return {text, NetworkOf(text)};
}

std::string NetworkOf(const std::string& address) {
  in6_addr parsed = {};
  if (::inet_pton(AF_INET6, address.c_str(), &parsed) != 1) {
    return address;
  }
  std::fill(std::begin(parsed.s6_addr) + kNetworkBytes, std::end(parsed.s6_addr), 0);
  return Text(AF_INET6, &parsed);
}

size_t RaiseFileLimit() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

}  // namespace tide::api
