// tide-init: PID 1 of a task (`run`), its supervisor on the host (`supervise`), the attendant of a
// person's command in it (`attend`), and the way of that command into a container (`alone`). One
// static binary, since it runs inside images that hold nothing of ours.
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string_view>

#include "agent/init/attendant.h"
#include "agent/init/init.h"
#include "agent/init/supervisor.h"
#include "agent/runtime/cgroup.h"

namespace {

// For an OCI runtime that enters a container: it sees the cgroups as the one that made it did.
int RunAlone(char** argv) {
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    std::perror("tide-init: cannot make a mount namespace");
    return 70;
  }
  tide::agent::HideUnifiedCgroup();
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
  if (mode == "alone" && argc > 2) {
    return RunAlone(argv + 2);
  }
  std::fputs(
      "tide-init is started by the agent:\n"
      "  tide-init supervise TASK_FOLDER   keep one task, as a daemon\n"
      "  tide-init run                     start the ranks of a task (in its container)\n"
      "  tide-init attend                  run a person's command in a task\n"
      "  tide-init alone PROGRAM …         become the OCI runtime, with cgroups as it wants them\n",
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
