// The lease that the scheduler's answers give to a node's tasks, and what happens when it ends.
#include "agent/runtime/contact.h"

#include <catch2/catch.hpp>
#include <csignal>

#include "agent/runtime/task_testing.h"

namespace tide::agent {
namespace {

constexpr const char* kOnAndOn = "echo up; while :; do sleep 0.02; done";

TEST_CASE("contact: remembered within one boot") {
  const TaskFixture fixture;
  const std::string path = fixture.state_dir() + "/run/n1/contact";
  CHECK_FALSE(ReadContact(path, 50));
  REQUIRE(WriteContact(path, {.heard_ns = 40, .isolation_ms = 20'000}));
  const Contact read = ReadContact(path, 50).value();
  CHECK(read.heard_ns == 40);
  CHECK(read.isolation_ms == 20'000);
  CHECK_FALSE(read.IsCutOff(40 + 19'999'999'999));
  CHECK(read.IsCutOff(40 + 20'000'000'000));
  CHECK_FALSE(ReadContact(path, 30));  // from the future: not of this boot
  REQUIRE(WriteFileDurably(path, "another-boot 40 20000\n"));
  CHECK_FALSE(ReadContact(path, 50));
  REQUIRE(WriteFileDurably(path, "rubbish"));
  CHECK_FALSE(ReadContact(path, 50));
}

TEST_CASE("contact: a task whose agent is dead ends when its lease does") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    TaskConfig config = task.Task(kind, {kOnAndOn, "trap \"\" TERM; sleep 1000"});
    config.contact = task.state_dir() + "/contact";
    REQUIRE(WriteContact(config.contact, {.heard_ns = BootNanos(), .isolation_ms = 1500}));
    REQUIRE(task.runtime().Start(config));
    REQUIRE(task.WaitLog(8, "up"));
    // Nobody renews it, and nobody asks.
    const TaskStatus end = task.WaitEnd();
    CHECK(end.finished);
    CHECK(end.cut_off);
    CHECK(end.started);
    CHECK(end.ranks[0].signal == SIGKILL);
    CHECK(end.ranks[1].signal == SIGKILL);
    CHECK(ReadContact(config.contact, BootNanos()).value().IsCutOff(BootNanos()));
  }
}

TEST_CASE("contact: a renewed lease keeps a task, a lost file does not renew it") {
  TaskFixture task;
  TaskConfig config = task.Task(RuntimeKind::kProcess, {kOnAndOn});
  config.contact = task.state_dir() + "/contact";
  Contact contact{.heard_ns = BootNanos(), .isolation_ms = 800};
  REQUIRE(WriteContact(config.contact, contact));
  REQUIRE(task.runtime().Start(config));
  REQUIRE(task.WaitLog(8, "up"));
  const int64_t first_end = contact.ExpiresNs();
  REQUIRE(WaitUntil([&] {
    contact.heard_ns = BootNanos();
    REQUIRE(WriteContact(config.contact, contact));
    return BootNanos() > first_end + 800'000'000;
  }));
  CHECK_FALSE(task.runtime().Query("7.1.0").value().ranks[0].exited);
  REQUIRE(::unlink(config.contact.c_str()) == 0);
  CHECK(task.WaitEnd().cut_off);
}

}  // namespace
}  // namespace tide::agent
