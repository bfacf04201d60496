// What a job may try on its node, and what comes of it: real containers, real limits, a file system
// that hangs.
#include <linux/fuse.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <sstream>
#include <thread>

#include "agent/runtime/task_testing.h"

namespace tide::agent {
namespace {

bool NoContainers() {
  if (const std::string why = WhyNoContainers(); !why.empty()) {
    WARN("skipped: " << why);
    return true;
  }
  return false;
}

TEST_CASE("containment: a fork bomb stays within its limit and goes with its task") {
  if (NoContainers()) {
    return;
  }
  TaskFixture task;
  TaskConfig config =
      task.Task(RuntimeKind::kOci, {"bomb() { bomb | bomb & }; bomb; echo lit; exec sleep 1000"});
  config.pids = 64;
  REQUIRE(task.runtime().Start(config));
  REQUIRE(task.WaitLog(8, "Cannot fork"));
  REQUIRE(task.runtime().Kill("7.1.0"));
  const TaskStatus end = task.WaitEnd();  // checks that nothing of it is left
  CHECK(end.ranks[0].exited);
}

TEST_CASE("containment: a share of the processor is not passed by more than a tenth") {
  if (NoContainers()) {
    return;
  }
  TaskFixture task;
  TaskConfig config = task.Task(RuntimeKind::kOci,
                                {"exec /usr/bin/python3 -c 'import time\n"
                                 "begin = time.monotonic()\n"
                                 "while time.monotonic() < begin + 3: pass\n"
                                 "print(time.process_time() / (time.monotonic() - begin))'"});
  config.cpu_millis = 200;
  const TaskStatus end = task.Run(config);
  INFO(end.error << task.Log(8));
  REQUIRE(end.ranks[0].code == 0);
  const double share = std::stod(task.Log(8));
  CHECK(share <= 0.22);
  CHECK(share >= 0.02);  // how much is left for it is the machine's matter: others test meanwhile
}

TEST_CASE("containment: who fills /tmp fills nobody else's disk") {
  if (NoContainers()) {
    return;
  }
  TaskFixture task;
  TaskConfig config =
      task.Task(RuntimeKind::kOci,
                {"for d in /tmp /var/tmp /dev/shm; do head -c 200M /dev/zero >$d/x || :; "
                 "rm $d/x; done 2>&1"});
  config.memory_bytes = 128U << 20U;
  config.shm_bytes = 32U << 20U;
  const TaskStatus end = task.Run(config);
  INFO(end.error);
  const std::string log = task.Log(8);
  INFO(log);
  size_t full = 0;
  for (size_t at = log.find("No space left"); at != std::string::npos;
       at = log.find("No space left", at + 1)) {
    ++full;
  }
  CHECK(full == 3);
  CHECK(end.ranks[0].code == 0);
}

// A file system whose server takes requests and never answers, like a file server that is away:
// who asks it for a file hangs in the kernel, and SIGKILL does not end him.
class HangingMount {
 public:
  explicit HangingMount(std::string path) : path_(std::move(path)) {
    REQUIRE(MakeDirs(path_, 0755));
    device_ = Fd(::open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK));
    const std::string options =
        "fd=" + std::to_string(device_.get()) + ",rootmode=40000,user_id=0,group_id=0,allow_other";
    mounted_ =
        device_.valid() &&
        ::mount("hanging", path_.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
    if (mounted_) {
      server_ = std::thread([this] { Serve(); });
    }
  }
  ~HangingMount() {
    Release();
    ::umount2(path_.c_str(), MNT_DETACH);
  }
  HangingMount(const HangingMount&) = delete;
  HangingMount& operator=(const HangingMount&) = delete;

  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] bool somebody_hangs() const { return hangs_; }
  // The server is back, in a way: whoever waits gets an error.
  void Release() {
    over_ = true;
    if (server_.joinable()) {
      server_.join();
    }
    device_.Close();
  }

 private:
  template <typename Body>
  void Answer(uint64_t unique, const Body& body) {
    struct {
      fuse_out_header header;
      Body body;
    } answer{};
    answer.header.len = sizeof answer;
    answer.header.unique = unique;
    answer.body = body;
    (void)!::write(device_.get(), &answer, sizeof answer);
  }

