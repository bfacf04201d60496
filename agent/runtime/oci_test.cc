// What only a container gives: limits, a closed file system, no privileges.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <sstream>

#include "agent/runtime/cgroup.h"
#include "agent/runtime/detect.h"
#include "agent/runtime/task_testing.h"

namespace tide::agent {
namespace {

bool Skipped() {
  if (const std::string why = WhyNoContainers(); !why.empty()) {
    WARN("skipped: " << why);
    return true;
  }
  return false;
}

std::string MountsWith(const std::string& text) {
  std::istringstream lines(ReadFile("/proc/self/mounts").value_or(""));
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(text) != std::string::npos) {
      found += line + "\n";
    }
  }
  return found;
}

TEST_CASE("oci: a rank runs as its user without any privilege") {
  if (Skipped()) {
    return;
  }
  TaskFixture task;
  const TaskStatus end = task.Run(
      task.Task(RuntimeKind::kOci,
                {"id -u; id -g; grep -E '^(Groups|Cap|NoNewPrivs|Seccomp):' /proc/self/status; "
                 "grep -E '^Cap...:' /proc/self/status; echo pid $PPID; hostname"}));
  CHECK(end.error.empty());
  const std::string log = task.Log(8);
  INFO(log);
  CHECK(log.starts_with("65534\n65534\n"));
  CHECK(log.find("NoNewPrivs:\t1") != std::string::npos);
  CHECK(log.find("Seccomp:\t2") != std::string::npos);
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) {
    CHECK(log.find(std::string(set) + ":\t0000000000000000\n") != std::string::npos);
  }
  CHECK(log.find("pid 1\n7.1.0\n") != std::string::npos);
}

TEST_CASE("oci: only the basic devices and those asked for are there") {
  if (Skipped()) {
    return;
  }
  const std::vector<std::string> basic = {"/dev/full",
                                          "/dev/null",
                                          "/dev/pts/ptmx",
                                          "/dev/random",
                                          "/dev/tty",
                                          "/dev/urandom",
                                          "/dev/zero"};
  TaskFixture task;
  TaskConfig config =
      task.Task(RuntimeKind::kOci,
                {"find /dev -type b -o -type c | sort; echo x >/dev/shm/x && echo shm ok"});
  task.Run(config);
  std::string expected;
  for (const std::string& device : basic) {
    expected += device + "\n";
  }
  CHECK(task.Log(8) == expected + "shm ok\n");
  config.key = "7.3.0";
  config.devices = {{"/dev/null", "/dev/vendor/gpu0", "rw", 0640}};
  config.groups = {4711};
  config.ranks[0].argv.back() =
      "find /dev/vendor -type c; stat -c %a /dev/vendor/gpu0; echo x >/dev/vendor/gpu0 && echo "
      "written; id -G; mknod /tmp/disk b 1 0 2>/dev/null || echo no others";
  const TaskStatus end = task.Run(config);
  INFO(end.error);
  CHECK(task.Log(8, "7.3.0") == "/dev/vendor/gpu0\n640\nwritten\n65534 4711\nno others\n");
  if (::access("/dev/fuse", F_OK) != 0) {
    return;
  }
  config = task.Task(RuntimeKind::kOci,
                     {"find /dev -type b -o -type c | sort; echo x >/dev/shm/x && echo shm ok"});
  config.key = "7.2.0";
  config.devices = {{"/dev/fuse", "/dev/fuse", "rw"}};
  task.Run(config);
  CHECK(task.Log(8, "7.2.0").starts_with("/dev/full\n/dev/fuse\n"));
}

