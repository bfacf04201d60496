#include "agent/access/entry.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <map>

#include "agent/runtime/control_client.h"
#include "agent/runtime/exec_config.h"
#include "agent/runtime/oci_bundle.h"
#include "agent/runtime/processes.h"
#include "agent/runtime/runtime.h"
#include "agent/runtime/task_config.h"
#include "agent/runtime/task_folder.h"
#include "agent/runtime/task_status.h"
#include "common/base/time.h"

namespace tide::agent {
namespace {

constexpr int kProcessFd = kExecConfigFd + kExecFds;  // process.json, read by the OCI runtime
constexpr const char* kHostPtmx = "/dev/ptmx";
constexpr Duration kStartPatience = Duration::Seconds(5);
constexpr int kLookAgainMillis = 5;

// A running task, as its folder shows it.
struct Task {
  TaskConfig config;
  ProcessIdentity supervisor;
  pid_t first = 0;  // PID 1 of its container
};

Error NotRunning(const TaskConfig& config, const std::string& why) {
  return {ErrorCode::kConflict, "task " + config.key + " cannot be entered: " + why};
}

// 0 = not written yet.
pid_t PidInFile(const TaskConfig& config, const ProcessIdentity& supervisor) {
  const std::string path = config.folder + "/" + kBundleFolder + "/pid";
  const std::string text = ReadFile(SeenBy(supervisor, path), 64).value_or("");
  pid_t pid = 0;
  std::from_chars(text.data(), text.data() + text.size(), pid);
  return pid;
}

Result<pid_t> FirstOfContainer(const TaskConfig& config, const ProcessIdentity& supervisor) {
  const int64_t until = MonotonicNanos() + kStartPatience.nanos();
  while (true) {
    const pid_t pid = PidInFile(config, supervisor);
    // The file may be old, the number another process's by now. Its parent is the supervisor, or,
    // just after the start, the runtime that the supervisor has started.
    const std::vector<int32_t> of_task = DescendantsOf(supervisor.pid);
    if (pid > 1 && std::ranges::find(of_task, pid) != of_task.end()) {
      return pid;
    }
    // The runtime may say which it is after the ranks have begun, and while it ends, it cannot be
    // seen whose child it was.
    const auto process = ReadProcess(pid);
    if ((pid > 1 && (!process || process->dead())) || !IsAlive(supervisor) ||
        MonotonicNanos() >= until) {
      return std::unexpected(NotRunning(config, "its container is gone"));
    }
    ::poll(nullptr, 0, kLookAgainMillis);
  }
}

Result<Task> FindTask(const std::string& folder) {
  Task task;
  TIDE_ASSIGN(task.config, ReadTaskConfig(folder));
  TIDE_ASSIGN(task.supervisor, ReadSupervisor(folder));
  if (::access((folder + "/" + kExitFile).c_str(), F_OK) == 0 || !IsAlive(task.supervisor)) {
    return std::unexpected(NotRunning(task.config, "it has ended"));
  }
  TIDE_ASSIGN(ControlClient supervisor, ControlClient::Connect(folder));
  TIDE_TRY(supervisor.Send(kStatusRequest));
  TIDE_ASSIGN(const TaskStatus status, supervisor.Receive(kControlTimeout));
  if (!status.started) {
    return std::unexpected(NotRunning(task.config, "its ranks are not started yet"));
  }
  if (std::ranges::all_of(status.ranks, &RankStatus::exited)) {
    return std::unexpected(NotRunning(task.config, "its ranks have ended"));
  }
  if (task.config.runtime == RuntimeKind::kOci) {
    TIDE_ASSIGN(task.first, FirstOfContainer(task.config, task.supervisor));
  }
  return task;
}

Result<ExecConfig> Plan(const Task& task, const EntryRequest& request) {
  const auto rank = std::ranges::find(task.config.ranks, request.rank, &RankConfig::rank);
  if (rank == task.config.ranks.end()) {
    return Fail(ErrorCode::kNotFound,
                "task " + task.config.key + " has no rank " + std::to_string(request.rank));
  }
  ExecConfig config;
  config.tag = TaskTag(task.config.key, task.config.folder);
  config.commands = {request.argv};
  if (request.argv.empty()) {
    config.commands = {{"bash"}, {"sh"}};
  }
  config.env = rank->env;
  // The rank's own page and socket: a script with Tide's SDK must not speak in its place.
  config.env.erase("TIDE_PAGE");
  config.env.erase("TIDE_SOCKET");
  config.terminal = request.size.has_value();
  if (config.terminal) {
    config.env["TERM"] = request.terminal_type.empty() ? "xterm" : request.terminal_type;
  }
  config.workdir = task.config.workdir;
  config.uid = task.config.uid;
  config.gid = task.config.gid;
  if (task.config.runtime == RuntimeKind::kProcess) {
    config.drop_user = ::geteuid() == 0;
    config.supervisor_pid = task.supervisor.pid;
    config.supervisor_start_ticks = task.supervisor.start_ticks;
  }
  return config;
}

// What a process of its own would have, and the OCI runtime would take from this one.
std::map<std::string, OciLimit> LimitsOf(pid_t pid) {
  std::map<std::string, OciLimit> limits;
  const auto take = [&](const char* name, __rlimit_resource resource) {
    rlimit limit{};
    if (::prlimit(pid, resource, nullptr, &limit) == 0) {
      limits[name] = {limit.rlim_cur, limit.rlim_max};
    }
  };
  take("RLIMIT_MEMLOCK", RLIMIT_MEMLOCK);
  take("RLIMIT_NOFILE", RLIMIT_NOFILE);
  return limits;
}

Result<Fd> TextFile(const char* name, std::string_view text) {
  Fd fd(::memfd_create(name, MFD_CLOEXEC));
  if (!fd.valid()) {
    return FailErrno("cannot pass on a command", errno);
  }
  TIDE_TRY(WriteAll(fd.get(), text));
  ::lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

// The ends of all channels: ours, and theirs in the order of their descriptors from kExecConfigFd.
struct Channels {
  Entered ours;
  std::vector<Fd> theirs;
  Fd complaints;
};

Status AddTerminal(const Task& task, WindowSize size, Channels& channels) {
  const std::string ptmx = task.config.runtime == RuntimeKind::kOci
                               ? "/proc/" + std::to_string(task.first) + "/root/dev/pts/ptmx"
                               : kHostPtmx;
  TIDE_ASSIGN(Terminal terminal, OpenTerminal(ptmx, task.config.uid, task.config.gid, size));
  channels.ours.output = Fd(::fcntl(terminal.master.get(), F_DUPFD_CLOEXEC, 0));
  channels.ours.input = std::move(terminal.master);
  for (int i = 0; i < 2; ++i) {
    channels.theirs.emplace_back(::fcntl(terminal.slave.get(), F_DUPFD_CLOEXEC, 0));
  }
  channels.theirs.push_back(std::move(terminal.slave));
  return {};
}

Status AddPipes(const Task& task, Channels& channels) {
  TIDE_ASSIGN(Pipe input, MakePipe());
  TIDE_ASSIGN(Pipe output, MakePipe());
  TIDE_ASSIGN(Pipe errors, MakePipe());
  channels.ours.input = std::move(input.write_end);
  channels.ours.output = std::move(output.read_end);
  channels.ours.errors = std::move(errors.read_end);
  for (const Fd* fd : {&channels.ours.input, &channels.ours.output, &channels.ours.errors}) {
    ::fcntl(fd->get(), F_SETFL, O_NONBLOCK);
  }
  for (Fd* fd : {&input.read_end, &output.write_end, &errors.write_end}) {
    // A program may open /dev/stdout again, which asks for the owner of the pipe.
    if (::geteuid() == 0 && ::fchown(fd->get(), task.config.uid, task.config.gid) != 0) {
      return FailErrno("cannot give a pipe to the job's user", errno);
    }
    channels.theirs.push_back(std::move(*fd));
  }
  return {};
}

Result<Channels> MakeChannels(const Task& task, const EntryRequest& request) {
  Channels channels;
  TIDE_ASSIGN(const ExecConfig config, Plan(task, request));
  TIDE_ASSIGN(const std::string json, ExecConfigToJson(config));
  TIDE_ASSIGN(Fd text, TextFile("exec", json));
  channels.theirs.push_back(std::move(text));
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return FailErrno("cannot create a socket", errno);
  }
  channels.ours.leash = Fd(ends[0]);
  ::fcntl(channels.ours.leash.get(), F_SETFL, O_NONBLOCK);
  channels.theirs.emplace_back(ends[1]);
  TIDE_TRY(request.size ? AddTerminal(task, *request.size, channels) : AddPipes(task, channels));
  TIDE_ASSIGN(Pipe complaints, MakePipe());
  channels.ours.complaints = std::move(complaints.read_end);
  ::fcntl(channels.ours.complaints.get(), F_SETFL, O_NONBLOCK);
  channels.complaints = std::move(complaints.write_end);
  if (task.config.runtime == RuntimeKind::kOci) {
    TIDE_ASSIGN(Fd process, TextFile("process", OciExecProcess(task.config, LimitsOf(task.first))));
    channels.theirs.push_back(std::move(process));
  }
  return channels;
}

std::vector<std::string> CommandLine(const Task& task) {
  const TaskConfig& config = task.config;
  if (config.runtime == RuntimeKind::kProcess) {
    return {config.init_path, "attend"};
  }
  return {config.init_path,
          "beside",
          std::to_string(task.supervisor.pid),
          TaskCgroup(config.key, config.folder),
          config.runtime_path,
          "--root",
          config.folder + "/" + kBundleFolder + "/state",
          "exec",
          "--preserve-fds",
          std::to_string(kExecFds),
          "--process",
          "/proc/self/fd/" + std::to_string(kProcessFd),
          TaskTag(config.key, config.folder)};
}

std::vector<char*> PointersTo(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

// posix_spawn, as a fork would copy locks other threads hold. A session of its own: a signal for
// the agent's terminal is none for the command.
Result<pid_t> Spawn(const Task& task, const Channels& channels) {
  const TaskConfig& config = task.config;
  std::vector<std::string> command = CommandLine(task);
  std::vector<std::string> environment = {
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"};
  if (config.runtime == RuntimeKind::kProcess) {
    environment.push_back(std::string(kTagVariable) + "=" + TaskTag(config.key, config.folder));
  }
  // Above all target numbers first, so that no dup2 hits a descriptor still to be moved.
  std::vector<Fd> high;
  for (const Fd& fd : channels.theirs) {
    high.emplace_back(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kProcessFd + 1));
  }
  const Fd complaints(::fcntl(channels.complaints.get(), F_DUPFD_CLOEXEC, kProcessFd + 1));
  TIDE_ASSIGN(const Fd nothing, MakeEmptyInput());
  const Fd input(::fcntl(nothing.get(), F_DUPFD_CLOEXEC, kProcessFd + 1));
  posix_spawn_file_actions_t actions{};
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input.get(), 0);
  ::posix_spawn_file_actions_adddup2(&actions, complaints.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, complaints.get(), 2);
  for (size_t i = 0; i < high.size(); ++i) {
    ::posix_spawn_file_actions_adddup2(
        &actions, high[i].get(), kExecConfigFd + static_cast<int>(i));
  }
  posix_spawnattr_t attributes{};
  ::posix_spawnattr_init(&attributes);
  sigset_t none{};
  sigset_t all{};
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  const std::vector<char*> argv = PointersTo(command);
  const std::vector<char*> envp = PointersTo(environment);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, argv[0], &actions, &attributes, argv.data(), envp.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return FailErrno("cannot run " + command.front(), error);
  }
  return pid;
}

}  // namespace

Result<Entered> EnterTask(const std::string& folder, const EntryRequest& request) {
  TIDE_ASSIGN(const Task task, FindTask(folder));
  if (task.config.runtime == RuntimeKind::kProcess) {
    TIDE_TRY(ReplaceFile(folder + "/" + kVisitedFile, ""));
    if (::access((folder + "/" + kExitFile).c_str(), F_OK) == 0) {
      return std::unexpected(NotRunning(task.config, "it has ended"));
    }
  }
  TIDE_ASSIGN(Channels channels, MakeChannels(task, request));
  TIDE_ASSIGN(channels.ours.pid, Spawn(task, channels));
  return std::move(channels.ours);
}

}  // namespace tide::agent
