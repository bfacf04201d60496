// Who dies with whom: the agent, the supervisor, tide-init, the ranks.
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <set>
#include <string>
#include <vector>

#include "agent/runtime/cgroup.h"
#include "agent/runtime/leftovers.h"
#include "agent/runtime/spawn.h"
#include "agent/runtime/task_testing.h"

namespace tide::agent {
namespace {

constexpr const char* kFamily =
    "setsid -f sleep 1000; sh -c 'trap \"\" TERM HUP; sleep 1001 & sleep 1002' & "
    "echo up; while :; do sleep 0.02; done";

bool AllDead(const std::vector<int32_t>& pids) {
  return std::ranges::all_of(pids, [](int32_t pid) {
    const auto info = ReadProcess(pid);
    return !info || info->dead();
  });
}

std::vector<int32_t> Family(const TaskFixture& task, const std::string& key = "7.1.0") {
  std::vector<int32_t> family;
  CHECK(WaitUntil([&] {
    const auto supervisor = ReadSupervisor(task.Folder(key));
    return supervisor && (family = DescendantsOf(supervisor->pid)).size() >= 6;
  }));
  return family;
}

int32_t InitAmong(const std::vector<int32_t>& family, int32_t supervisor) {
  for (const int32_t pid : family) {
    const auto info = ReadProcess(pid);
    if (info && info->parent == supervisor && info->name == "tide-init") {
      return pid;
    }
  }
  return 0;
}

TEST_CASE("survival: a task outlives the agent that started it") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    const TaskConfig config = task.Task(kind, {"echo up; while :; do sleep 0.02; done", "exit 0"});
    const pid_t agent = ::fork();
    if (agent == 0) {
      auto runtime = SupervisedRuntime::Open(task.state_dir());
      static_cast<void>((*runtime)->Start(config));
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ::waitpid(agent, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    task.Reopen();
    REQUIRE(task.WaitLog(8, "up"));
    const TaskStatus now = task.runtime().Query("7.1.0").value();
    CHECK(now.supervisor_alive);
    CHECK_FALSE(now.ranks[0].exited);
    REQUIRE(task.runtime().Signal("7.1.0", SIGTERM));
    const TaskStatus end = task.WaitEnd();
    CHECK(end.ranks[0].signal == SIGTERM);
    CHECK(end.ranks[1].code == 0);
    task.Reopen();
    CHECK(task.runtime().Query("7.1.0").value() == end);
  }
}

TEST_CASE("survival: nothing outlives a killed supervisor") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    REQUIRE(task.runtime().Start(task.Task(kind, {kFamily, "exit 0"})));
    REQUIRE(task.WaitLog(8, "up"));
    const std::vector<int32_t> family = Family(task);
    ::kill(ReadSupervisor(task.Folder()).value().pid, SIGKILL);
    // Nobody has asked yet: the task goes by itself.
    CHECK(WaitUntil([&] { return AllDead(family); }));
    const TaskStatus end = task.WaitEnd();
    CHECK(end.lost);
    CHECK_FALSE(end.finished);
    CHECK_FALSE(end.supervisor_alive);
    CHECK_THAT(end.error, Catch::Contains("supervisor of task 7.1.0 died"));
    CHECK(CgroupFolders(TaskCgroup("7.1.0", task.Folder())).empty());
    REQUIRE(task.runtime().Remove("7.1.0", true));
  }
}

TEST_CASE("survival: what a killed supervisor leaves is killed by the agent") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    REQUIRE(task.runtime().Start(task.Task(kind, {kFamily})));
    REQUIRE(task.WaitLog(8, "up"));
    const std::vector<int32_t> family = Family(task);
    // The whole chain above the ranks, so that nobody is left to clean up.
    const int32_t supervisor = ReadSupervisor(task.Folder()).value().pid;
    int32_t init = 0;
    REQUIRE(WaitUntil([&] { return (init = InitAmong(family, supervisor)) != 0; }));
    ::kill(init, SIGSTOP);
    ::kill(supervisor, SIGKILL);
    const TaskStatus end = task.WaitEnd();
    CHECK(end.lost);
    CHECK(AllDead(family));
  }
}

TEST_CASE("survival: a task of a dead tide-init ends with an error") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    REQUIRE(task.runtime().Start(task.Task(kind, {kFamily})));
    REQUIRE(task.WaitLog(8, "up"));
    const std::vector<int32_t> family = Family(task);
    const int32_t supervisor = ReadSupervisor(task.Folder()).value().pid;
    int32_t init = 0;
    REQUIRE(WaitUntil([&] { return (init = InitAmong(family, supervisor)) != 0; }));
    ::kill(init, SIGKILL);
    const TaskStatus end = task.WaitEnd();
    CHECK(end.finished);
    CHECK(end.ranks[0].signal == SIGKILL);
    CHECK_THAT(end.error, Catch::Contains("tide-init ended unexpectedly with signal 9"));
    CHECK(AllDead(family));
  }
}

