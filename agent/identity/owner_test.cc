#include "agent/identity/owner.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>

#include "common/base/file.h"

namespace tide::agent {
namespace {

const Owner kSomebody{20017, 20018, {20019}, ""};
const Action kNothing = [](std::string&) { return 0; };

TEST_CASE("what an action returns and leaves comes back") {
  std::string answer;
  CHECK(AsOwner(kSomebody, kNothing, [](std::string&) { return ENOENT; }, answer) == ENOENT);
  CHECK(AsOwner(kSomebody, [](std::string&) { return EACCES; }, kNothing, answer) == EACCES);
  const std::string text(60'000, '\0');
  CHECK(AsOwner(
            kSomebody,
            kNothing,
            [&](std::string& left) {
              left = text;
              return 0;
            },
            answer) == 0);
  CHECK(answer == text);
}

TEST_CASE("an action has its owner's rights and groups, what comes first the agent's") {
  if (::geteuid() != 0) {
    WARN("only root can become another user");
    return;
  }
  std::string answer;
  const int error = AsOwner(
      kSomebody,
      [](std::string& text) {
        text = std::to_string(::geteuid());
        return 0;
      },
      [](std::string& text) {
        gid_t group = 0;
        const int count = ::getgroups(1, &group);
        text += ":" + std::to_string(count) + ":" + std::to_string(group);
        text += ":" + std::to_string(::getgid()) + ":" + std::to_string(::getuid());
        return ::setuid(0) == 0 ? EIO : 0;
      },
      answer);
  CHECK(error == 0);
  CHECK(answer == "0:1:20019:20018:20017");
}

TEST_CASE("an action that does not end is given up, and leaves no zombie after the next one") {
  std::string answer;
  const Action stop = [](std::string&) { return ::raise(SIGSTOP); };
  CHECK(AsOwner(kSomebody, stop, kNothing, answer) == ETIMEDOUT);
  siginfo_t dead{};
  ::waitid(P_ALL, 0, &dead, WEXITED | WNOWAIT);  // until it is dead, where it is still there
  CHECK(AsOwner(kSomebody, kNothing, kNothing, answer) == 0);
  CHECK((::waitid(P_ALL, 0, &dead, WEXITED | WNOHANG | WNOWAIT) == -1 && errno == ECHILD));
}

TEST_CASE("the eyes of an owner see what the owner may, and close again") {
  if (::geteuid() != 0) {
    WARN("only root can become another user");
    return;
  }
  std::string folder = "/tmp/tide-owner-XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const auto opens = [&] {
    return Fd(::open((folder + "/.").c_str(), O_RDONLY | O_CLOEXEC)).valid();
  };
  CHECK(opens());
  {
    const OwnerEyes eyes(kSomebody);
    CHECK_FALSE(opens());
    CHECK(::chmod(folder.c_str(), 0755) != 0);
  }
  REQUIRE(::chown(folder.c_str(), 0, 20019) == 0);
  REQUIRE(::chmod(folder.c_str(), 0050) == 0);
  {
    const OwnerEyes eyes(kSomebody);
    CHECK(opens());  // by a group beside its first
  }
  CHECK(::rmdir(folder.c_str()) == 0);
}

}  // namespace
}  // namespace tide::agent
