// A repair that outlives its agent: the next one learns of it, and ends it past its limit.

#include "agent/validators/repair_lock.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

#include "agent/validators/program.h"
#include "agent/validators/testing/folder.h"

namespace tide::validators {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// Begins a repair in a process that is killed, as an agent is, once the repair runs.
//   body: of the repair's script; it makes the file "runs".
void LeaveRepair(const Folder& folder, Duration limit, const std::string& body) {
  const std::string script = folder.Script(body);
  const pid_t agent = ::fork();
  REQUIRE(agent >= 0);
  if (agent == 0) {
    const auto lock = RepairLock::Take(folder.path() + "/lock", limit);
    if (lock) {
      (void)RunProgram(script, {folder.path()}, Errors::kDropped, kRepairTime, nullptr, lock->fd());
    }
    ::_exit(1);
  }
  while (::access((folder.path() + "/runs").c_str(), F_OK) != 0) {
    std::this_thread::yield();
  }
  ::kill(agent, SIGKILL);
  ::waitpid(agent, nullptr, 0);
}

// Waits for the end of what is to end by itself, or was killed.
void AwaitEnd(LeftRepair& left, int64_t now_ns) {
  while (left.Tend(now_ns)) {
    std::this_thread::yield();
  }
}

TEST_CASE("no repair is left by an agent that saw its end", "[repair]") {
  const Folder folder;
  const std::string path = folder.path() + "/lock";
  LeftRepair none(path);
  CHECK_FALSE(none.Tend(MonotonicNanos()));
  {
    const auto lock = RepairLock::Take(path, kRepairTime);
    REQUIRE(lock);
    LeftRepair left(path);
    CHECK(left.Tend(MonotonicNanos()));
    CHECK(left.Tend(MonotonicNanos()));
  }
  CHECK(folder.IsEmpty());
  REQUIRE(RepairLock::Take(path, kRepairTime));
}

TEST_CASE("a repair outlives its agent until it and its children have ended", "[repair]") {
  const Folder folder;
  const std::string wait = "while [ ! -e $1/end ]; do sleep 0.01; done";
  const std::string body = GENERATE_COPY(
      "echo > $1/runs; " + wait,
      // The program itself has the lock no more; what it started, in a session of its own, has it.
      "setsid sh -c '" + wait + "' sh $1 & exec 3>&-; echo > $1/runs; wait");
  LeaveRepair(folder, kRepairTime, body);
  LeftRepair left(folder.path() + "/lock");
  CHECK(left.Tend(MonotonicNanos()));
  folder.Write("end", "");
  AwaitEnd(left, MonotonicNanos());
  CHECK(left.failure().empty());
  CHECK(::access((folder.path() + "/lock").c_str(), F_OK) != 0);
}

TEST_CASE("a repair that outlives its agent and its limit is killed", "[repair]") {
  const Folder folder;
  // The second process does not have the lock: its group gives it away.
  LeaveRepair(folder,
              Duration::Seconds(100),
              "sh -c 'exec 3>&-; echo $$ > $1/pid; echo > $1/runs; exec sleep 1000' sh $1 & wait");
  LeftRepair left(folder.path() + "/lock");
  const int64_t now = MonotonicNanos();
  CHECK(left.Tend(now));
  CHECK(left.failure().empty());
  const auto pid = std::stoi(ReadFile(folder.path() + "/pid").value());
  CHECK(::kill(pid, 0) == 0);
  AwaitEnd(left, now + (100 * kSecond));
  CHECK(left.failure() == "did not end in 15m00s");
  const std::string stat = "/proc/" + std::to_string(pid) + "/stat";
  const auto runs = [&] {  // a zombie is as good as gone
    const std::string text = ReadFile(stat, 4096).value_or("");
    return !text.empty() && !Has(text, ") Z ");
  };
  while (runs()) {
    std::this_thread::yield();
  }
  SUCCEED();
}

TEST_CASE("a repair that cannot be killed is left alone in the end", "[repair]") {
  const Folder folder;
  const std::string path = folder.path() + "/lock";
  const auto lock = RepairLock::Take(path, Duration::Seconds(100));  // a process is not its own
  REQUIRE(lock);
  LeftRepair left(path);
  const int64_t now = MonotonicNanos() + (100 * kSecond);
  CHECK(left.Tend(now));
  CHECK(left.Tend(now + (9 * kSecond)));
  CHECK_FALSE(left.Tend(now + (10 * kSecond)));
  CHECK(Has(left.failure(), "cannot be killed"));
}

TEST_CASE("a lock whose file says nothing holds as long as a repair may", "[repair]") {
  const Folder folder;
  const std::string path = folder.path() + "/lock";
  const auto lock = RepairLock::Take(path, kRepairTime);
  REQUIRE(lock);
  const std::string text = GENERATE("", "x", "99999999999999999999999");
  REQUIRE(::truncate(path.c_str(), 0) == 0);
  REQUIRE(::pwrite(lock->fd(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  LeftRepair left(path);
  const int64_t now = MonotonicNanos();
  CHECK(left.Tend(now));
  CHECK(left.Tend(now + kRepairTime.nanos() - 1));
  CHECK(left.failure().empty());
  CHECK(left.Tend(now + kRepairTime.nanos()));
  CHECK_FALSE(left.failure().empty());
}

}  // namespace
}  // namespace tide::validators
