#include "agent/runtime/connections.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "common/base/file.h"

namespace tide::agent {
namespace {

constexpr std::string_view kHead =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n";

// A line of the table: what is queued, its timer, how often the timer has sent again.
std::string Row(const std::string& own,
                const std::string& peer,
                const std::string& queues,
                int socket,
                const std::string& state = "01") {
  return "   0: " + own + ":9213 " + peer + ":C128 " + state + " " + queues + " 200000        0 " +
         std::to_string(socket) + " 1 00000000f2b508cb 20 4 31 139 -1\n";
}

constexpr const char* kQuiet = "00000000:00000000 00:00000000 00000000";
constexpr const char* kLost = "00000060:00000000 01:0000003B 00000007";

// Gives the loopback device of a namespace of its own an address that does not look like one.
bool HasOwnNetwork(const sockaddr_in& address) {
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  std::memcpy(&request.ifr_addr, &address, sizeof(address));
  if (::ioctl(socket.get(), SIOCSIFADDR, &request) != 0) {
    return false;
  }
  request.ifr_flags = IFF_UP;
  return ::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0;
}

// Connects to itself there. Returns what is found of its connections.
Connections OfConnected(sockaddr_in address) {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  auto* const where = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  if (!HasOwnNetwork(address) || ::bind(listener.get(), where, size) != 0 ||
      ::listen(listener.get(), 1) != 0 || ::getsockname(listener.get(), where, &size) != 0 ||
      ::connect(client.get(), where, size) != 0) {
    return {};
  }
  return ConnectionLook().Of({::getpid()});
}

}  // namespace

TEST_CASE("peers that acknowledge nothing are found, of the process's own sockets") {
  const std::string table =
      std::string(kHead) + Row("0100090A", "0200090A", kQuiet, 1) +
      Row("0100090A", "0300090A", kLost, 2) + Row("0100090A", "0400090A", kLost, 3) +
      Row("0100090A", "00000000", kQuiet, 4, "0A") + Row("0100007F", "0100007F", kLost, 5);
  CHECK(FindConnections(table, {1, 2, 4, 5}) == Connections{{"10.9.0.1"}, {"10.9.0.3"}});
  CHECK(FindConnections(table, {9}) == Connections());
  CHECK(FindConnections("", {1}) == Connections());
}

TEST_CASE("data that is under way, or that the peer has no room for, is not lost") {
  const auto unanswered = [](const char* queues) {
    return FindConnections(Row("0100090A", "0200090A", queues, 1), {1}).unanswered.size();
  };
  CHECK(unanswered(kLost) == 1);
  CHECK(unanswered("00000060:00000000 01:00000012 00000000") == 0);  // just sent
  CHECK(unanswered("00000060:00000000 01:00000012 00000001") == 0);  // sent again once
  CHECK(unanswered("00000060:00000000 01:00000012 00000002") == 1);
  CHECK(unanswered("00000060:00000000 04:00000012 00000007") == 0);  // a peer that does not read
  CHECK(unanswered("00000000:00000060 02:00000012 00000007") == 0);  // kept alive
}

TEST_CASE("addresses of both kinds are read, and lines that are none are left out") {
  const std::string mapped = "0000000000000000FFFF00000100090A";
  const std::string six = "B80D0120000000000000000001000000";
  CHECK(FindConnections(Row(mapped, mapped, kLost, 1), {1}) ==
        Connections{{"10.9.0.1"}, {"10.9.0.1"}});
  CHECK(FindConnections(Row(six, six, kQuiet, 1), {1}).own ==
        std::vector<std::string>{"2001:db8::1"});
  const std::string line = Row("0100090A", "0200090A", kLost, 1);
  for (size_t length = 0; length < line.find(" 1 0000"); ++length) {
    CHECK(FindConnections(line.substr(0, length), {1}).own.empty());
  }
  CHECK(FindConnections(Row("0100090", "0200090A", kLost, 1), {1}).own.empty());
  CHECK(FindConnections(Row("0100090X", "0200090A", kLost, 1), {1}).own.empty());
}

TEST_CASE("of a process with many peers the first are told") {
  std::string table;
  for (int i = 0; i < 20; ++i) {
    table += Row("0100090A", (i < 10 ? "0" : "1") + std::to_string(i % 10) + "00090A", kLost, 1);
  }
  CHECK(FindConnections(table, {1}).unanswered.size() == kAddressesMax);
}

TEST_CASE("connections of a process in another network namespace are found") {
  const pid_t pid = ::fork();
  if (pid == 0) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::inet_addr("10.9.9.9");
    if (::unshare(CLONE_NEWNET) != 0) {
      ::_exit(77);
    }
    ::_exit(OfConnected(address) == Connections{{"10.9.9.9"}, {}} ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    WARN("skipped: no network namespace without root");
    return;
  }
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a process without connections, and one that is gone, have none") {
  ConnectionLook look;
  CHECK(look.Of({::getpid()}) == Connections());
  CHECK(look.Of({-1}) == Connections());
  CHECK(look.Of({}) == Connections());
}

}  // namespace tide::agent
