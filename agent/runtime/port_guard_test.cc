#include "agent/runtime/port_guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "agent/runtime/cgroup.h"
#include "common/base/file.h"

namespace tide::agent {
namespace {

// errno of a bind to the port, on all addresses; 0 when it was granted.
int Bind(int family, int type, uint16_t port) {
  const Fd fd(::socket(family, type | SOCK_CLOEXEC, 0));
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  const void* address = family == AF_INET6 ? static_cast<const void*>(&six) : &four;
  const socklen_t size = family == AF_INET6 ? sizeof six : sizeof four;
  return ::bind(fd.get(), static_cast<const sockaddr*>(address), size) == 0 ? 0 : errno;
}

struct Row {
  int type;
  uint16_t port;
  int error;
};

// In a network of its own: no port is in use.
int FirstWrong(const std::string& cgroup, std::initializer_list<Row> rows) {
  if (::unshare(CLONE_NEWNET) != 0) {
    return 100;
  }
  std::ofstream(cgroup + "/cgroup.procs") << "0" << std::flush;
  int number = 1;
  for (const Row& row : rows) {
    if (Bind(AF_INET, row.type, row.port) != row.error ||
        Bind(AF_INET6, row.type, row.port) != row.error) {
      return number;
    }
    ++number;
  }
  return 0;
}

TEST_CASE("a process binds no kept port but its own") {
  if (const Status can = CanGuardPorts(); !can) {
    WARN("skipped: " << can.error().message);
    return;
  }
  const std::string path = "/tide-guard-" + std::to_string(::getpid());
  const std::string cgroup = UnifiedCgroup(path);
  REQUIRE(MakeDirs(cgroup, 0755));
  const Status guarded = GuardPorts(cgroup, {20000, 20010, 20003});
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(FirstWrong(cgroup,
                       {{SOCK_STREAM, 19999, 0},
                        {SOCK_STREAM, 20000, EPERM},
                        {SOCK_STREAM, 20002, EPERM},
                        {SOCK_STREAM, 20003, 0},
                        {SOCK_STREAM, 20010, EPERM},
                        {SOCK_STREAM, 20011, 0},
                        {SOCK_STREAM, 0, 0},
                        {SOCK_DGRAM, 20005, 0}}));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(RemoveCgroup(path));
  REQUIRE(guarded);
  INFO("row " << WEXITSTATUS(status));
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

}  // namespace
}  // namespace tide::agent