TEST_CASE("oci: of a masked folder only the task's own mounts are seen") {
  if (Skipped()) {
    return;
  }
  TaskFixture task;
  const std::string mine = task.state_dir() + "/mine";
  REQUIRE(MakeDirs(mine, 0755));
  REQUIRE(WriteFileDurably(mine + "/x", "mine\n", 0644));
  TaskConfig config = task.Task(
      RuntimeKind::kOci,
      {"ls /usr/share; cat /usr/share/tide/job/x; (: >/usr/share/y) 2>/dev/null || echo denied"});
  config.masks = {"/usr/share", "/no/such/folder", "/tmp/elsewhere"};
  // An outer mount that shows the masked folder again does not help.
  config.mounts = {{mine, "/usr/share/tide/job", true}, {"/usr", "/usr", true}};
  const TaskStatus end = task.Run(config);
  CHECK(end.error.empty());
  CHECK(task.Log(8) == "tide\nmine\ndenied\n");
}

TEST_CASE("oci: a folder shown again inside its own mask is masked there, too") {
  if (Skipped()) {
    return;
  }
  TaskFixture task;
  const std::string shown = task.state_dir() + "/shown";
  REQUIRE(MakeDirs(shown, 0755));
  REQUIRE(WriteFileDurably(shown + "/f", "open\n", 0644));
  REQUIRE(MakeDirs(shown + "/hidden", 0755));
  REQUIRE(WriteFileDurably(shown + "/hidden/f", "secret\n", 0644));
  TaskConfig config = task.Task(
      RuntimeKind::kOci,
      {"cat /data/f /data/hidden/f; ls /data/hidden/hidden | wc -l; cat /data/hidden/hidden/f"});
  config.masks = {"/data/hidden", "/data/hidden/hidden"};
  config.mounts = {{shown, "/data", true}, {shown, "/data/hidden", true}};
  const TaskStatus end = task.Run(config);
  CHECK(end.error.empty());
  const std::string log = task.Log(8);
  INFO(log);
  CHECK(log.starts_with("open\nopen\n0\n"));
  CHECK(log.find("secret") == std::string::npos);
}

// A read-only mount of what the agent has looked at.
MountConfig Looked(const std::string& source, const std::string& target) {
  struct stat info{};
  REQUIRE(::stat(source.c_str(), &info) == 0);
  return {source, target, true, info.st_dev, info.st_ino};
}

TEST_CASE("oci: a mount that was turned elsewhere since it was looked at is refused") {
  if (Skipped()) {
    return;
  }
  TaskFixture task;
  const std::string folder = task.state_dir() + "/folder";
  const std::string file = task.state_dir() + "/file";
  REQUIRE(WriteFileDurably(file, "text\n", 0644));
  REQUIRE(MakeDirs(folder + "/doc", 0755));
  REQUIRE(::chmod(task.state_dir().c_str(), 0755) == 0);
  TaskConfig config = task.Task(RuntimeKind::kOci, {"ls -d /in/doc; cat /in-file"});
  config.mounts = {Looked(folder, "/in"), Looked(file, "/in-file")};
  task.Run(config);
  CHECK(task.Log(8) == "/in/doc\ntext\n");

  REQUIRE(::rename(folder.c_str(), (folder + "-2").c_str()) == 0);
  REQUIRE(::symlink("/root", folder.c_str()) == 0);
  config.key = "7.2.0";
  const TaskStatus end = task.Run(config);
  CHECK_FALSE(end.started);
  CHECK_THAT(end.error, Catch::Contains("was replaced while the task started"));
  CHECK(MountsWith(task.Folder("7.2.0")).empty());
}