TEST_CASE("survival: a silent supervisor is reported as such, and its death is noticed") {
  TaskFixture task;
  REQUIRE(task.runtime().Start(task.Task(RuntimeKind::kProcess, {"echo up; exec sleep 1000"})));
  REQUIRE(task.WaitLog(8, "up"));
  const int32_t supervisor = ReadSupervisor(task.Folder()).value().pid;
  ::kill(supervisor, SIGSTOP);
  const TaskStatus silent = task.runtime().Query("7.1.0").value();
  CHECK(silent.supervisor_alive);
  CHECK_THAT(silent.error, Catch::Contains("does not answer"));
  ::kill(supervisor, SIGKILL);
  CHECK(task.WaitEnd().lost);
}

TEST_CASE(
    "survival: silent supervisors are not asked again and again, and are heard when they go on") {
  TaskFixture task;
  TaskConfig config = task.Task(RuntimeKind::kProcess, {"exec sleep 1000"});
  const std::vector<std::string> keys = {"7.1.0", "7.1.1"};
  for (const std::string& key : keys) {
    config.key = key;
    REQUIRE(task.runtime().Start(config));
    ::kill(ReadSupervisor(task.Folder(key)).value().pid, SIGSTOP);
    REQUIRE(task.runtime().Query(key).value().supervisor_alive);
  }
  std::set<std::string> started;  // also one that reported its start before it fell silent
  std::set<std::string> errors;
  const auto take_events = [&] {
    pollfd readable{task.runtime().EventFd(), POLLIN, 0};
    REQUIRE(::poll(&readable, 1, 10'000) == 1);
    for (const TaskEvent& event : task.runtime().TakeEvents()) {
      errors.insert(event.status.error);
      if (event.status.started) {
        started.insert(event.key);
      }
    }
  };
  for (int i = 0; i < 3; ++i) {
    take_events();
  }
  errors.erase("");
  CHECK(errors.empty());
  for (const std::string& key : keys) {
    ::kill(ReadSupervisor(task.Folder(key)).value().pid, SIGCONT);
  }
  CHECK(WaitUntil([&] {
    take_events();
    return started.size() == keys.size();
  }));
  for (const std::string& key : keys) {
    ::kill(ReadSupervisor(task.Folder(key)).value().pid, SIGKILL);
    CHECK(task.WaitEnd(key).lost);
  }
}

TEST_CASE("survival: a task whose start was interrupted is settled as lost") {
  TaskFixture task;
  TaskConfig config = task.Task(RuntimeKind::kProcess, {"echo never"});
  config.folder = task.Folder();
  REQUIRE(MakeDirs(config.folder));
  REQUIRE(WriteFileDurably(config.folder + "/task.json", TaskConfigToJson(config).value()));
  const TaskStatus status = task.runtime().Query("7.1.0").value();
  CHECK(status.lost);
  CHECK(status.unstarted);
  CHECK(status.released);
  CHECK(status.ranks.size() == 1);
  // A supervisor that comes only now must not run it any more.
  const auto late = SpawnSupervisor(TIDE_INIT_PATH, config.folder, "tag");
  REQUIRE_FALSE(late);
  CHECK_THAT(late.error().message, Catch::Contains("given this task up"));
  CHECK(task.Log(8) == "(no log)");
}

TEST_CASE("survival: of the files that a power cut emptied a task is settled as lost") {
  TaskFixture task;
  REQUIRE(task.runtime().Start(task.Task(RuntimeKind::kProcess, {"echo up; exec sleep 1000"})));
  REQUIRE(task.WaitLog(8, "up"));
  ::kill(ReadSupervisor(task.Folder()).value().pid, SIGKILL);
  REQUIRE(task.WaitEnd().lost);
  for (const char* name : {kTaskFile, kSupervisorFile, kStatusFile}) {
    REQUIRE(WriteFileDurably(task.Folder() + "/" + std::string(name), ""));
  }
  std::filesystem::remove(task.Folder() + "/abandoned");
  task.Reopen();
  CHECK(task.runtime().List().value() == std::vector<std::string>{"7.1.0"});
  const TaskStatus status = task.runtime().Query("7.1.0").value();
  CHECK(status.lost);
  CHECK(status.released);
  REQUIRE(task.runtime().Remove("7.1.0", true));
  CHECK(task.runtime().List().value().empty());
}

TEST_CASE("survival: a supervisor of before a reboot is not taken for a living one") {
  ProcessIdentity self = OwnIdentity().value();
  CHECK(IsAlive(self));
  ProcessIdentity other = self;
  other.start_ticks += 1;
  CHECK_FALSE(IsAlive(other));
  other = self;
  other.boot_id = "00000000-0000-0000-0000-000000000000";
  CHECK_FALSE(IsAlive(other));
}

TEST_CASE("survival: a supervisor whose folder was deleted ends the task and itself") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    REQUIRE(task.runtime().Start(task.Task(kind, {kFamily})));
    REQUIRE(task.WaitLog(8, "up"));
    std::vector<int32_t> all = Family(task);
    const int32_t supervisor = ReadSupervisor(task.Folder()).value().pid;
    all.push_back(supervisor);
    std::error_code ignored;
    std::filesystem::remove_all(task.Folder(), ignored);
    ::kill(supervisor, SIGTERM);  // SIGTERM to the ranks, 10 s, SIGKILL
    CHECK(WaitUntil([&] { return AllDead(all); }));
  }
}

