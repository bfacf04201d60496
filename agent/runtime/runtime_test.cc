// What holds for both runtimes: exits, environment, logs, stopping.
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <utility>

#include "agent/runtime/task_testing.h"

namespace tide::agent {
namespace {

constexpr const char* kIdle = "echo up; while :; do sleep 0.02; done";

struct Record {
  uint64_t offset = 0;
  int64_t at = 0;
  uint32_t length = 0;
  uint32_t stream = 0;
};

std::vector<Record> ReadIndex(const std::string& path) {
  const std::string bytes = ReadFile(path).value_or("");
  REQUIRE(bytes.size() % sizeof(Record) == 0);
  std::vector<Record> records(bytes.size() / sizeof(Record));
  std::memcpy(records.data(), bytes.data(), bytes.size());
  return records;
}

TEST_CASE("runtime: exit codes and signals are exact") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    const TaskStatus end = task.Run(
        task.Task(kind, {"exit 0", "exit 85", "exit 3", "kill -SEGV $$", "kill -KILL $$"}));
    REQUIRE(end.ranks.size() == 5);
    CHECK(end.finished);
    CHECK(end.started);
    CHECK(end.error.empty());
    CHECK(end.ranks[0].rank == 8);
    CHECK(end.ranks[0].code == 0);
    CHECK_FALSE(end.ranks[1].failed());
    CHECK(end.ranks[1].code == 85);
    CHECK(end.ranks[2].code == 3);
    CHECK(end.ranks[2].failed());
    CHECK(end.ranks[3].signal == SIGSEGV);
    CHECK(end.ranks[4].signal == SIGKILL);
    for (const RankStatus& rank : end.ranks) {
      CHECK(rank.exited);
      CHECK(rank.pid > 1);
      CHECK_FALSE(rank.oom);
    }
  }
}

TEST_CASE("runtime: environment and work folder are those of the task") {
  ::setenv("TIDE_TEST_LEAK", "agent", 1);
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    TaskConfig config = task.Task(kind, {"pwd; env; test -t 0; read x; echo eof=$?"});
    config.workdir = "/usr/share";
    config.ranks[0].env["WITH"] = "a b\nc=\"ü\"";
    const TaskStatus end = task.Run(config);
    CHECK(end.ranks[0].code == 0);
    const std::string log = task.Log(8);
    CHECK(log.starts_with("/usr/share\n"));
    CHECK(log.find("RANK=8\n") != std::string::npos);
    CHECK(log.find("WITH=a b\nc=\"ü\"\n") != std::string::npos);
    CHECK(log.find("TIDE_TEST_LEAK") == std::string::npos);
    CHECK(log.find("eof=1") != std::string::npos);
  }
}