TEST_CASE("oci: a mount in another one is put there, and nothing is made in a user's folder") {
  if (Skipped()) {
    return;
  }
  TaskFixture task;
  const std::string outer = task.state_dir() + "/outer";
  const std::string inner = task.state_dir() + "/inner";
  REQUIRE(MakeDirs(outer + "/a/b", 0777));
  REQUIRE(MakeDirs(inner, 0777));
  REQUIRE(::chmod(task.state_dir().c_str(), 0755) == 0);
  REQUIRE(::chmod(inner.c_str(), 0777) == 0);
  TaskConfig config = task.Task(
      RuntimeKind::kOci, {"echo mine >/w/a/b/x; (: >/w/y) 2>/dev/null || echo denied; ls /w/a/b"});
  config.mounts = {Looked(inner, "/w/a/b"), Looked(outer, "/w")};
  config.mounts[0].read_only = false;
  const TaskStatus end = task.Run(config);
  CHECK(end.error.empty());
  CHECK(task.Log(8) == "denied\nx\n");
  CHECK(ReadFile(inner + "/x").value_or("") == "mine\n");
  CHECK(std::filesystem::is_empty(outer + "/a/b"));

  config.key = "7.2.0";
  config.mounts[0].target = "/w/a/missing";
  const TaskStatus second = task.Run(config);
  CHECK_FALSE(second.started);
  CHECK_THAT(second.error, Catch::Contains("a/missing must be a folder or file already"));
  CHECK_FALSE(std::filesystem::exists(outer + "/a/missing"));

  // A link in a user's folder does not move a mount elsewhere.
  config.key = "7.3.0";
  config.mounts[0].target = "/w/a/link";
  std::filesystem::create_symlink("/", outer + "/a/link");
  const TaskStatus third = task.Run(config);
  CHECK_FALSE(third.started);
  CHECK(MountsWith(task.Folder("7.3.0")).empty());
}

TEST_CASE("oci: the host is seen but not written") {
  if (Skipped()) {
    return;
  }
  TaskFixture task;
  const std::string writable = task.state_dir() + "/out";
  REQUIRE(::mkdir(writable.c_str(), 0777) == 0);
  REQUIRE(::chmod(writable.c_str(), 0777) == 0);
  const std::string run_dir = task.state_dir() + "/run-7";
  REQUIRE(MakeDirs(run_dir, 0755));
  REQUIRE(WriteFileDurably(run_dir + "/page-0", "page", 0644));
  TaskConfig config =
      task.Task(RuntimeKind::kOci,
                {"ls /usr/bin/env; for f in /usr/x /etc/x /x /var/x /in/x /sys/x /proc/sys/x; do "
                 "(: >$f) 2>/dev/null && echo wrote $f; done; : >/tmp/x && : >/out/y && cat "
                 "/run/tide/page-0; "
                 "ls /run; ls /tmp"});
  config.uid = 0;  // not even root may
  config.gid = 0;
  config.mounts = {{writable, "/out", false}, {"/usr/share", "/in", true}};
  config.run_dir = run_dir;
  const TaskStatus end = task.Run(config);
  CHECK(end.error.empty());
  CHECK(task.Log(8) == "/usr/bin/env\npagetide\ntide-init\nx\n");
  CHECK(std::filesystem::exists(writable + "/y"));
  CHECK_FALSE(std::filesystem::exists("/out"));
  CHECK_FALSE(std::filesystem::exists("/run/tide-init"));
  CHECK(MountsWith(task.state_dir()).empty());
}

TEST_CASE("oci: an image's root is all that is there, and its vendor's hooks are called") {
  if (Skipped()) {
    return;
  }
  TaskFixture task;
  const std::string root = task.state_dir() + "/image/rootfs";
  REQUIRE(MakeDirs(root + "/etc", 0755));
  REQUIRE(WriteFileDurably(root + "/hello", "hello\n", 0644));
  for (const std::string name : {"bin", "lib", "lib64"}) {
    REQUIRE(::symlink(("usr/" + name).c_str(), (root + "/" + name).c_str()) == 0);
  }
  TaskConfig config = task.Task(RuntimeKind::kOci,
                                {"cat /hello; ls / | tr '\\n' ' '; ls /etc | tr '\\n' ' '; "
                                 "(: >/x) 2>/dev/null || echo denied"});
  config.image = "sha256:12";
  config.rootfs = root;
  config.mounts = {{"/usr", "/usr", true}};
  config.masks = {task.state_dir()};  // not shown by any mount: no empty folder stands for it
  const std::string called = task.state_dir() + "/called";
  config.hooks = {{.stage = "createContainer",
                   .path = "/bin/sh",
                   .args = {"sh", "-c", "cat >" + called + "; echo $MARK >>" + called},
                   .env = {"MARK=marked"},
                   .timeout_s = 5}};
  const TaskStatus end = task.Run(config);
  INFO(end.error);
  CHECK(task.Log(8) ==
        "hello\nbin dev etc hello lib lib64 proc run sys tmp usr var hosts resolv.conf denied\n");
  const std::string said = ReadFile(called).value_or("");
  CHECK(said.find("\"bundle\"") != std::string::npos);
  CHECK(said.find("marked") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(root + "/usr"));  // nothing was written into the image
}

