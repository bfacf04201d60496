#include "agent/runtime/stacks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>

namespace tide::agent {
namespace {

int g_answers = -1;  // the end of a pipe

// Ends the process: one that only went on waiting might have been asked before it waited.
void Answer(int /*signal*/) {
  (void)!::write(g_answers, "a", 1);
  ::_exit(7);
}

// Reads until the other end is closed.
std::string ReadAll(int fd) {
  std::string all;
  std::array<char, 64> buffer{};
  for (ssize_t got = 0; (got = ::read(fd, buffer.data(), buffer.size())) > 0;) {
    all.append(buffer.data(), static_cast<size_t>(got));
  }
  return all;
}

}  // namespace

TEST_CASE("processes that catch the signal are asked, below others, too; others do not die of it") {
  std::array<int, 2> answers{};
  std::array<int, 2> ready{};
  REQUIRE(::pipe(answers.data()) == 0);
  REQUIRE(::pipe(ready.data()) == 0);
  const pid_t rank = ::fork();  // a launcher that catches nothing, and its child that does
  if (rank == 0) {
    ::close(answers[0]);
    g_answers = answers[1];
    const pid_t child = ::fork();
    if (child == 0) {
      struct sigaction action = {};
      action.sa_handler = Answer;
      ::sigaction(kStacksSignal, &action, nullptr);
      (void)!::write(ready[1], "r", 1);
      while (true) {
        ::pause();
      }
    }
    ::close(answers[1]);
    int status = 0;
    ::waitpid(child, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  ::close(answers[1]);
  std::array<char, 1> byte{};
  REQUIRE(::read(ready[0], byte.data(), 1) == 1);
  CHECK(StackRequest().Ask(rank).size() == 1);
  int status = 0;
  REQUIRE(::waitpid(rank, &status, 0) == rank);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(ReadAll(answers[0]) == "a");
  ::close(answers[0]);
  ::close(ready[0]);
  ::close(ready[1]);
  CHECK(StackRequest().Ask(rank).empty());
}

}  // namespace tide::agent