TEST_CASE("runtime: a rank runs on its CPUs, and on any where it cannot have them") {
  const std::string mine = ReadFile("/proc/self/status").value_or("");
  const auto list = [](const std::string& status) {
    const size_t begin = status.find("Cpus_allowed_list:");
    return begin == std::string::npos ? "none"
                                      : status.substr(begin, status.find('\n', begin) - begin);
  };
  cpu_set_t allowed{};
  REQUIRE(::sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  uint32_t first = 0;
  while (!CPU_ISSET(first, &allowed)) {
    ++first;
  }
  for (const RuntimeKind kind : KindsHere()) {
    CAPTURE(RuntimeKindName(kind));
    TaskFixture task;
    TaskConfig config = task.Task(kind, {"cat /proc/self/status", "cat /proc/self/status"});
    config.ranks[0].cpus = {first};
    config.ranks[1].cpus = {kCpusMax - 1};  // no machine of tests has it
    const TaskStatus end = task.Run(config);
    CHECK(end.error.empty());
    CHECK(end.ranks[0].code == 0);
    CHECK(end.ranks[1].code == 0);
    CHECK(list(task.Log(8)) == "Cpus_allowed_list:\t" + std::to_string(first));
    CHECK(list(task.Log(9)) == list(mine));
    CHECK(task.Log(8).find("tide:") == std::string::npos);
    CHECK_THAT(task.Log(9), Catch::Contains("tide: rank 9 is not bound to CPUs: Invalid argument"));
  }
}

TEST_CASE("runtime: secrets are files and variables of the ranks, and nowhere else") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    const std::string run = task.state_dir() + "/run";
    TaskConfig config =
        task.Task(kind,
                  {"printf %s \"$WANDB_API_KEY\" | sha256sum; env | grep -c '^BLOB='; "
                   "cd \"$TIDE_SECRETS_DIR\"; ls; sha256sum <wandb-api-key; "
                   "wc -c <blob; (echo x >blob) 2>/dev/null || echo read-only"});
    config.secrets_dir = run + "/secrets/7.1.0";
    config.secrets = {{"WANDB_API_KEY", "wandb-api-key"}, {"BLOB", "blob"}};
    config.ranks[0].env["WANDB_API_KEY"] = "of the image";
    config.ranks[0].env["TIDE_SECRETS_DIR"] = SecretsSeen(config);
    REQUIRE(MakeDirs(config.secrets_dir, 0755));
    REQUIRE(::chmod(task.state_dir().c_str(), 0711) == 0);
    REQUIRE(::chmod(run.c_str(), kind == RuntimeKind::kOci ? 0700 : 0711) == 0);
    const std::string value = "hunter2 \"ü\n";
    for (const auto& [name, content] :
         {std::pair("wandb-api-key", value), std::pair("blob", std::string("a\0b", 3))}) {
      const std::string path = config.secrets_dir + "/" + name;
      REQUIRE(WriteFileDurably(path, content, 0400));
      REQUIRE(::chown(path.c_str(), config.uid, config.gid) == 0);
    }
    const TaskStatus end = task.Run(config);
    INFO(end.error);
    CHECK(end.ranks[0].code == 0);
    const std::string log = task.Log(8);
    INFO(log);
    const std::string digest = log.substr(0, log.find('\n') + 1);
    CHECK(digest.size() > 64);
    const bool writes = kind == RuntimeKind::kProcess && ::geteuid() == 0;  // the rank is root here
    CHECK(log ==
          digest + "0\nblob\nwandb-api-key\n" + digest + "3\n" + (writes ? "" : "read-only\n"));
    CHECK(ReadFile(task.Folder() + "/" + kTaskFile)->find("hunter2") == std::string::npos);
    REQUIRE(task.runtime().Remove("7.1.0", true));
    CHECK_FALSE(std::filesystem::exists(config.secrets_dir + "/blob"));
  }
}

TEST_CASE("runtime: a secret that is gone is said by its name") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    TaskConfig config = task.Task(kind, {"echo ran"});
    config.secrets_dir = task.state_dir() + "/secrets/7.1.0";
    config.secrets = {{"HF_TOKEN", "hf-token"}};
    REQUIRE(MakeDirs(config.secrets_dir, 0755));
    const TaskStatus end = task.Run(config);
    CHECK(end.error.find("cannot read a secret") != std::string::npos);
    CHECK(end.error.find("hf-token") != std::string::npos);
    CHECK(task.Log(8).find("ran") == std::string::npos);
  }
}

TEST_CASE("runtime: a command or work folder that is not there is named") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    TaskConfig config = task.Task(kind, {"true"});
    config.ranks[0].argv = {"no-such-program"};
    TaskStatus end = task.Run(config);
    CHECK(end.ranks[0].code == 127);
    CHECK_THAT(
        end.error,
        Catch::StartsWith("rank 8: cannot start no-such-program: No such file or directory"));
    config = task.Task(kind, {"true"});
    config.key = "7.2.0";
    config.workdir = "/no/such/folder";
    end = task.Run(config);
    CHECK_THAT(end.error, Catch::Contains("cannot enter the work folder /no/such/folder: No such"));
  }
}

TEST_CASE("runtime: a task begins without the output of a removed one of its key") {
  TaskFixture task;
  task.Run(task.Task(RuntimeKind::kProcess, {"echo of another job", "echo too"}));
  REQUIRE(task.runtime().Remove("7.1.0", true));
  CHECK(task.Log(8) == "of another job\n");
  task.Run(task.Task(RuntimeKind::kProcess, {"echo mine"}));
  CHECK(task.Log(8) == "mine\n");
  CHECK(task.Log(9) == "(no log)");
}

