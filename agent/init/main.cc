// tide-init: PID 1 of a task (`run`), its supervisor on the host (`supervise`), and the attendant
// of a person's command in it (`attend`). One static binary, since it runs inside images that hold
// nothing of ours.
#include <cstdio>
#include <exception>
#include <string_view>

#include "agent/init/attendant.h"
#include "agent/init/init.h"
#include "agent/init/supervisor.h"

namespace {

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
  std::fputs(
      "tide-init is started by the agent:\n"
      "  tide-init supervise TASK_FOLDER   keep one task, as a daemon\n"
      "  tide-init run                     start the ranks of a task (in its container)\n"
      "  tide-init attend                  run a person's command in a task\n",
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
