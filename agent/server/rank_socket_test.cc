#include "agent/server/rank_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstring>

#include "agent/server/testing/agent_testing.h"

namespace tide::agent {
namespace {

constexpr uid_t kForeigner = 64321;

Fd Dial(const std::string& path) {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(static_cast<char*>(address.sun_path), path.c_str(), path.size() + 1);
  const void* generic = &address;
  if (::connect(fd.get(), static_cast<const sockaddr*>(generic), sizeof address) != 0) {
    return Fd();
  }
  return fd;
}

// What the agent says, or "closed".
std::string Hear(RankSockets& sockets, int fd) {
  std::string answer;
  REQUIRE(Eventually([&] {
    sockets.Serve();
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, 0) <= 0) {
      return false;
    }
    std::string buffer(4096, '\0');
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    answer = n > 0 ? buffer.substr(0, static_cast<size_t>(n)) : "closed";
    return true;
  }));
  return answer;
}

struct Served {
  TestDir dir;
  std::vector<std::string> heard;
  RankSockets sockets{[this](const std::string& key) { heard.push_back(key); }};
  std::string path = dir.File("agent.sock");
  Served() { REQUIRE(sockets.Add("1.1.0", dir.path(), {1, ::geteuid()})); }
};

TEST_CASE("each line is answered, however it is cut") {
  Served served;
  const Fd rank = Dial(served.path);
  REQUIRE(rank.valid());
  REQUIRE(WriteAll(rank.get(), "{\"t\":\"hel"));
  served.sockets.Serve();
  CHECK(served.heard.empty());
  REQUIRE(WriteAll(rank.get(), "lo\"}\n"));
  CHECK(Hear(served.sockets, rank.get()) == "{\"ok\":true}\n");
  CHECK(served.heard == std::vector<std::string>{"1.1.0"});
  REQUIRE(WriteAll(rank.get(), "{}\n{}\n"));
  std::string both = Hear(served.sockets, rank.get());
  while (both.size() < 24) {
    both += Hear(served.sockets, rank.get());
  }
  CHECK(both == "{\"ok\":true}\n{\"ok\":true}\n");
}

TEST_CASE("a line without an end ends the connection") {
  Served served;
  const Fd rank = Dial(served.path);
  REQUIRE(rank.valid());
  std::thread writer([&] { (void)WriteAll(rank.get(), std::string(80 * 1024, 'x')); });
  CHECK(Hear(served.sockets, rank.get()) == "closed");
  writer.join();
  CHECK(served.heard.empty());
  const Fd next = Dial(served.path);  // others are served as before
  REQUIRE(WriteAll(next.get(), "{}\n"));
  CHECK(Hear(served.sockets, next.get()) == "{\"ok\":true}\n");
}

TEST_CASE("a rank that never stops talking does not stop the loop") {
  Served served;
  const Fd rank = Dial(served.path);
  REQUIRE(rank.valid());
  std::atomic<bool> done = false;
  std::thread talker([&] {
    const std::string line = std::string(1000, 'x') + "\n";
    while (!done && ::send(rank.get(), line.data(), line.size(), MSG_NOSIGNAL) > 0) {
    }
  });
  // Answers are not read, so the connection ends at last; until then each Serve comes back.
  CHECK(Eventually([&] {
    served.sockets.Serve();
    return !served.heard.empty();
  }));
  for (int i = 0; i < 200; ++i) {
    served.sockets.Serve();
  }
  done = true;
  served.sockets.Remove("1.1.0");
  talker.join();
}

TEST_CASE("a task with too many connections keeps no other from being answered") {
  Served served;
  TestDir other;
  REQUIRE(served.sockets.Add("2.1.0", other.path(), {1, ::geteuid()}));
  std::vector<Fd> greedy;
  for (int i = 0; i < 600; ++i) {
    greedy.push_back(Dial(served.path));
    REQUIRE(greedy.back().valid());
    served.sockets.Serve();
  }
  const Fd rank = Dial(other.File("agent.sock"));
  REQUIRE(WriteAll(rank.get(), "{}\n"));
  CHECK(Hear(served.sockets, rank.get()) == "{\"ok\":true}\n");
}

TEST_CASE("the next agent takes the socket over, and a removed task has none") {
  Served served;
  RankSockets next([](const std::string&) {});
  REQUIRE(next.Add("1.1.0", served.dir.path(), {1, ::geteuid()}));
  const Fd rank = Dial(served.path);
  REQUIRE(WriteAll(rank.get(), "{}\n"));
  CHECK(Hear(next, rank.get()) == "{\"ok\":true}\n");
  next.Remove("1.1.0");
  CHECK(Hear(next, rank.get()) == "closed");
  CHECK_FALSE(Dial(served.path).valid());
}

TEST_CASE("a path too long for a socket is said to be") {
  RankSockets sockets([](const std::string&) {});
  const Status added = sockets.Add("1.1.0", "/tmp/" + std::string(120, 'd'), {1, ::geteuid()});
  REQUIRE_FALSE(added);
  CHECK(added.error().message.find("--run-root") != std::string::npos);
}

TEST_CASE("other users are turned away") {
  if (::geteuid() != 0) {
    WARN("only root can become another user");
    return;
  }
  Served served;
  // 0 = was answered, 1 = was turned away.
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(kForeigner, kForeigner, kForeigner) != 0) {
      ::_exit(9);
    }
    const Fd fd = Dial(served.path);
    char byte = 0;
    (void)!::send(fd.get(), "{}\n", 3, MSG_NOSIGNAL);
    ::_exit(fd.valid() && ::read(fd.get(), &byte, 1) > 0 ? 0 : 1);
  }
  int status = 0;
  CHECK(Eventually([&] {
    served.sockets.Serve();
    return ::waitpid(child, &status, WNOHANG) == child;
  }));
  CHECK(WEXITSTATUS(status) == 1);
  CHECK(served.heard.empty());
}

}  // namespace
}  // namespace tide::agent
