#pragma once
// TCP connections of a rank as the kernel sees them: who does not acknowledge what it sends. Where
// every rank waits in a collective, and none for its own code, that is where the message was lost.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tide::agent {

// Addresses as text, ascending, without those of the node itself (loopback).
struct Connections {
  std::vector<std::string> own;         // of this process, in its established connections
  std::vector<std::string> unanswered;  // of peers: what was sent to them was sent again in vain
  bool operator==(const Connections&) const = default;
};

inline constexpr size_t kAddressesMax = 8;  // of each of the two

// Reads lines of /proc/PID/net/tcp and tcp6, of these sockets alone.
//   sockets: numbers of their inodes.
//   Source: Linux, Documentation/networking/proc_net_tcp.rst.
[[nodiscard]] Connections FindConnections(std::string_view table,
                                          const std::set<uint64_t>& sockets);

// One look at the ranks of a node: those in one network namespace share what is read.
class ConnectionLook {
 public:
  // Returns those of a rank's processes together, which are in one namespace; nothing of what is
  // gone.
  [[nodiscard]] Connections Of(const std::vector<int32_t>& pids);

 private:
  std::map<std::string, std::string> tables_;  // by namespace
};

}  // namespace tide::agent
