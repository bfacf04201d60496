// The beginning of the supervisor's process.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <exception>
#include <memory>
#include <utility>

#include "agent/init/supervisor.h"
#include "agent/init/supervisor_loop.h"
#include "agent/runtime/task_folder.h"
#include "common/base/check.h"
#include "common/base/file.h"

namespace tide::agent {
namespace {

void CloseErrors() {
  const Fd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  ::dup2(null.get(), 2);
  OnCheckFailed(OpenErrorLog);
}

}  // namespace

void OpenErrorLog() {
  static bool open = false;
  if (!std::exchange(open, true)) {
    const Fd log(::open("supervisor.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    ::dup2(log.get(), 2);
  }
}

int RunSupervisor(const std::string& folder) {
  // Nothing of the agent's may stay open in a process that outlives it.
  ::close_range(3, ~0U, 0);
  Fd answer(::fcntl(2, F_DUPFD_CLOEXEC, 3));
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  ::umask(022);
  ::prctl(PR_SET_NAME, kSupervisorName);
  Status status;
  if (::chdir(folder.c_str()) != 0) {
    status = FailErrno("cannot enter " + folder, errno);
  }
  std::unique_ptr<SupervisorLoop> loop;
  if (status) {
    Result<std::unique_ptr<SupervisorLoop>> created = SupervisorLoop::Create(folder);
    status = created ? Status() : std::unexpected(created.error());
    loop = created ? *std::move(created) : nullptr;
  }
  if (!status) {
    static_cast<void>(WriteAll(answer.get(), status.error().message));
    return 1;
  }
  CloseErrors();
  static_cast<void>(WriteAll(answer.get(), kSupervisorReady));
  answer.Close();
  try {
    loop->Run();
  } catch (const std::exception&) {
    OpenErrorLog();  // main says what it was
    throw;
  }
  return 0;
}

}  // namespace tide::agent
