#include "bench/daemons/program.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/check.h"
#include "common/base/file.h"

namespace tide::bench {
namespace {

const std::string kHost = "127.0.0.1:";

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

Fd TcpSocket() {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  TIDE_CHECK(fd.valid(), "a socket can be had");
  return fd;
}

}  // namespace

std::string ProgramBeside(const std::string& name) {
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const auto& folder : {here, here.parent_path() / "bin"}) {
    if (std::filesystem::exists(folder / name)) {
      return folder / name;
    }
  }
  TIDE_CHECK(false, "the programs lie beside tide-bench; build the target `programs`");
  return "";
}

pid_t Spawn(std::vector<std::string> arguments, const std::string& log_file, int death_signal) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  const int log =
      ::open(log_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  TIDE_CHECK(log >= 0, "a child's log can be made");
  // Between fork and exec only what is safe in a process with threads.
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, death_signal);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    ::execv(argv.front(), argv.data());
    ::_exit(127);
  }
  ::close(log);
  TIDE_CHECK(pid > 0, "a child can be started");
  return pid;
}

std::string FreeAddress() {
  const Fd fd = TcpSocket();
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  TIDE_CHECK(::bind(fd.get(), generic, size) == 0 && ::getsockname(fd.get(), generic, &size) == 0,
             "loopback has a free port");
  return kHost + std::to_string(ntohs(address.sin_port));
}

bool Accepts(const std::string& address) {
  const Fd fd = TcpSocket();
  const sockaddr_in to = Loopback(std::stoi(address.substr(kHost.size())));
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
}

void WaitUntilListening(pid_t child, const std::string& address) {
  constexpr timespec kPause{0, 2'000'000};
  while (!Accepts(address)) {
    TIDE_CHECK(::waitpid(child, nullptr, WNOHANG) == 0, "the child lives");
    ::nanosleep(&kPause, nullptr);
  }
}

}  // namespace tide::bench
