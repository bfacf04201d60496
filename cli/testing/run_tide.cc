#include "cli/testing/run_tide.h"

#include <fcntl.h>
#include <pty.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "common/base/check.h"

namespace tide::cli::testing {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

// A file in memory is read from its start; a terminal until its last writer is gone.
std::string ReadAll(int fd, bool terminal) {
  if (!terminal) {
    ::lseek(fd, 0, SEEK_SET);
  }
  std::string text;
  std::array<char, 4096> piece{};
  ssize_t got = 0;
  while ((got = ::read(fd, piece.data(), piece.size())) > 0) {
    text.append(piece.data(), static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

TideProcess::TideProcess(const std::vector<std::string>& args, const RunOptions& options)
    : err_(::memfd_create("err", MFD_CLOEXEC)),
      terminal_(options.columns > 0),
      keeps_out_(options.stdout_path.empty()) {
  const int input = ::memfd_create("in", MFD_CLOEXEC);
  TIDE_CHECK(::write(input, options.input.data(), options.input.size()) ==
                 static_cast<ssize_t>(options.input.size()),
             "standard input is written");
  ::lseek(input, 0, SEEK_SET);
  int child_out = -1;
  if (terminal_) {
    winsize size{};
    size.ws_col = options.columns;
    size.ws_row = 24;
    TIDE_CHECK(::openpty(&out_, &child_out, nullptr, nullptr, &size) == 0, "a terminal opens");
    ::fcntl(out_, F_SETFD, FD_CLOEXEC);
    ::fcntl(child_out, F_SETFD, FD_CLOEXEC);
  } else {
    out_ = options.stdout_path.empty() ? ::memfd_create("out", MFD_CLOEXEC)
                                       : ::open(options.stdout_path.c_str(), O_RDWR | O_CLOEXEC);
    TIDE_CHECK(out_ >= 0, "standard output opens");
    child_out = out_;
  }
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, child_out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(
      &actions, terminal_ && options.errors_there ? child_out : err_, STDERR_FILENO);
  posix_spawn_file_actions_addchdir_np(&actions, options.folder.c_str());
  std::vector<std::string> words = {"tide"};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<std::string> env = {"PATH=/usr/bin:/bin"};
  for (const auto& [key, value] : options.env) {
    env.push_back(key + "=" + value);
  }
  const int failed = ::posix_spawn(
      &pid_, TIDE_PROGRAM, &actions, nullptr, Pointers(words).data(), Pointers(env).data());
  TIDE_CHECK(failed == 0, "tide starts");
  posix_spawn_file_actions_destroy(&actions);
  ::close(input);
  if (terminal_) {
    ::close(child_out);
  }
}

TideProcess::~TideProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(out_);
  ::close(err_);
}

void TideProcess::Interrupt() const {
  ::kill(pid_, SIGINT);
}

RunOutcome TideProcess::Wait() {
  RunOutcome outcome;
  if (terminal_) {
    outcome.out = ReadAll(out_, true);
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  if (!terminal_ && keeps_out_) {
    outcome.out = ReadAll(out_, false);
  }
  outcome.err = ReadAll(err_, false);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

RunOptions Using(const FakeServer& server) {
  return {.env = {{"TIDE_SERVER", server.url()}, {"TIDE_TOKEN", "tide_secret"}}};
}

RunOutcome RunTide(const std::vector<std::string>& args, const RunOptions& options) {
  return TideProcess(args, options).Wait();
}

}  // namespace tide::cli::testing