TEST_CASE("survival: leftovers of a killed agent are cleaned") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    TaskConfig second = task.Task(kind, {"echo done"});
    second.key = "9.1.0";
    task.Run(second);
    REQUIRE(task.runtime().Start(task.Task(kind, {kFamily})));
    REQUIRE(task.WaitLog(8, "up"));
    const std::vector<int32_t> family = Family(task);
    CHECK(CleanLeftovers(task.state_dir()).value() == 2);
    CHECK(AllDead(family));
    CHECK(task.runtime().List().value().empty());
    CHECK(task.Log(8, "9.1.0") == "done\n");
    CHECK(CgroupFolders(TaskCgroup("7.1.0", task.Folder())).empty());
    CHECK(CleanLeftovers(task.state_dir()).value() == 0);
  }
}

// A key that no other run of this test on the machine has: EndForgottenTask looks at all processes.
std::string KeyOfThisRun() {
  return "7." + std::to_string(::getpid()) + ".0";
}

TEST_CASE("survival: a task that an emptied state folder has forgotten is ended") {
  const std::string key = KeyOfThisRun();
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    TaskConfig config = task.Task(kind, {kFamily});
    config.key = key;
    REQUIRE(task.runtime().Start(config));
    REQUIRE(task.WaitLog(8, "up", key));
    std::vector<int32_t> all = Family(task, key);
    all.push_back(ReadSupervisor(task.Folder(key)).value().pid);
    std::error_code ignored;
    std::filesystem::remove_all(task.state_dir() + "/tasks", ignored);
    CHECK(EndForgottenTask(task.state_dir(), key, "/run/x/" + key));
    CHECK(WaitUntil([&] { return AllDead(all); }));
    CHECK(CgroupFolders(TaskCgroup(key, task.Folder(key))).empty());
    CHECK(EndForgottenTask(task.state_dir(), key, "/run/x/" + key));  // nothing is left
  }
}

TEST_CASE("survival: a task of another state folder is named, not taken for ended") {
  const std::string key = KeyOfThisRun();
  TaskFixture task;
  TaskConfig config = task.Task(RuntimeKind::kProcess, {kFamily});
  config.key = key;
  config.run_dir = task.state_dir() + "/run/" + key;
  REQUIRE(MakeDirs(config.run_dir));
  REQUIRE(task.runtime().Start(config));
  REQUIRE(task.WaitLog(8, "up", key));
  const std::vector<int32_t> family = Family(task, key);
  const Status refused = EndForgottenTask("/no/such/state", key, config.run_dir);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kConflict);
  CHECK_THAT(refused.error().message, Catch::Contains(task.Folder(key)));
  CHECK(EndForgottenTask("/no/such/state", key, "/run/of/another/cluster/" + key));
  CHECK_FALSE(AllDead(family));
  CHECK(KillTask(key, task.Folder(key)));
}

TEST_CASE("survival: a start without tide-init says so and leaves nothing") {
  TaskFixture task;
  TaskConfig config = task.Task(RuntimeKind::kProcess, {"true"});
  config.init_path = "/no/such/tide-init";
  const Status started = task.runtime().Start(config);
  REQUIRE_FALSE(started);
  CHECK_THAT(started.error().message, Catch::Contains("cannot run /no/such/tide-init"));
  CHECK(task.runtime().List().value().empty());
  config.init_path = TIDE_INIT_PATH;
  CHECK(task.Run(config).ranks[0].code == 0);
}

}  // namespace
}  // namespace tide::agent