  void Serve() {
    std::vector<char> buffer(1U << 17U);
    while (!over_) {
      pollfd ready{device_.get(), POLLIN, 0};
      ::poll(&ready, 1, 10);
      const ssize_t n = ::read(device_.get(), buffer.data(), buffer.size());
      if (n < static_cast<ssize_t>(sizeof(fuse_in_header))) {
        continue;
      }
      fuse_in_header header{};
      std::memcpy(&header, buffer.data(), sizeof header);
      if (header.opcode == FUSE_INIT) {
        fuse_init_out init{};
        init.major = FUSE_KERNEL_VERSION;
        init.minor = FUSE_KERNEL_MINOR_VERSION;
        init.max_write = 4096;
        Answer(header.unique, init);
      } else if (header.opcode == FUSE_GETATTR) {
        fuse_attr_out attr{};
        attr.attr_valid = 3600;
        attr.attr.ino = 1;
        attr.attr.mode = S_IFDIR | 0755;
        attr.attr.nlink = 2;
        Answer(header.unique, attr);
      } else if (header.opcode == FUSE_OPENDIR) {
        Answer(header.unique, fuse_open_out{});  // crun opens what it mounts
      } else if (header.opcode == FUSE_LOOKUP) {
        hangs_ = true;
      }
    }
  }

  const std::string path_;
  Fd device_;
  bool mounted_ = false;
  std::atomic<bool> over_ = false;
  std::atomic<bool> hangs_ = false;
  std::thread server_;
};

TEST_CASE(
    "containment: a task that hangs in the kernel is named, and ends when the kernel lets go") {
  if (NoContainers()) {
    return;
  }
  TaskFixture task;
  HangingMount mount(task.state_dir() + "/away");
  if (!mount.mounted()) {
    WARN("skipped: no FUSE file system can be mounted here");
    return;
  }
  TaskConfig config = task.Task(RuntimeKind::kOci, {"exec cat /away/file"});
  config.mounts = {{task.state_dir() + "/away", "/away", true}};
  config.stuck_ms = 200;
  REQUIRE(task.runtime().Start(config));
  REQUIRE(WaitUntil([&] { return mount.somebody_hangs(); }));
  REQUIRE(task.runtime().Kill("7.1.0"));
  TaskStatus status;
  REQUIRE(WaitUntil([&] {
    status = task.runtime().Query("7.1.0").value_or(TaskStatus());
    return !status.stuck.empty();
  }));
  INFO(status.stuck);
  CHECK(status.stuck.ends_with("does not die"));
  CHECK_FALSE(status.finished);
  CHECK_FALSE(status.released);
  mount.Release();
  const TaskStatus end = task.WaitEnd();
  CHECK(end.stuck.empty());
  CHECK(end.ranks[0].exited);
}

int64_t CpuTicks(int32_t pid) {
  const std::string stat = ReadFile("/proc/" + std::to_string(pid) + "/stat", 65536).value();
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));
  std::string skipped;
  for (int field = 3; field < 14; ++field) {
    fields >> skipped;
  }
  int64_t user = 0;
  int64_t system = 0;
  fields >> user >> system;
  return user + system;
}

TEST_CASE("containment: who waits for what does not die costs next to nothing") {
  TaskFixture task;
  HangingMount mount(task.state_dir() + "/away");
  if (!mount.mounted()) {
    WARN("skipped: no FUSE file system can be mounted here");
    return;
  }
  TaskConfig config =
      task.Task(RuntimeKind::kProcess, {"exec cat " + task.state_dir() + "/away/file"});
  config.stuck_ms = 200;
  REQUIRE(task.runtime().Start(config));
  REQUIRE(WaitUntil([&] { return mount.somebody_hangs(); }));
  const auto stuck = [&] {
    return !task.runtime().Query("7.1.0").value_or(TaskStatus()).stuck.empty();
  };
  REQUIRE(task.runtime().Kill("7.1.0"));
  REQUIRE(WaitUntil(stuck));
  REQUIRE(task.runtime().Kill("7.1.0"));  // the agent says it again, as long as it is asked to
  const int32_t supervisor = ReadSupervisor(task.Folder()).value().pid;
  const int64_t before = CpuTicks(supervisor);
  ::poll(nullptr, 0, 3500);  // past the moment at which that kill would be enforced
  CHECK(CpuTicks(supervisor) - before < ::sysconf(_SC_CLK_TCK) / 5);
  CHECK(stuck());
  mount.Release();
  CHECK(task.WaitEnd().ranks[0].exited);
}

}  // namespace
}  // namespace tide::agent
