#pragma once
// The port that the gate listens on, and where a connection came from.

#include <sys/socket.h>

#include <string>

#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::api {

struct Listener {
  Fd fd;  // does not block
  int port = 0;
};
//   port: 0 = any. Errors: kUnavailable.
[[nodiscard]] Result<Listener> ListenOn(const std::string& host, int port);

struct PeerAddress {
  std::string text;   // "10.0.0.7"
  std::string share;  // what counts as one address: with IPv6 a /64, of which anybody has many
};
[[nodiscard]] PeerAddress AddressOf(const sockaddr_storage& peer);
// Returns the share of an address in text; what is no IPv6 address is its own.
[[nodiscard]] std::string NetworkOf(const std::string& address);

// Raises the limit of open files as far as it may be, and returns it.
size_t RaiseFileLimit();

}  // namespace tide::api
