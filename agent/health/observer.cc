#include "agent/health/observer.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

extern char** environ;

namespace tide::health {
namespace {

constexpr int kDeathMillis = 1000;
constexpr size_t kTextMax = size_t{1} << 20U;  // of lines that are not whole yet

// Starts `argv` with pipes as standard input and output, default signals, no other descriptor.
Result<pid_t> Spawn(std::vector<std::string> words, int input, int output) {
  posix_spawn_file_actions_t actions{};
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  posix_spawnattr_t attributes{};
  ::posix_spawnattr_init(&attributes);
  sigset_t none{};
  sigset_t all{};
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int error =
      ::posix_spawn(&pid, words.front().c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return FailErrno("cannot run " + words.front(), error);
  }
  return pid;
}

}  // namespace

Observer::~Observer() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    not_reaped_.push_back(pid_);
  }
  Reap();
}

std::vector<std::string> Observer::Command() const {
  std::vector<std::string> words = {options_.program,
                                    "--sysfs-root",
                                    options_.sysfs_root,
                                    "--proc-root",
                                    options_.proc_root,
                                    "--interval-ms",
                                    std::to_string(options_.interval.millis())};
  if (!options_.ports) {
    words.emplace_back("--no-ports");
  }
  if (options_.gpus) {
    words.insert(words.end(), {"--gpus", "--nvml", options_.nvml});
  }
  return words;
}

Status Observer::Start(int64_t now_ns) {
  TIDE_ASSIGN(Pipe input, MakePipe());
  TIDE_ASSIGN(Pipe output, MakePipe());
  ::fcntl(output.read_end.get(), F_SETFL, O_NONBLOCK);
  TIDE_ASSIGN(pid_, Spawn(Command(), input.read_end.get(), output.write_end.get()));
  input_ = std::move(input.write_end);
  output_ = std::move(output.read_end);
  text_.clear();
  heard_ns_ = now_ns;
  return {};
}

void Observer::Drop(int64_t now_ns) {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    not_reaped_.push_back(pid_);
    pid_ = -1;
  }
  input_.Close();
  output_.Close();
  start_ns_ = now_ns + options_.restart_after.nanos();
}

void Observer::End(int64_t now_ns) {
  const Fd process(pid_ > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)) : -1);
  Drop(now_ns);
  if (process.valid()) {
    pollfd dead{process.get(), POLLIN, 0};
    ::poll(&dead, 1, kDeathMillis);
  }
  Reap();
}

void Observer::Reap() {
  std::erase_if(not_reaped_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
}

std::string Observer::Tend(int64_t now_ns) {
  Reap();
  if (pid_ > 0) {
    if (now_ns - heard_ns_ <= options_.silence_max.nanos()) {
      return "";
    }
    Drop(now_ns);
    return "reading the hardware's state takes longer than " +
           FormatDuration(options_.silence_max) + ": a driver may hang";
  }
  // One that hangs in the kernel may hold what the next would wait for, too.
  if (now_ns < start_ns_ || !not_reaped_.empty()) {
    return "";
  }
  if (const Status started = Start(now_ns); !started) {
    Drop(now_ns);
    return started.error().message;
  }
  return "";
}

Result<std::optional<HardwareSample>> Observer::Read(int64_t now_ns) {
  std::array<char, 16384> part{};
  while (pid_ > 0) {
    const ssize_t n = ::read(output_.get(), part.data(), part.size());
    if (n > 0) {
      text_.append(part.data(), static_cast<size_t>(n));
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (n < 0 && errno == EAGAIN) {
      break;
    } else {
      Drop(now_ns);
      return Fail(ErrorCode::kUnavailable, options_.program + " has ended");
    }
    if (text_.size() > kTextMax) {
      Drop(now_ns);
      return Fail(ErrorCode::kCorrupt, options_.program + " writes lines that are too long");
    }
  }
  const size_t end = text_.rfind('\n');
  if (end == std::string::npos) {
    return std::nullopt;
  }
  const size_t before = end == 0 ? std::string::npos : text_.rfind('\n', end - 1);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  auto sample = DecodeHardware(std::string_view(text_).substr(begin, end - begin));
  text_.erase(0, end + 1);
  if (!sample) {
    Drop(now_ns);
    return std::unexpected(sample.error());
  }
  heard_ns_ = now_ns;
  return std::optional(std::move(*sample));
}

}  // namespace tide::health
