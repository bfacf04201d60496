#include "scheduler/store/testing/private_postgres.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "common/base/check.h"
#include "common/base/file.h"
#include "scheduler/store/postgres_database.h"

namespace tide::testing {
namespace {

constexpr int kPatienceMs = 60'000;
constexpr int kPauseMs = 5;

// Their folder, "" = not installed. Debian keeps the server's programs out of PATH.
std::string FindPrograms() {
  std::vector<std::string> folders;
  std::error_code none;
  for (const auto& version : std::filesystem::directory_iterator("/usr/lib/postgresql", none)) {
    folders.push_back(version.path() / "bin");
  }
  std::ranges::sort(folders, std::greater());
  std::istringstream path(::getenv("PATH") == nullptr ? "" : ::getenv("PATH"));
  for (std::string folder; std::getline(path, folder, ':');) {
    folders.push_back(folder);
  }
  for (const std::string& folder : folders) {
    if (::access((folder + "/initdb").c_str(), X_OK) == 0) {
      return folder;
    }
  }
  return "";
}

void Pause() {
  constexpr timespec kPause{0, kPauseMs * 1'000'000};
  ::nanosleep(&kPause, nullptr);
}

bool IsReady(const std::filesystem::path& data) {
  const auto text = ReadFile(data / "postmaster.pid", 4096);
  return text && text->find("ready") != std::string::npos;
}

// The process and those that it has forked.
std::vector<pid_t> Family(pid_t parent) {
  std::vector<pid_t> pids = {parent};
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    const auto stat = ReadFile(entry.path() / "stat", 4096);
    if (name.find_first_not_of("0123456789") != std::string::npos || !stat) {
      continue;
    }
    std::istringstream fields(stat->substr(stat->rfind(')') + 1));
    std::string state;
    pid_t its_parent = 0;
    fields >> state >> its_parent;
    if (its_parent == parent) {
      pids.push_back(static_cast<pid_t>(std::stol(name)));
    }
  }
  return pids;
}

}  // namespace

bool PrivatePostgres::IsInstalled() {
  return !FindPrograms().empty();
}

PrivatePostgres::PrivatePostgres(const Options& options)
    : programs_(FindPrograms()), settings_(options.settings) {
  if (programs_.empty()) {
    std::fprintf(stderr, "PostgreSQL is not installed: run scripts/setup, which installs it\n");
    TIDE_CHECK(false, "the tests of the store have a PostgreSQL server");
  }
  MakeFolder();
  settings_.insert(settings_.begin(),
                   {"listen_addresses=",
                    "max_connections=40",
                    "shared_buffers=32MB",
                    "autovacuum=off",
                    "log_timezone=UTC"});
  if (!options.durable) {
    settings_.insert(settings_.begin(), {"fsync=off", "full_page_writes=off"});
  }
  RunProgram({programs_ + "/initdb",
              "-D",
              folder_ / "data",
              "-U",
              "tide",
              "-A",
              "trust",
              "-E",
              "UTF8",
              "--locale=C",
              "--no-sync"});
  // Who is not "tide": some need a password, one is refused.
  std::ofstream(folder_ / "data" / "pg_hba.conf")
      << "local all needs_password scram-sha-256\nlocal all refused reject\nlocal all all trust\n"
      << "local replication all trust\n";
  Start();
}

void PrivatePostgres::MakeFolder() {
  // A short name: paths of sockets have at most 107 characters.
  std::string pattern = std::filesystem::temp_directory_path() / "tide-pg-XXXXXX";
  TIDE_CHECK(::mkdtemp(pattern.data()) != nullptr, "a test has a temporary folder");
  folder_ = pattern;
  if (::geteuid() == 0) {  // which PostgreSQL refuses to be run by
    const passwd* user = ::getpwnam("postgres");
    user = user == nullptr ? ::getpwnam("nobody") : user;
    TIDE_CHECK(user != nullptr, "there is a user postgres or nobody");
    uid_ = user->pw_uid;
    gid_ = user->pw_gid;
    Give(folder_);
  }
}