TEST_CASE("oci: forbidden system calls fail") {
  if (Skipped()) {
    return;
  }
  TaskFixture task;
  TaskConfig config =
      task.Task(RuntimeKind::kOci,
                {"unshare -U true 2>&1; mount -t tmpfs x /tmp 2>&1; chroot / true 2>&1; "
                 "python3 -c 'import ctypes; c = ctypes.CDLL(None, use_errno=True).syscall; "
                 "print([(c(56, flag | 17, 0, 0, 0, 0), ctypes.get_errno()) for flag in "
                 "(0x10000000, 0x40000000, 0x20000)], c(435, 0, 0), ctypes.get_errno())'; "
                 "(echo a child runs); echo end"});
  config.uid = 0;
  config.gid = 0;
  task.Run(config);
  const std::string log = task.Log(8);
  INFO(log);
  CHECK(log.find("unshare failed: Operation not permitted") != std::string::npos);
  CHECK(log.find("chroot: cannot change root directory") != std::string::npos);
#if defined(__x86_64__)
  CHECK(log.find("[(-1, 1), (-1, 1), (-1, 1)] -1 38") != std::string::npos);
#endif
  CHECK(log.ends_with("a child runs\nend\n"));
}

TEST_CASE("oci: the memory limit kills, and the exit says why") {
  if (Skipped()) {
    return;
  }
  TaskFixture task;
  TaskConfig config = task.Task(RuntimeKind::kOci, {"exec tail /dev/zero", "exit 0"});
  config.memory_bytes = 64U << 20U;
  const TaskStatus end = task.Run(config);
  CHECK(end.ranks[0].signal == SIGKILL);
  CHECK(end.ranks[0].oom);
  CHECK_FALSE(end.ranks[1].oom);
}

TEST_CASE("oci: no more processes than allowed") {
  if (Skipped()) {
    return;
  }
  TaskFixture task;
  TaskConfig config =
      task.Task(RuntimeKind::kOci, {"for i in $(seq 40); do sleep 20 & done; echo all started"});
  config.pids = 12;
  const TaskStatus end = task.Run(config);
  CHECK(end.ranks[0].failed());
  CHECK(task.Log(8).find("Cannot fork") != std::string::npos);
  CHECK(task.Log(8).find("all started") == std::string::npos);
}

TEST_CASE("oci: the cpu limit is set and nothing is left in the cgroups") {
  if (Skipped()) {
    return;
  }
  TaskFixture task;
  TaskConfig config = task.Task(RuntimeKind::kOci, {"echo up; while :; do sleep 0.02; done"});
  config.cpu_millis = 500;
  REQUIRE(task.runtime().Start(config));
  REQUIRE(task.WaitLog(8, "up"));
  const std::string cgroup = TaskCgroup("7.1.0", task.Folder());
  CHECK(CgroupProcesses(cgroup).size() >= 2);
  bool found = false;
  for (const std::string& folder : CgroupFolders(cgroup)) {
    found = found || ReadFile(folder + "/cpu.cfs_quota_us").value_or("") == "50000\n" ||
            ReadFile(folder + "/cpu.max").value_or("") == "50000 100000\n";
  }
  CHECK(found);
  const auto before = ReadCgroupUse(cgroup);
  REQUIRE(before);
  CHECK(before->memory_bytes > 0);
  CHECK(before->memory_bytes < 64U << 20U);
  CHECK(WaitUntil([&] { return ReadCgroupUse(cgroup)->cpu_ns > before->cpu_ns; }));
  REQUIRE(task.runtime().Kill("7.1.0"));
  task.WaitEnd();
  CHECK(CgroupFolders(cgroup).empty());
  CHECK_FALSE(ReadCgroupUse(cgroup));
}

