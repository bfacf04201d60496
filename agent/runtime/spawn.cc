#include "agent/runtime/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "agent/runtime/task_folder.h"
#include "common/base/file.h"
#include "common/base/time.h"

namespace tide::agent {
namespace {

// Less than the silence after which a node counts as lost: its agent waits here.
constexpr Duration kStartTimeout = Duration::Seconds(6);

// Reads what is written to `fd` until its end or kSupervisorReady. False when neither comes in
// time.
bool ReadAnswer(int fd, std::string& text) {
  const int64_t deadline = MonotonicNanos() + kStartTimeout.nanos();
  std::array<char, 1024> part{};
  while (text != kSupervisorReady) {
    const int64_t left = deadline - MonotonicNanos();
    pollfd wanted{fd, POLLIN, 0};
    if (left <= 0 || ::poll(&wanted, 1, static_cast<int>(left / 1'000'000 + 1)) == 0) {
      return false;
    }
    const ssize_t n = ::read(fd, part.data(), part.size());
    if (n == 0) {
      return true;
    }
    text.append(part.data(), n > 0 ? static_cast<size_t>(n) : 0);
  }
  return true;
}

// posix_spawn, as a fork would copy locks other threads hold.
Result<pid_t> Spawn(const std::string& init_path,
                    const std::string& folder,
                    const std::string& tag,
                    int answer) {
  posix_spawn_file_actions_t actions{};
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, answer, 2);
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
  std::string program = init_path;
  std::string mode = "supervise";
  std::string where = folder;
  std::array<char*, 4> argv{program.data(), mode.data(), where.data(), nullptr};
  std::string path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  std::string mark = std::string(kTagVariable) + "=" + tag;
  std::array<char*, 3> envp{path.data(), mark.data(), nullptr};
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, program.c_str(), &actions, &attributes, argv.data(), envp.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return FailErrno("cannot run " + init_path, error);
  }
  return pid;
}

}  // namespace

Result<pid_t> SpawnSupervisor(const std::string& init_path,
                              const std::string& folder,
                              const std::string& tag) {
  TIDE_ASSIGN(Pipe answer, MakePipe());
  TIDE_ASSIGN(const pid_t pid, Spawn(init_path, folder, tag, answer.write_end.get()));
  answer.write_end.Close();
  std::string text;
  const bool in_time = ReadAnswer(answer.read_end.get(), text);
  if (text == kSupervisorReady) {
    return pid;
  }
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) {
    return Fail(ErrorCode::kDeadlineExceeded, "its supervisor did not start within 6 s");
  }
  return Fail(ErrorCode::kSystem,
              "its supervisor did not start: " +
                  (text.empty() ? "it ended" : text.substr(0, text.find_last_not_of('\n') + 1)));
}

}  // namespace tide::agent
