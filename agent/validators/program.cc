#include "agent/validators/program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

extern char** environ;

namespace tide::validators {
namespace {

// posix_spawn's two objects, released on every path.
class SpawnPlan {
 public:
  SpawnPlan() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  // Own process group, default signals, standard output into `output`, no other descriptor but
  // `inherited`.
  void Prepare(int output, Errors errors, int inherited) {
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    if (errors == Errors::kCollected) {
      ::posix_spawn_file_actions_adddup2(&actions_, output, STDERR_FILENO);
    } else {
      ::posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    }
    constexpr int kInherited = STDERR_FILENO + 1;
    if (inherited >= 0) {
      ::posix_spawn_file_actions_adddup2(&actions_, inherited, kInherited);
    }
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, kInherited + (inherited >= 0 ? 1 : 0));
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }

  [[nodiscard]] int Spawn(pid_t& pid,
                          const std::string& path,
                          std::vector<std::string> args) const {
    std::string name = path;
    std::vector<char*> argv{name.data()};
    for (std::string& arg : args) {
      argv.push_back(arg.data());
    }
    argv.push_back(nullptr);
    return ::posix_spawn(&pid, path.c_str(), &actions_, &attributes_, argv.data(), environ);
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

}  // namespace

Result<ChildResult> RunProgram(const std::string& path,
                               const std::vector<std::string>& args,
                               Errors errors,
                               Duration timeout,
                               const StopSignal* stop,
                               int inherited) {
  TIDE_ASSIGN(Pipe output, MakePipe());
  SpawnPlan plan;
  plan.Prepare(output.write_end.get(), errors, inherited);
  pid_t pid = -1;
  const int error = plan.Spawn(pid, path, args);
  if (error == ENOENT) {
    return Fail(ErrorCode::kNotFound, path + " is not there");
  }
  if (error != 0) {
    return FailErrno("cannot run " + path, error);
  }
  output.write_end.Close();
  return CollectChild(pid,
                      std::move(output.read_end),
                      timeout,
                      KillScope::kGroup,
                      stop == nullptr ? -1 : stop->fd());
}

}  // namespace tide::validators
