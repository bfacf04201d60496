// The end of a task is noticed, whatever was missed of it.
#include <poll.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <optional>
#include <set>
#include <string>

#include "agent/runtime/task_testing.h"

namespace tide::agent {
namespace {

constexpr const char* kKey = "7.1.0";
std::string Verdict() {
  TaskStatus status;
  status.started = true;
  status.ranks.push_back({.rank = 8, .pid = 5, .exited = true, .code = 3});
  status.released = true;
  status.finished_at = 9;
  return TaskStatusToJson(status);
}

// A program that is started as a supervisor and does what `script` says in the task's folder, says
// that it is ready and ends.
TaskConfig WithSupervisor(const TaskFixture& fixture, const std::string& script) {
  const std::string path = fixture.state_dir() + "/supervisor";
  std::ofstream(path) << "#!/bin/sh\ncd \"$2\"\n" << script << "\nprintf ready >&2\n";
  REQUIRE(::chmod(path.c_str(), 0755) == 0);
  TaskConfig config = fixture.Task(RuntimeKind::kProcess, {"exit 3"});
  config.init_path = path;
  return config;
}

// The next event that says that the task is over, by events alone.
std::optional<TaskStatus> NextEnd(TaskFixture& fixture) {
  const int64_t deadline = MonotonicNanos() + Duration::Seconds(kTestSeconds).nanos();
  while (MonotonicNanos() < deadline) {
    pollfd changed{fixture.runtime().EventFd(), POLLIN, 0};
    ::poll(&changed, 1, kTestSeconds * 1000);
    for (TaskEvent& event : fixture.runtime().TakeEvents()) {
      if (event.key == kKey && (event.status.finished || event.status.lost)) {
        return std::move(event.status);
      }
    }
  }
  return std::nullopt;
}

TEST_CASE("missed end: the supervisor is gone before the agent connects") {
  TaskFixture fixture;
  const std::string wrote = "printf '%s' '" + Verdict() + "' > exit.json";
  REQUIRE(fixture.runtime().Start(WithSupervisor(fixture, wrote)));
  const auto end = NextEnd(fixture);
  REQUIRE(end);
  CHECK(end->finished);
  CHECK(end->released);
  CHECK(end->ranks.at(0).code == 3);
}

TEST_CASE("missed end: the supervisor died before the agent connects, without a verdict") {
  TaskFixture fixture;
  REQUIRE(fixture.runtime().Start(WithSupervisor(fixture, "")));
  const auto end = NextEnd(fixture);
  REQUIRE(end);
  CHECK(end->lost);
  CHECK(end->released);
}

TEST_CASE("missed end: a verdict counts where nobody was told of it") {
  TaskFixture fixture;
  REQUIRE(fixture.runtime().Start(fixture.Task(RuntimeKind::kProcess, {"exec sleep 1000"})));
  REQUIRE(WaitUntil([&] { return fixture.runtime().Query(kKey)->started; }));
  // It says nothing any more, but its connection stays.
  const auto supervisor = ReadSupervisor(fixture.Folder());
  REQUIRE(supervisor);
  REQUIRE(::kill(supervisor->pid, SIGSTOP) == 0);
  std::ofstream(fixture.Folder() + "/exit.json") << Verdict();
  const auto end = NextEnd(fixture);
  REQUIRE(end);
  CHECK(end->ranks.at(0).code == 3);
  CHECK(::kill(supervisor->pid, SIGCONT) == 0);
}

TEST_CASE("missed end: it is said until the task is removed") {
  TaskFixture fixture;
  REQUIRE(fixture.runtime().Start(fixture.Task(RuntimeKind::kProcess, {"exit 3"})));
  for (int time = 0; time < 3; ++time) {
    const auto end = NextEnd(fixture);
    REQUIRE(end);
    CHECK(end->ranks.at(0).code == 3);
  }
  REQUIRE(fixture.runtime().Remove(kKey, false));
  pollfd changed{fixture.runtime().EventFd(), POLLIN, 0};
  ::poll(&changed, 1, 0);
  CHECK(fixture.runtime().TakeEvents().empty());
}

TEST_CASE("missed end: tasks that end at once are all over, however many start together") {
  TaskFixture fixture;
  constexpr int kTasks = 200;
  TaskConfig config = fixture.Task(RuntimeKind::kProcess, {"exit 3"});
  for (int i = 0; i < kTasks; ++i) {
    config.key = std::to_string(100 + i) + ".1.0";
    REQUIRE(fixture.runtime().Start(config));
  }
  std::set<std::string> over;
  const int64_t deadline = MonotonicNanos() + Duration::Seconds(kTestSeconds).nanos();
  while (over.size() < kTasks && MonotonicNanos() < deadline) {
    pollfd changed{fixture.runtime().EventFd(), POLLIN, 0};
    ::poll(&changed, 1, 1000);
    for (const TaskEvent& event : fixture.runtime().TakeEvents()) {
      if (event.status.finished) {
        CHECK(event.status.ranks.at(0).code == 3);
        over.insert(event.key);
      }
    }
  }
  CHECK(over.size() == kTasks);
}

}  // namespace
}  // namespace tide::agent
