// tide-init: PID 1 of a task (`run`), its supervisor on the host (`supervise`), the attendant of a
// person's command in it (`attend`), and the way of that command into a container (`beside`). One
// static binary, since it runs inside images that hold nothing of ours.
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "agent/init/attendant.h"
#include "agent/init/init.h"
#include "agent/init/supervisor.h"
#include "agent/runtime/cgroup.h"

namespace {

// Becomes an OCI runtime that enters a container: it sees the mounts of the container's supervisor,
// with the runtime's files, and the cgroups as the runtime that made it did.
int RunBeside(const char* supervisor, const char* cgroup, char** argv) {
  // It is missing where nothing guards the task: else the task's processes would be in it.
  if (const tide::Status entered = tide::agent::EnterUnifiedCgroup(cgroup);
      !entered && entered.error().code != tide::ErrorCode::kNotFound) {
    std::fprintf(stderr, "tide-init: %s\n", entered.error().message.c_str());
    return 70;
  }
  const std::string mounts = std::string("/proc/") + supervisor + "/ns/mnt";
  const int fd = ::open(mounts.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || ::setns(fd, CLONE_NEWNS) != 0) {
    std::perror("tide-init: cannot enter the mounts of the task's supervisor");
    return 70;
  }
  ::execv(argv[0], argv);
  std::perror(argv[0]);
  return 127;
}

int Run(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "run" && argc == 2) {
    return tide::agent::RunInit();
  }
  if (mode == "supervise" && argc == 3) {
    return tide::agent::RunSupervisor(argv[2]);
  }
  if (mode == "attend" && argc == 2) {
    return tide::agent::RunAttendant();
  }
  if (mode == "beside" && argc > 4) {
    return RunBeside(argv[2], argv[3], argv + 4);
  }
  std::fputs(
      "tide-init is started by the agent:\n"
      "  tide-init supervise TASK_FOLDER   keep one task, as a daemon\n"
      "  tide-init run                     start the ranks of a task (in its container)\n"
      "  tide-init attend                  run a person's command in a task\n"
      "  tide-init beside PID CGROUP PROGRAM …   become the OCI runtime, among the mounts of a "
      "supervisor\n",
      stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tide-init: %s\n", e.what());
    return 70;
  }
}