TEST_CASE("runtime: logs are complete and the index has no gap") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    const TaskStatus end = task.Run(
        task.Task(kind,
                  {"head -c 20000000 /dev/zero | tr '\\0' x; echo err >&2",
                   "for i in 1 2 3; do echo out$i; echo err$i >&2; done; echo x >/dev/stdout"}));
    CHECK(end.error.empty());
    CHECK(task.Log(8).size() == 20000004);
    CHECK(task.Log(9).size() == 3 * (5 + 5) + 2);
    for (const uint32_t rank : {8U, 9U}) {
      uint64_t offset = 0;
      int64_t at = 0;
      std::array<uint64_t, 3> bytes{};
      for (const Record& record : ReadIndex(task.Folder() + "/logs/" + LogName(rank) + ".idx")) {
        CHECK(record.offset == offset);
        CHECK(record.at >= at);
        REQUIRE((record.stream == 1 || record.stream == 2));
        offset += record.length;
        at = record.at;
        bytes[record.stream] += record.length;
      }
      CHECK(offset == task.Log(rank).size());
      CHECK(bytes[2] == (rank == 8 ? 4 : 15));
    }
  }
}

TEST_CASE("runtime: when a rank fails the others are stopped after the grace") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    TaskConfig config =
        task.Task(kind, {"exit 4", "trap 'exit 9' TERM; while :; do sleep 0.02; done", "exit 85"});
    config.failure_grace_ms = 300;
    const int64_t begin = MonotonicNanos();
    const TaskStatus end = task.Run(config);
    CHECK(MonotonicNanos() - begin >= Duration::Millis(300).nanos());
    CHECK(end.ranks[0].code == 4);
    CHECK(end.ranks[1].code == 9);
    CHECK(end.ranks[2].code == 85);
  }
}

TEST_CASE("runtime: a suspended rank does not stop the others") {
  TaskFixture task;
  TaskConfig config = task.Task(RuntimeKind::kProcess, {"exit 85", "sleep 0.3; exit 85"});
  config.failure_grace_ms = 0;
  config.term_grace_ms = 0;
  const TaskStatus end = task.Run(config);
  CHECK(end.ranks[1].code == 85);
  CHECK(end.ranks[1].signal == 0);
}

TEST_CASE("runtime: what ignores SIGTERM is killed at the deadline") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    const std::string stubborn = "trap '' TERM; " + std::string(kIdle);
    REQUIRE(task.runtime().Start(
        task.Task(kind, {stubborn, "trap 'exit 0' TERM; " + std::string(kIdle)})));
    REQUIRE(task.WaitLog(8, "up"));
    REQUIRE(task.WaitLog(9, "up"));
    const int64_t begin = MonotonicNanos();
    REQUIRE(task.runtime().Stop("7.1.0", Duration::Millis(200)));
    const TaskStatus end = task.WaitEnd();
    CHECK(MonotonicNanos() - begin >= Duration::Millis(200).nanos());
    CHECK(end.ranks[0].signal == SIGKILL);
    CHECK(end.ranks[1].signal == 0);
    CHECK(end.error.empty());
  }
}

TEST_CASE("runtime: signals reach whole process groups") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    REQUIRE(task.runtime().Start(
        task.Task(kind,
                  {"trap 'exit 5' USR1; sh -c 'trap \"echo child; exit\" USR1; echo up; "
                   "while :; do sleep 0.02; done' & while :; do wait; done"})));
    REQUIRE(task.WaitLog(8, "up"));
    REQUIRE(task.runtime().Signal("7.1.0", SIGUSR1));
    const TaskStatus end = task.WaitEnd();
    CHECK(end.ranks[0].code == 5);
    CHECK(task.runtime().Signal("7.1.0", SIGUSR1).error().code == ErrorCode::kConflict);
  }
}

TEST_CASE("runtime: daemons of a rank do not outlive it") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    REQUIRE(task.runtime().Start(
        task.Task(kind,
                  {"setsid -f sleep 1000; setsid sh -c 'trap \"\" TERM; sleep 1001 & sleep 1002' & "
                   "(env -i setsid -f sleep 1003); echo up; read x </dev/null; sleep 0.2"})));
    REQUIRE(task.WaitLog(8, "up"));
    const ProcessIdentity supervisor = ReadSupervisor(task.Folder()).value();
    std::vector<int32_t> family;
    CHECK(WaitUntil([&] { return (family = DescendantsOf(supervisor.pid)).size() >= 6; }));
    task.WaitEnd();
    for (const int32_t pid : family) {
      const auto info = ReadProcess(pid);
      INFO(DescribeProcess(pid));
      CHECK((!info || info->dead()));
    }
  }
}

