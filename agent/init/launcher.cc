#include "agent/init/launcher.h"

#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "agent/init/init.h"
#include "agent/init/messages.h"
#include "agent/init/pins.h"
#include "agent/runtime/cgroup.h"
#include "agent/runtime/mount_targets.h"
#include "agent/runtime/oci_bundle.h"
#include "agent/runtime/port_guard.h"
#include "agent/runtime/task_folder.h"

namespace tide::agent {
namespace {

constexpr const char* kBundle = kBundleFolder;
constexpr const char* kRuntimeState = "../../bundle/state";
constexpr const char* kPidFile = "../../bundle/pid";
constexpr const char* kRootfs = "../../bundle/root";
constexpr const char* kUnified = "../../bundle/unified";
constexpr int kPipeBytes = 1 << 20;
constexpr const char* kInitName = "tide-init";

// Everything tide-init inherits, in the order of its descriptors from kConfigFd on.
struct Inherited {
  std::vector<Fd> fds;
  Fd input;
  Fd messages;
};

Result<Fd> ConfigFile(const TaskConfig& config) {
  TIDE_ASSIGN(const std::string text, TaskConfigToJson(config));
  Fd fd(::memfd_create("task", MFD_CLOEXEC));
  if (!fd.valid()) {
    return FailErrno("cannot create the configuration of tide-init", errno);
  }
  TIDE_TRY(WriteAll(fd.get(), text));
  return fd;
}

Status MakeChannels(const TaskConfig& config, Launch& launch, Inherited& inherited) {
  if (config.runtime == RuntimeKind::kOci) {
    TIDE_ASSIGN(Fd text, ConfigFile(config));
    inherited.fds.push_back(std::move(text));
  } else {
    inherited.fds.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));  // it knows its task
  }
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return FailErrno("cannot create a socket", errno);
  }
  launch.socket = Fd(ends[0]);
  inherited.fds.emplace_back(ends[1]);
  const int on = 1;
  ::setsockopt(launch.socket.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
  for (size_t i = 0; i < 2 * config.ranks.size(); ++i) {
    TIDE_ASSIGN(Pipe log, MakePipe());
    ::fcntl(log.read_end.get(), F_SETFL, O_NONBLOCK);
    ::fcntl(log.read_end.get(), F_SETPIPE_SZ, kPipeBytes);
    // A rank may open /dev/stdout again, which asks for the owner of the pipe.
    if (::geteuid() == 0 && ::fchown(log.write_end.get(), config.uid, config.gid) != 0) {
      return FailErrno("cannot give a log pipe to the job's user", errno);
    }
    launch.logs.push_back(std::move(log.read_end));
    inherited.fds.push_back(std::move(log.write_end));
  }
  TIDE_ASSIGN(Pipe messages, MakePipe());
  launch.messages = std::move(messages.read_end);
  inherited.messages = std::move(messages.write_end);
  ::fcntl(launch.messages.get(), F_SETFL, O_NONBLOCK);
  TIDE_ASSIGN(inherited.input, MakeEmptyInput());
  return {};
}

// lower: the folder that the container has as its root.
Status MountRoot(const std::string& lower) {
  if (::unshare(CLONE_NEWNS) != 0) {
    return FailErrno("cannot make a mount namespace (containers need root)", errno);
  }
  // Slave: unmounts on the host still reach us, so a task never keeps a file system busy there.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    return FailErrno("cannot separate the mounts of the task from the host's", errno);
  }
  // The runtime's files are of no use after a reboot, and go with this process's mounts.
  TIDE_TRY(MakeDirs(kBundle, 0755));
  if (::mount("tmpfs", kBundle, "tmpfs", MS_NOSUID | MS_NODEV, "size=16m,mode=755") != 0) {
    return FailErrno("cannot mount a tmpfs for the container", errno);
  }
  const std::string top = kBundle;
  for (const char* name : {"/upper", "/work", "/root"}) {
    TIDE_TRY(MakeDirs(top + name, 0755));
  }
  const std::string options =
      "lowerdir=" + lower + ",upperdir=" + top + "/upper,workdir=" + top + "/work";
  if (::mount("overlay", kRootfs, "overlay", MS_NODEV, options.c_str()) != 0) {
    return FailErrno("cannot mount an overlay of " + lower, errno);
  }
  return {};
}

// Makes the task's cgroup, which the runtime finds then, with its guard of ports.
Status KeepPorts(const TaskConfig& config) {
  if (config.kept_ports.low == 0) {
    return {};
  }
  const std::string folder = UnifiedCgroup(TaskCgroup(config.key, config.folder));
  if (folder.empty()) {
    return Fail(ErrorCode::kUnavailable, "cgroups of version 2 are not mounted any more");
  }
  TIDE_TRY(MakeDirs(folder, 0755));
  return GuardPorts(folder, config.kept_ports);
}

Status PrepareContainer(const TaskConfig& config) {
  if (::geteuid() != 0) {
    return Fail(ErrorCode::kPermissionDenied,
                "containers need an agent that runs as root; use the process runtime otherwise");
  }
  if (::access(config.runtime_path.c_str(), X_OK) != 0) {
    return FailErrno("cannot run the OCI runtime " + config.runtime_path +
                         " (install runc, or use the process runtime)",
                     errno);
  }
  const bool on_host_root = config.rootfs.empty();
  const std::vector<std::string> host_mounts =
      on_host_root ? HostMounts() : std::vector<std::string>();
  TIDE_TRY(MountRoot(on_host_root ? "/" : config.rootfs));
  TIDE_TRY(KeepPorts(config));
  TIDE_TRY(MoveUnifiedCgroup(kUnified));
  TIDE_ASSIGN(const TaskConfig pinned, PinMounts(config));
  TIDE_ASSIGN(const std::string json, OciConfig(pinned, "root", host_mounts));
  if (!on_host_root) {
    TIDE_TRY(CheckMountTargets(kRootfs, MountTargets(json)));
  }
  std::ofstream(std::string(kBundle) + "/config.json") << json;
  return {};
}