TEST_CASE("oci: what the runtime refuses is the task's error") {
  if (Skipped()) {
    return;
  }
  TaskFixture task;
  TaskConfig config = task.Task(RuntimeKind::kOci, {"true"});
  config.mounts = {{"/no/such/source", "/in", true}};
  TaskStatus end = task.Run(config);
  CHECK_THAT(end.error, Catch::Contains("cannot mount /no/such/source: No such file"));
  CHECK_FALSE(end.started);
  CHECK(end.ranks.size() == 1);
  CHECK_FALSE(end.ranks[0].exited);
  config = task.Task(RuntimeKind::kOci, {"true"});
  config.key = "7.2.0";
  config.runtime_path = "/usr/bin/no-runc";
  end = task.Run(config);
  CHECK_THAT(end.error, Catch::Contains("cannot run the OCI runtime /usr/bin/no-runc"));
  config.key = "7.3.0";
  config.runtime_path = OciProgram();
  config.mounts = {{"/usr/share", "/proc/in", true}};
  end = task.Run(config);
  CHECK_THAT(end.error, Catch::StartsWith("cannot create the container: "));
  CHECK(MountsWith(task.state_dir()).empty());
}

TEST_CASE("oci: the runtime of this node is found and tried") {
  TaskFixture task;
  const Detection found = DetectRuntime(task.state_dir(), TIDE_INIT_PATH, {OciProgram()});
  const std::string text = Describe(found);
  INFO(text);
  if (WhyNoContainers().empty()) {
    CHECK(found.best == RuntimeKind::kOci);
    const std::string name = std::filesystem::path(OciProgram()).filename();
    CHECK_THAT(text, Catch::StartsWith("containers by " + name + " version 1."));
    WARN(text);
  } else {
    CHECK(found.best == RuntimeKind::kProcess);
    CHECK_FALSE(found.why_not_oci.empty());
  }
}

TEST_CASE("oci: the first program that works is taken, and what is wrong with others is said") {
  if (Skipped()) {
    return;
  }
  TaskFixture task;
  const auto detect = [&](const std::vector<std::string>& programs) {
    return DetectRuntime(task.state_dir(), TIDE_INIT_PATH, programs);
  };
  const Detection second = detect({"/bin/false", OciProgram()});
  CHECK(second.best == RuntimeKind::kOci);
  CHECK(second.runtime_path == OciProgram());
  CHECK(second.why_not_oci.empty());
  const Detection none = detect({"/bin/false", "/no/such/runc"});
  CHECK(none.best == RuntimeKind::kProcess);
  CHECK(none.runtime_path.empty());
  INFO(none.why_not_oci);
  CHECK_THAT(none.why_not_oci,
             Catch::Contains("/bin/false: ") && Catch::Contains("; /no/such/runc: ") &&
                 Catch::Contains("cannot run the OCI runtime /no/such/runc"));
  CHECK_THAT(detect({}).why_not_oci, Catch::Contains("neither runc nor crun is installed"));
}

TEST_CASE("oci: programs are found by name, crun first") {
  const auto all = OciPrograms();
  const auto runc = OciPrograms("runc");
  const auto crun = OciPrograms("crun");
  CHECK(OciPrograms("sh").empty());
  CHECK(all.size() == runc.size() + crun.size());
  CHECK((crun.empty() || all.front() == crun.front()));
  CHECK((runc.empty() || all.back() == runc.front()));
}

}  // namespace
}  // namespace tide::agent