std::unique_ptr<PrivatePostgres> PrivatePostgres::MakeStandby() const {
  std::unique_ptr<PrivatePostgres> standby(new PrivatePostgres());
  standby->programs_ = programs_;
  standby->settings_ = settings_;
  standby->MakeFolder();
  standby->RunProgram({programs_ + "/pg_basebackup",
                       "-D",
                       standby->folder_ / "data",
                       "-d",
                       "host=" + folder_.string() + " user=tide",
                       "-R",
                       "--no-sync",
                       "-c",
                       "fast"});
  standby->Start();
  return standby;
}

void PrivatePostgres::RunProgram(std::vector<std::string> arguments) const {
  const pid_t pid = Spawn(std::move(arguments));
  int status = 0;
  TIDE_CHECK(::waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0,
             "a program of PostgreSQL does its work; its words are in the folder's log");
}

PrivatePostgres::~PrivatePostgres() {
  if (pid_ > 0) {
    Kill();
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

PrivatePostgres& PrivatePostgres::Shared() {
  static PrivatePostgres server{Options{}};
  return server;
}

std::string PrivatePostgres::Address(const std::string& database, const std::string& user) const {
  return "postgresql:host=" + folder_.string() + " dbname=" + database + " user=" + user;
}

std::string PrivatePostgres::NewDatabase() {
  const std::string name = "t" + std::to_string(++databases_);
  Run("postgres", "CREATE DATABASE " + name);
  return name;
}

void PrivatePostgres::Run(const std::string& database, const std::string& sql) const {
  auto opened = OpenPostgres(Address(database));
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().message.c_str());
  }
  TIDE_CHECK(opened.has_value(), "the private server answers");
  const Status done = (*opened)->RunScript(sql);
  if (!done) {
    std::fprintf(stderr, "%s\n", done.error().message.c_str());
  }
  TIDE_CHECK(done.has_value(), "the private server does what a test asks for");
}

void PrivatePostgres::Start() {
  std::vector<std::string> arguments = {programs_ + "/postgres", "-D", folder_ / "data"};
  for (const std::string& setting : settings_) {
    arguments.insert(arguments.end(), {"-c", setting});
  }
  arguments.insert(arguments.end(), {"-c", "unix_socket_directories=" + folder_.string()});
  pid_ = Spawn(std::move(arguments));
  for (int waited = 0; !IsReady(folder_ / "data"); waited += kPauseMs) {
    TIDE_CHECK(waited < kPatienceMs && ::waitpid(pid_, nullptr, WNOHANG) == 0,
               "the private server starts; its words are in the folder's log");
    Pause();
  }
}

void PrivatePostgres::Kill() {
  ::kill(pid_, SIGQUIT);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
  std::error_code ignored;
  std::filesystem::remove(folder_ / "data" / "postmaster.pid", ignored);
}

void PrivatePostgres::Freeze() const {
  SignalAll(SIGSTOP);
}

void PrivatePostgres::Thaw() const {
  SignalAll(SIGCONT);
}

void PrivatePostgres::SignalAll(int signal) const {
  for (const pid_t pid : Family(pid_)) {
    ::kill(pid, signal);
  }
}

void PrivatePostgres::Give(const std::filesystem::path& folder) const {
  if (::geteuid() == 0) {
    TIDE_CHECK(::chown(folder.c_str(), uid_, gid_) == 0, "root gives a folder away");
  }
}

// Between fork and exec only what is safe in a process with threads.
pid_t PrivatePostgres::Spawn(std::vector<std::string> arguments) const {
  std::vector<char*> argv;
  for (std::string& argument : arguments) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  const std::string log = folder_ / "log";
  const std::string home = folder_;
  const pid_t pid = ::fork();
  TIDE_CHECK(pid >= 0, "a process can be started");
  if (pid == 0) {
    const int null = ::open("/dev/null", O_RDONLY);
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::dup2(null, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    if (uid_ != 0 && (::setgroups(0, nullptr) != 0 || ::setgid(gid_) != 0 || ::setuid(uid_) != 0)) {
      ::_exit(126);
    }
    // After the change of user, which forgets it. Immediate shutdown: it takes its children along.
    ::prctl(PR_SET_PDEATHSIG, SIGQUIT);
    if (::chdir(home.c_str()) == 0) {
      ::execv(argv.front(), argv.data());
    }
    ::_exit(127);
  }
  return pid;
}

}  // namespace tide::testing