// A process beside the rank that has locked the rank's file and has something left to write.
constexpr const char* kSaver =
    "setsid sh -c 'exec 9<>$RUN/saver-0.lock; flock 9; echo locked; sleep $TAKES; echo written' & "
    "while flock -n $RUN/saver-0.lock true; do :; done; ";

TaskConfig WithSaver(const TaskFixture& task,
                     RuntimeKind kind,
                     const std::string& rank,
                     const char* takes) {
  const std::string run_dir = task.state_dir() + "/run";
  REQUIRE(MakeDirs(run_dir, 0755));
  REQUIRE(WriteFileDurably(run_dir + "/saver-0.lock", "", 0666));
  TaskConfig config = task.Task(kind, {kSaver + rank});
  config.run_dir = run_dir;
  config.ranks[0].env["RUN"] = kind == RuntimeKind::kOci ? "/run/tide" : run_dir;
  config.ranks[0].env["TAKES"] = takes;
  config.failure_grace_ms = 0;
  config.term_grace_ms = 0;
  return config;
}

TEST_CASE("runtime: a checkpoint that is being written outlives its rank") {
  for (const RuntimeKind kind : KindsHere()) {
    for (const char* const end : {"exit 0", "exit 3", "kill -9 $$"}) {
      TaskFixture task;
      task.Run(WithSaver(task, kind, end, "0.5"));
      INFO(end);
      CHECK(task.Log(8).find("written") != std::string::npos);
    }
  }
}

TEST_CASE("runtime: a task that was told to end waits for no checkpoint") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    REQUIRE(task.runtime().Start(WithSaver(task, kind, "exit 0", "1000")));
    REQUIRE(task.WaitLog(8, "locked"));
    REQUIRE(task.runtime().Stop("7.1.0", Duration::Millis(50)));
    const TaskStatus end = task.WaitEnd();
    CHECK(end.error.empty());
    CHECK(task.Log(8).find("written") == std::string::npos);
  }
}

TEST_CASE("runtime: tasks run side by side and are removed one by one") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    TaskConfig first = task.Task(kind, {kIdle});
    TaskConfig second = task.Task(kind, {"echo second"});
    second.key = "8.3.1";
    REQUIRE(task.runtime().Start(first));
    CHECK(task.runtime().Start(first).error().code == ErrorCode::kAlreadyExists);
    REQUIRE(task.runtime().Start(second));
    CHECK(task.WaitEnd("8.3.1").ranks[0].code == 0);
    CHECK(task.runtime().List().value() == std::vector<std::string>{"7.1.0", "8.3.1"});
    CHECK(task.runtime().Remove("7.1.0", true).error().code == ErrorCode::kConflict);
    REQUIRE(task.runtime().Remove("8.3.1", true));
    CHECK(task.Log(8, "8.3.1") == "second\n");
    CHECK(ReadExit(task.Folder("8.3.1")).has_value());
    CHECK(task.runtime().List().value() == std::vector<std::string>{"7.1.0"});
    CHECK(task.runtime().Query("7.1.0").value().supervisor_alive);
    REQUIRE(task.runtime().Kill("7.1.0"));
    CHECK(task.WaitEnd().ranks[0].signal == SIGKILL);
    REQUIRE(task.runtime().Kill("7.1.0"));  // nothing more to do
    REQUIRE(task.runtime().Remove("7.1.0", false));
    CHECK_FALSE(std::filesystem::exists(task.Folder()));
    CHECK(task.runtime().Query("7.1.0").error().code == ErrorCode::kNotFound);
  }
}

TEST_CASE("runtime: a kill right after the start is obeyed") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    REQUIRE(task.runtime().Start(task.Task(kind, {kIdle, kIdle})));
    REQUIRE(task.runtime().Kill("7.1.0"));
    const TaskStatus end = task.WaitEnd();
    CHECK(end.finished);
    CHECK(end.ranks[0].exited);
    CHECK(end.ranks[1].exited);
  }
}

}  // namespace
}  // namespace tide::agent