std::vector<std::string> Command(const TaskConfig& config) {
  const size_t preserved = 2 + 2 * config.ranks.size();
  return {config.runtime_path,
          "--root",
          config.folder + "/" + kRuntimeState,
          "run",
          "--detach",
          "--preserve-fds",
          std::to_string(preserved),
          "--pid-file",
          config.folder + "/" + kPidFile,
          "--bundle",
          config.folder + "/" + kBundle,
          TaskTag(config.key, config.folder)};
}

std::vector<std::string> Environment(const TaskConfig& config) {
  return {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
          std::string(kTagVariable) + "=" + TaskTag(config.key, config.folder)};
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

// RDMA needs locked memory and data loaders many files. Without CAP_SYS_RESOURCE what the agent
// has must do.
void RaiseLimits() {
  const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
  ::setrlimit(RLIMIT_MEMLOCK, &unlimited);
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
}

// Gives this process the descriptors of messages.h, and no limits or blocked signals.
//   Returns the lowest descriptor that is none of them.
int BecomeChild(const Inherited& inherited) {
  // Above all target numbers first, so that no dup2 hits a descriptor still to be moved.
  const int first_free = kConfigFd + static_cast<int>(inherited.fds.size()) + 1;
  std::vector<int> sources;
  sources.reserve(inherited.fds.size());
  for (const Fd& fd : inherited.fds) {
    sources.push_back(::fcntl(fd.get(), F_DUPFD_CLOEXEC, first_free));
  }
  const int messages = ::fcntl(inherited.messages.get(), F_DUPFD_CLOEXEC, first_free);
  const int input = ::fcntl(inherited.input.get(), F_DUPFD_CLOEXEC, first_free);
  ::dup2(input, 0);
  ::dup2(messages, 1);
  ::dup2(messages, 2);
  for (size_t i = 0; i < sources.size(); ++i) {
    ::dup2(sources[i], kConfigFd + static_cast<int>(i));
  }
  // A runtime that outlived its supervisor would go on to create a container nobody knows.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none{};
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  RaiseLimits();
  return first_free;
}

[[noreturn]] void Exec(const std::vector<std::string>& command,
                       const std::vector<std::string>& environment,
                       const Inherited& inherited) {
  BecomeChild(inherited);
  const std::vector<char*> argv = Pointers(command);
  const std::vector<char*> envp = Pointers(environment);
  ::execve(argv[0], argv.data(), envp.data());
  const std::string text = FailErrno("cannot run " + command.front(), errno).error().message;
  static_cast<void>(WriteAll(2, text));
  ::_exit(127);
}

// Without a container tide-init is a fork of its supervisor: nothing is read or loaded again.
[[noreturn]] void BecomeInit(const TaskConfig& config, const Inherited& inherited) {
  const auto first_other = static_cast<unsigned>(BecomeChild(inherited));
  ::close_range(first_other, ~0U, 0);
  ::prctl(PR_SET_NAME, kInitName);
  ::_exit(RunInit(config));
}

}  // namespace

Result<Launch> LaunchTask(const TaskConfig& config) {
  if (config.runtime == RuntimeKind::kOci) {
    TIDE_TRY(PrepareContainer(config));
  }
  Launch launch;
  Inherited inherited;
  TIDE_TRY(MakeChannels(config, launch, inherited));
  launch.child = ::fork();
  if (launch.child < 0) {
    return FailErrno("cannot create a process", errno);
  }
  if (launch.child == 0 && config.runtime == RuntimeKind::kProcess) {
    BecomeInit(config, inherited);
  }
  if (launch.child == 0) {
    const Status entered = EnterUnifiedCgroup(TaskCgroup(config.key, config.folder));
    const bool may_be_missing = config.kept_ports.low == 0;
    if (!entered && !(may_be_missing && entered.error().code == ErrorCode::kNotFound)) {
      static_cast<void>(WriteAll(inherited.messages.get(), entered.error().message));
      ::_exit(127);
    }
    Exec(Command(config), Environment(config), inherited);
  }
  return launch;
}

pid_t ContainerPid() {
  pid_t pid = 0;
  std::ifstream(kPidFile) >> pid;
  return pid;
}

pid_t StartContainerDelete(const TaskConfig& config) {
  const std::vector<std::string> command = {config.runtime_path,
                                            "--root",
                                            config.folder + "/" + kRuntimeState,
                                            "delete",
                                            "--force",
                                            TaskTag(config.key, config.folder)};
  const std::vector<char*> argv = Pointers(command);
  const std::vector<std::string> environment = Environment(config);
  const std::vector<char*> envp = Pointers(environment);
  // The supervisor blocks signals; the runtime must not inherit that.
  posix_spawnattr_t attributes{};
  sigset_t none{};
  ::sigemptyset(&none);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, argv[0], nullptr, &attributes, argv.data(), envp.data());
  ::posix_spawnattr_destroy(&attributes);
  return error == 0 ? pid : 0;
}

bool UnmountRoot() {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(kPinsFolder, none)) {
    // Detached: a pin may hold mounts of its own.
    ::umount2(entry.path().c_str(), UMOUNT_NOFOLLOW | MNT_DETACH);
  }
  for (const char* target : {kUnified, kRootfs, kBundle}) {
    while (::umount2(target, UMOUNT_NOFOLLOW) == 0) {
    }
    if (errno != EINVAL && errno != ENOENT) {
      return false;
    }
  }
  return true;
}

}  // namespace tide::agent
