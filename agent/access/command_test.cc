// Commands in real tasks of both runtimes: identity, terminal, signals, and that nothing stays.
#include "agent/access/command.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <sstream>
#include <thread>

#include "agent/runtime/cgroup.h"
#include "agent/runtime/task_testing.h"
#include "common/exec/limits.h"

namespace tide::agent {
namespace {

// Runs a command on a thread of its own and gathers what it says.
class Session final : public CommandSink {
 public:
  Session(const std::string& folder, EntryRequest request) {
    auto started = Command::Start(folder, request);
    INFO((started ? "" : started.error().message));
    REQUIRE(started);
    command_ = *std::move(started);
    thread_ = std::thread([this] {
      end_ = command_->Run(*this);
      over_ = true;
    });
  }
  ~Session() override {
    command_->HangUp();
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  bool Out(std::string_view data) override {
    const MutexLock lock(mutex_);
    out_ += data;
    return true;
  }
  bool Err(std::string_view data) override {
    const MutexLock lock(mutex_);
    err_ += data;
    return true;
  }
  bool Taken(uint64_t bytes) override {
    taken = bytes;
    return true;
  }

  Command& command() { return *command_; }
  std::string out() {
    const MutexLock lock(mutex_);
    return out_;
  }
  std::string err() {
    const MutexLock lock(mutex_);
    return err_;
  }
  [[nodiscard]] bool WaitOut(const std::string& text) {
    return WaitUntil([&] { return out().find(text) != std::string::npos; });
  }
  CommandEnd Wait() {
    CHECK(WaitUntil([&] { return over_.load(); }));
    if (!over_) {
      command_->HangUp();
    }
    thread_.join();
    return end_;
  }

  std::atomic<uint64_t> taken = 0;

 private:
  std::unique_ptr<Command> command_;
  Mutex mutex_;
  std::string out_;
  std::string err_;
  CommandEnd end_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

EntryRequest Script(const std::string& text) {
  return {.rank = 8, .argv = {"sh", "-c", text}, .size = {}, .terminal_type = ""};
}

EntryRequest ScriptInTerminal(const std::string& text) {
  EntryRequest request = Script(text);
  request.size = WindowSize{30, 100};
  request.terminal_type = "vt100";
  return request;
}

// A task whose rank waits for ever.
struct Waiting {
  explicit Waiting(RuntimeKind kind, const std::function<void(TaskConfig&)>& change = {}) {
    TaskConfig config = task.Task(kind, {"echo up; exec sleep 1000", "echo up; exec sleep 1000"});
    if (change) {
      change(config);
    }
    const Status started = task.runtime().Start(config);
    INFO((started ? "" : started.error().message));
    REQUIRE(started);
    REQUIRE(task.WaitLog(8, "up"));
    REQUIRE(WaitUntil([&] {
      const auto status = task.runtime().Query("7.1.0");
      return status && status->started &&
             ReadFile(folder() + "/status.json").value_or("").find("\"started\":true") !=
                 std::string::npos;
    }));
    if (kind == RuntimeKind::kOci) {
      WaitRuntimeEnd();
    }
  }
  // The ranks may run before the OCI runtime has ended, whose process bears the tag, too. The
  // supervisor is the container's parent after that.
  void WaitRuntimeEnd() const {
    const int32_t supervisor = ReadSupervisor(folder()).value().pid;
    REQUIRE(WaitUntil([&] {
      const std::string pid = ReadFile(BundlePid(), 64).value_or("0");
      const auto first = ReadProcess(std::atoi(pid.c_str()));
      return first && first->parent == supervisor;
    }));
  }
  [[nodiscard]] std::string folder() const { return task.Folder(); }
  [[nodiscard]] std::string BundlePid() const {
    return SeenBy(ReadSupervisor(folder()).value(), folder() + "/" + kBundleFolder + "/pid");
  }
  [[nodiscard]] std::vector<int32_t> Tagged() const {
    return ProcessesWithTag(TaskTag("7.1.0", folder()));
  }
  TaskFixture task;
};

// --- both runtimes -------------------------------------------------------------------------------

TEST_CASE("a command's output, errors and exit code come apart") {
  for (const RuntimeKind kind : KindsHere()) {
    Waiting waiting(kind);
    Session session(waiting.folder(),
                    Script("echo $RANK $TIDE_PAGE; pwd; tty; echo wrong >&2; exit 7"));
    const CommandEnd end = session.Wait();
    CHECK(session.out() == "8\n/tmp\nnot a tty\n");
    CHECK(session.err() == "wrong\n");
    CHECK(end.code == 7);
    CHECK(end.signal == 0);
    CHECK(end.reason.empty());
  }
}

TEST_CASE("a command gets its input, all of it, and its end") {
  for (const RuntimeKind kind : KindsHere()) {
    Waiting waiting(kind);
    Session session(waiting.folder(), Script("cat | wc -c"));
    const std::string block(kExecWindow / 2, 'x');
    uint64_t sent = 0;
    for (int i = 0; i < 20; ++i) {
      REQUIRE(WaitUntil([&] { return sent - session.taken < kExecWindow / 2; }));
      REQUIRE(session.command().Write(block));
      sent += block.size();
    }
    session.command().EndInput();
    CHECK(session.Wait().code == 0);
    CHECK(session.out() == std::to_string(sent) + "\n");
  }
}

TEST_CASE("who sends more than the window is told") {
  Waiting waiting(RuntimeKind::kProcess);
  Session session(waiting.folder(), Script("exec sleep 1000"));
  const std::string block(kExecWindow / 2, 'x');
  CHECK(session.command().Write(block));
  CHECK(session.command().Write(block));  // less what fits into the pipe
  CHECK_FALSE(session.command().Write(block));
}

TEST_CASE("input for a command that closed it is dropped") {
  Waiting waiting(RuntimeKind::kProcess);
  Session session(waiting.folder(), Script("exec <&-; echo closed; exec sleep 1000"));
  REQUIRE(session.WaitOut("closed"));
  for (int i = 0; i < 64; ++i) {
    REQUIRE(session.command().Write(std::string(kExecWindow / 4, 'x')));
  }
  session.command().Signal(SIGTERM);
  CHECK(session.Wait().signal == SIGTERM);
}

TEST_CASE("a signal reaches the command and its children, and is its end") {
  for (const RuntimeKind kind : KindsHere()) {
    Waiting waiting(kind);
    Session session(waiting.folder(), Script("sh -c 'echo ready; read never'; echo never"));
    REQUIRE(session.WaitOut("ready"));
    session.command().Signal(SIGINT);
    CHECK(session.Wait().signal == SIGINT);
    CHECK(session.out() == "ready\n");
  }
}

TEST_CASE("a terminal: its size, its change, and Ctrl-C") {
  for (const RuntimeKind kind : KindsHere()) {
    Waiting waiting(kind);
    Session session(
        waiting.folder(),
        ScriptInTerminal("trap 'stty size; echo changed' WINCH; tty; echo $TERM; stty size; "
                         "while :; do sleep 0.01; done"));
    REQUIRE(session.WaitOut("vt100\r\n30 100\r\n"));
    CHECK(session.out().starts_with("/dev/pts/"));
    session.command().Resize({50, 132});
    REQUIRE(session.WaitOut("50 132\r\nchanged\r\n"));
    CHECK(session.command().Write("\x03"));
    const CommandEnd end = session.Wait();
    CHECK(end.signal == SIGINT);
    CHECK(session.err().empty());
  }
}

TEST_CASE("a shell in a terminal has job control") {
  for (const RuntimeKind kind : KindsHere()) {
    Waiting waiting(kind);
    EntryRequest request{.rank = 9, .argv = {}, .size = WindowSize(), .terminal_type = "xterm"};
    Session session(waiting.folder(), request);
    REQUIRE(session.command().Write("set -o | grep monitor; echo rank $RANK.\n"));
    REQUIRE(session.WaitOut("rank 9."));
    CHECK_THAT(session.out(), Catch::Contains("on"));
    CHECK_THAT(session.out(), !Catch::Contains("no job control"));
    REQUIRE(session.command().Write("exit 3\n"));
    CHECK(session.Wait().code == 3);
  }
}

TEST_CASE("a hang-up leaves no process, whatever it does to escape") {
  for (const RuntimeKind kind : KindsHere()) {
    Waiting waiting(kind);
    const size_t before = waiting.Tagged().size();
    {
      Session session(waiting.folder(),
                      Script("trap '' HUP TERM; (setsid sleep 1000 &) ; setsid sh -c 'sleep 1000 & "
                             "exec sleep 1000' & echo ready; wait; sleep 1000"));
      REQUIRE(session.WaitOut("ready"));
      session.command().HangUp();
      CHECK(session.Wait().signal == SIGKILL);
    }
    CHECK(WaitUntil([&] { return waiting.Tagged().size() == before; }));
    CHECK(waiting.task.runtime().Query("7.1.0")->ranks[0].exited == false);
  }
}

TEST_CASE("what a command leaves behind ends with it") {
  for (const RuntimeKind kind : KindsHere()) {
    Waiting waiting(kind);
    const size_t before = waiting.Tagged().size();
    Session session(waiting.folder(), Script("setsid sleep 1000 & echo gone"));
    CHECK(session.Wait().code == 0);
    CHECK(session.out() == "gone\n");
    CHECK(waiting.Tagged().size() == before);
  }
}

TEST_CASE("the end of the task ends its commands, and is not held up by them") {
  for (const RuntimeKind kind : KindsHere()) {
    Waiting waiting(kind);
    Session session(
        waiting.folder(),
        ScriptInTerminal("trap '' HUP TERM INT; echo ready; while :; do sleep 1000; done"));
    REQUIRE(session.WaitOut("ready"));
    REQUIRE(waiting.task.runtime().Stop("7.1.0", Duration::Seconds(30)));
    const TaskStatus status = waiting.task.WaitEnd();  // checks that no process is left
    CHECK(status.released);
    const CommandEnd end = session.Wait();
    CHECK(end.signal == SIGKILL);
  }
}

TEST_CASE("a container whose ranks began before its runtime said which it is can be entered") {
  for (const RuntimeKind kind : KindsHere()) {
    if (kind != RuntimeKind::kOci) {
      continue;
    }
    Waiting waiting(kind);
    const std::string pid = waiting.BundlePid();
    // The supervisor reads it when the runtime has ended; of two answers after that, one is later.
    REQUIRE(waiting.task.runtime().Query("7.1.0"));
    REQUIRE(waiting.task.runtime().Query("7.1.0"));
    REQUIRE(::rename(pid.c_str(), (pid + ".later").c_str()) == 0);
    std::thread runtime([&] {
      ::poll(nullptr, 0, 50);
      ::rename((pid + ".later").c_str(), pid.c_str());
    });
    auto entered = EnterTask(waiting.folder(), Script("true"));
    runtime.join();
    INFO((entered ? "" : entered.error().message));
    CHECK(entered);
  }
}

TEST_CASE("a command dies with the agent") {
  for (const RuntimeKind kind : KindsHere()) {
    Waiting waiting(kind);
    const size_t before = waiting.Tagged().size();
    auto entered = EnterTask(waiting.folder(), Script("trap '' HUP; while :; do sleep 1000; done"));
    REQUIRE(entered);
    REQUIRE(WaitUntil([&] { return waiting.Tagged().size() > before + 1; }));
    const pid_t pid = entered->pid;
    *entered = Entered();  // as the kernel closes everything of a dead agent
    CHECK(WaitUntil([&] { return waiting.Tagged().size() == before; }));
    CHECK(WaitUntil([&] {
      const auto process = ReadProcess(pid);
      return !process || process->dead();
    }));
  }
}

TEST_CASE("what cannot be entered says why") {
  for (const RuntimeKind kind : KindsHere()) {
    Waiting waiting(kind);
    const auto why = [&](const EntryRequest& request) {
      const auto command = Command::Start(waiting.folder(), request);
      return command ? std::string("(it ran)") : command.error().message;
    };
    CHECK_THAT(why({.rank = 8, .argv = {"no-such-program"}, .size = {}, .terminal_type = ""}),
               Catch::Contains("cannot run no-such-program: No such file or directory"));
    CHECK_THAT(why({.rank = 5, .argv = {"true"}, .size = {}, .terminal_type = ""}),
               Catch::Contains("has no rank 5"));
    REQUIRE(waiting.task.runtime().Kill("7.1.0"));
    waiting.task.WaitEnd();
    CHECK_THAT(why(Script("true")), Catch::Contains("cannot be entered: it has ended"));
  }
}

// --- containers ----------------------------------------------------------------------------------

std::string Sorted(const std::string& text) {
  std::istringstream lines(text);
  std::vector<std::string> found;
  for (std::string line; std::getline(lines, line);) {
    found.push_back(line);
  }
  std::ranges::sort(found);
  std::string out;
  for (const std::string& line : found) {
    out += line + "\n";
  }
  return out;
}

TEST_CASE("oci: a command has the rank's identity, filter, namespaces, cgroup and limits") {
  if (const std::string why = WhyNoContainers(); !why.empty()) {
    WARN("skipped: " << why);
    return;
  }
  const std::string look =
      "id; grep -E '^(Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp|Seccomp_filters):' "
      "/proc/self/status; "
      "cat /proc/self/cgroup; for n in pid mnt ipc uts net; do readlink /proc/self/ns/$n; done; "
      "ulimit -n; ulimit -l; hostname; umask; ls /proc/self/fd | wc -l";
  Waiting waiting(RuntimeKind::kOci, [&](TaskConfig& config) {
    config.ranks.resize(1);
    config.ranks[0].argv.back() = look + "; echo up; exec sleep 1000";
    config.groups = {4711};
    config.pids = 64;
    config.memory_bytes = 256U << 20U;
  });
  Session session(waiting.folder(), Script(look));
  CHECK(session.Wait().code == 0);
  INFO(session.err());
  const std::string rank = waiting.task.Log(8);
  CHECK_THAT(session.out(), Catch::Contains("uid=65534"));
  CHECK_THAT(session.out(), Catch::Contains("NoNewPrivs:\t1"));
  CHECK_THAT(session.out(), Catch::Contains("CapBnd:\t0000000000000000"));
  CHECK_THAT(session.out(), Catch::Contains("Seccomp:\t2"));
  CHECK(Sorted(session.out() + "up\n") == Sorted(rank));

  // The cgroup's limits count for both together.
  Session greedy(waiting.folder(),
                 Script("i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); done; wait"));
  CHECK(greedy.Wait().code != 0);
  CHECK_THAT(greedy.err(), Catch::Contains("fork"));
  Session hungry(waiting.folder(), Script("head -c 1000m /dev/zero | tail -c 900m | wc -c"));
  hungry.Wait();
  CHECK(hungry.out() != "943718400\n");
  CHECK(waiting.task.runtime().Query("7.1.0")->ranks[0].exited == false);
}

TEST_CASE("oci: neither a start nor a command makes a device of the node the job's own") {
  if (const std::string why = WhyNoContainers(); !why.empty()) {
    WARN("skipped: " << why);
    return;
  }
  Waiting waiting(RuntimeKind::kOci, [](TaskConfig& config) {
    config.uid = 54'322;  // of this test alone: /dev/null is shared with all that runs here
    config.gid = 54'322;
  });
  // The input of a start may change hands, so it is none of the node's.
  const std::string pid = ReadFile(waiting.BundlePid(), 64).value_or("0");
  CHECK(std::filesystem::read_symlink("/proc/" + pid + "/fd/0").string().starts_with("pipe:"));
  Session session(waiting.folder(), Script("id -u"));
  CHECK(session.Wait().code == 0);
  CHECK(session.out() == "54322\n");
  struct stat null{};
  REQUIRE(::stat("/dev/null", &null) == 0);
  CHECK(null.st_uid != 54'322);
  CHECK(null.st_gid != 54'322);
  if (null.st_uid == 54'322) {
    CHECK(::chown("/dev/null", 0, 0) == 0);
  }
}

TEST_CASE("oci: a rank cannot look into the attendant of a command") {
  if (const std::string why = WhyNoContainers(); !why.empty()) {
    WARN("skipped: " << why);
    return;
  }
  Waiting waiting(RuntimeKind::kOci);
  Session session(waiting.folder(),
                  Script("ls /proc/$PPID/fd; cat /proc/$PPID/environ; echo done"));
  CHECK(session.Wait().code == 0);
  CHECK(session.out() == "done\n");
  CHECK_THAT(session.err(), Catch::Contains("Permission denied"));
}

}  // namespace
}  // namespace tide::agent
