#include "cli/dev/workspace.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "cli/environment.h"
#include "cli/profile.h"
#include "common/base/time.h"
#include "common/digest/sha256.h"
#include "common/people/directory.h"

namespace tide::cli {
namespace {

constexpr const char* kVersion = "tide dev 1";
// The longest socket in the folder: that of the last agent of 64.
constexpr std::string_view kLongestSocket = "/agent-a-n32.sock";

// A user's name as Tide has them, whatever the environment says.
std::string UserWord(std::string name) {
  for (char& c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("._@-").find(c) != std::string_view::npos;
    c = plain ? c : '_';
  }
  return CheckUserName(name) ? name : "dev";
}

// A free port is found out by trying; the API server still has the last word.
Status CheckPortFree(int port) {
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int yes = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const void* generic = &address;
  if (::bind(fd.get(), static_cast<const sockaddr*>(generic), sizeof address) != 0) {
    return Fail(
        ErrorCode::kUnavailable,
        "port " + std::to_string(port) + " on 127.0.0.1 is in use; choose another with --port");
  }
  return {};
}

Status CheckSocketsFit(const std::string& root) {
  constexpr size_t kPathMax = sizeof(sockaddr_un::sun_path) - 1;
  if (root.size() + kLongestSocket.size() <= kPathMax) {
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument,
              root + " has " + std::to_string(root.size()) + " bytes; a socket in it allows " +
                  std::to_string(kPathMax - kLongestSocket.size()) + "; choose a shorter --state");
}

// A folder that only we may write, that no other user put there for us.
//   way_out: what to do where it is not, as the end of a sentence.
Status MakeOwnFolder(const std::string& path, unsigned mode, const std::string& way_out) {
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) {
    return FailErrno("cannot create " + path + "; " + way_out, errno);
  }
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != ::geteuid() ||
      (info.st_mode & 022U) != 0) {
    return Fail(ErrorCode::kConflict, path + " is not a folder of ours alone; " + way_out);
  }
  return {};
}

// The profile holds an administrator's token.
Status MakeProfileFolder() {
  const auto folder = std::filesystem::absolute(DevProfilePath()).parent_path().string();
  if (!Env("TIDE_DEV_PROFILE").empty()) {
    return MakeDirs(folder);  // where it was asked for
  }
  return MakeOwnFolder(folder, 0700, "name another profile with TIDE_DEV_PROFILE");
}

// Runs a program until it ends.   log: takes its words; "" = ours do.
bool Succeeds(std::vector<std::string> argv, const std::string& log) {
  std::vector<char*> words;
  for (std::string& word : argv) {
    words.push_back(word.data());
  }
  words.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int fd = log.empty() ? -1 : ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd >= 0) {
      ::dup2(fd, STDOUT_FILENO);
      ::dup2(fd, STDERR_FILENO);
    }
    ::execv(words.front(), words.data());
    ::_exit(127);
  }
  int status = 0;
  return pid > 0 && ::waitpid(pid, &status, 0) == pid && status == 0;
}

std::string FirstExisting(const std::vector<std::string>& candidates) {
  for (const std::string& path : candidates) {
    if (::access(path.c_str(), R_OK) == 0) {
      return std::filesystem::weakly_canonical(path).string();
    }
  }
  return "";
}

#ifdef TIDE_SANITIZED
constexpr bool kPythonLoadsIt = false;  // a sanitized library wants to be the first one
#else
constexpr bool kPythonLoadsIt = true;
#endif

// The native core, where the package in `python` looks for it. Without it jobs save in Python.
std::error_code CopyNativeCore(const std::string& bin, const std::string& python) {
  namespace fs = std::filesystem;
  std::error_code error;
  const std::string folder = python + "/tide/_native";
  for (const char* name : {"libtide.so", "tide-saver"}) {
    if (kPythonLoadsIt && !error && fs::exists(bin + "/" + name)) {
      fs::create_directories(folder, error);
      // Under another name first: a task that runs on from before uses the old one.
      const std::string fresh = folder + "/" + name + ".new";
      fs::copy_file(bin + "/" + name, fresh, fs::copy_options::overwrite_existing, error);
      if (!error) {
        fs::rename(fresh, folder + "/" + name, error);
      }
    }
  }
  return error;
}

// Where jobs may name paths: the examples, where `tide dev` was started, its person's home, and
// what was asked for. Started in "/" they would have all of the machine, which nobody meant.
std::vector<std::string> MountRoots(const DevOptions& options, const std::string& root) {
  std::vector<std::string> roots = {root + "/work"};
  std::error_code error;
  for (const std::string& folder :
       {std::filesystem::current_path(error).string(), Env("HOME"), PersonOfJobs().home}) {
    if (folder.starts_with('/') && folder != "/") {
      roots.push_back(folder);
    }
  }
  for (const std::string& folder : options.mount_roots) {
    roots.push_back(std::filesystem::absolute(folder, error).string());
  }
  return roots;
}

}  // namespace

Person PersonOfJobs() {
  constexpr uint32_t kLeastUid = 1000;
  Person person;
  const auto uid = static_cast<uint32_t>(std::strtoul(Env("SUDO_UID").c_str(), nullptr, 10));
  const passwd* entry =
      // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread yet
      ::geteuid() == 0 && uid >= kLeastUid ? ::getpwuid(uid) : nullptr;
  if (entry != nullptr) {
    person = {uid, entry->pw_gid, entry->pw_dir};
  }
  return person;
}

Result<Workspace> Workspace::Open(const DevOptions& options) {
  Workspace workspace;
  workspace.temporary_ = options.state_dir.empty();
  workspace.root_ = workspace.temporary_ ? "/tmp/tide-dev-" + std::to_string(::geteuid())
                                         : std::filesystem::absolute(options.state_dir).string();
  workspace.port_ = options.port;
  workspace.runtime_ = options.runtime;
  workspace.agent_flags_ = options.agent_flags;
  // Nodes of one machine declare GPUs that are not there.
  if (std::ranges::none_of(options.agent_flags, [](const std::string& flag) {
        return flag.starts_with("--gpu-check");
      })) {
    workspace.agent_flags_.emplace_back("--gpu-check=off");
  }
  workspace.scheduler_flags_ = options.scheduler_flags;
  workspace.api_flags_ = options.api_flags;
  workspace.schedulers_ = options.schedulers;
  workspace.mount_roots_ = MountRoots(options, workspace.root_);
  workspace.bin_ = std::filesystem::canonical("/proc/self/exe").parent_path().string();
  // Beside the programs when installed, above them in a build tree.
  workspace.sdk_ =
      FirstExisting({workspace.bin_ + "/../share/tide/sdk", workspace.bin_ + "/../../../sdk"});
  workspace.web_ =
      FirstExisting({workspace.bin_ + "/../share/tide/web", workspace.bin_ + "/../../../web/dist"});
  if (workspace.sdk_.empty()) {
    return Fail(ErrorCode::kNotFound, "Tide's SDK is not beside the programs in " + workspace.bin_);
  }
  TIDE_TRY(CheckSocketsFit(workspace.root_));
  TIDE_TRY(MakeOwnFolder(workspace.root_, 0711, "choose another folder with --state"));
  TIDE_TRY(MakeProfileFolder());
  TIDE_TRY(workspace.Lock());
  TIDE_TRY(workspace.CheckVersion());
  TIDE_TRY(CheckPortFree(options.port));
  TIDE_TRY(workspace.Prepare(options));
  return workspace;
}

Status Workspace::Lock() {
  const std::string path = root_ + "/lock";
  lock_ = Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock_.valid()) {
    return FailErrno("cannot open " + path, errno);
  }
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    const auto pid = ReadFile(path, 64);
    return Fail(ErrorCode::kConflict,
                "another tide dev" + (pid && !pid->empty() ? " (pid " + *pid + ")" : "") +
                    " uses " + root_ + "; end it, or choose another folder with --state");
  }
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(lock_.get(), 0) != 0) {
    return FailErrno("cannot write " + path, errno);
  }
  return WriteAll(lock_.get(), pid);
}

Status Workspace::CheckVersion() {
  const std::string path = root_ + "/version";
  const auto version = ReadFile(path, 256);
  if (version && *version != kVersion) {
    return Fail(ErrorCode::kConflict,
                root_ + " holds the state of \"" + *version + "\", this is \"" + kVersion +
                    "\"; remove that folder or choose another with --state");
  }
  if (!version && ::access((root_ + "/scheduler").c_str(), F_OK) == 0) {
    return Fail(ErrorCode::kConflict,
                root_ + " is no folder of tide dev; choose another with --state");
  }
  if (version && temporary_) {
    TIDE_TRY(CleanLeftovers());
    for (const auto& entry : std::filesystem::directory_iterator(root_)) {
      if (entry.path().filename() != "lock") {
        std::error_code ignored;
        std::filesystem::remove_all(entry.path(), ignored);
      }
    }
  }
  resumed_ = version.has_value() && !temporary_;
  return WriteFileDurably(path, kVersion);
}

// What a killed `tide dev` left running: each agent's folder knows its tasks.
Status Workspace::CleanLeftovers() const {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root_, error)) {
    if (!entry.path().filename().string().starts_with("agent-") || !entry.is_directory(error)) {
      continue;
    }
    const std::string folder = entry.path().string();
    if (!Succeeds({bin_ + "/tide-agent", "--clean", folder}, "")) {
      return Fail(ErrorCode::kSystem,
                  "cannot end what is left running in " + folder + "; start tide dev again");
    }
  }
  return {};
}

// Jobs do not run as root and may not enter the folder that Tide lies in: they get copies.
Status Workspace::CopyForJobs() const {
  namespace fs = std::filesystem;
  constexpr auto kReplace = fs::copy_options::overwrite_existing | fs::copy_options::recursive;
  std::error_code error;
  fs::create_directories(root_ + "/sdk", error);
  fs::copy(sdk_ + "/python", root_ + "/sdk/python", kReplace, error);
  if (!error && fs::exists(sdk_ + "/adapters")) {
    fs::copy(sdk_ + "/adapters", root_ + "/sdk/python", kReplace, error);
  }
  if (!error) {
    fs::copy(sdk_ + "/examples", root_ + "/work", kReplace, error);
  }
  if (!error) {
    error = CopyNativeCore(bin_, root_ + "/sdk/python");
  }
  if (error) {
    return Fail(ErrorCode::kSystem, "cannot copy the SDK to " + root_ + ": " + error.message());
  }
  for (const char* folder : {"/sdk", "/work"}) {
    ::chmod((root_ + folder).c_str(), 0755);
    for (const auto& entry : fs::recursive_directory_iterator(root_ + folder)) {
      const bool enters = entry.is_directory() || entry.path().filename() == "tide-saver";
      ::chmod(entry.path().c_str(), enters ? 0755 : 0644);
    }
  }
  return {};
}

Status Workspace::Prepare(const DevOptions& options) {
  TIDE_TRY(CopyForJobs());
  for (const char* folder : {"/logs", "/scheduler", "/kmsg"}) {
    TIDE_TRY(MakeDirs(root_ + folder));
  }
  for (int i = 0; i < options.nodes; ++i) {
    const bool first_half = i < (options.nodes + 1) / 2;
    const int number = first_half ? i + 1 : i - (options.nodes + 1) / 2 + 1;
    DevNode node;
    node.zone = first_half ? "A" : "B";
    const std::string prefix = first_half ? "a" : "b";
    node.leaf = prefix + "-l" + std::to_string((number - 1) / 16 + 1);
    node.name = prefix + "-n" + std::to_string(number);
    node.kmsg = root_ + "/kmsg/" + node.name;
    node.sysfs = root_ + "/sysfs/" + node.name;
    TIDE_TRY(MakeDirs(node.sysfs));
    const Fd touched(::open(node.kmsg.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    nodes_.push_back(node);
  }
  const auto kept = ReadFile(TokenFile(), 256);
  token_ = kept && ParseTokenText(*kept) ? *kept : MakeTokenText(1, RandomHex(kTokenSecretBytes));
  TIDE_TRY(WriteFileDurably(TokenFile(), token_));
  if (::access(SecretKeyFile().c_str(), F_OK) != 0) {
    TIDE_TRY(WriteFileDurably(SecretKeyFile(), RandomHex(32)));
  }
  TIDE_TRY(MakeStore());
  return LetTideFindIt();
}

// Before an agent was ever started here: then nothing depends on what a start that was cut short
// has left of the store. Later it is not to be made again, wherever it went: its agents would obey
// no scheduler of another cluster.
Status Workspace::MakeStore() const {
  for (const DevNode& node : nodes_) {
    if (::access((root_ + "/agent-" + node.name).c_str(), F_OK) == 0) {
      return {};
    }
  }
  for (const char* part : {"", "-wal", "-shm"}) {
    ::unlink((root_ + "/scheduler/tide.db" + part).c_str());
  }
  std::vector<std::string> argv = {bin_ + "/tide-scheduler", "--init"};
  const std::vector<std::string> store = StoreFlags();
  argv.insert(argv.end(), store.begin(), store.end());
  const std::string log = root_ + "/logs/scheduler.log";
  if (!Succeeds(std::move(argv), log)) {
    return Fail(ErrorCode::kSystem, "cannot make the store in " + root_ + "/scheduler; see " + log);
  }
  return {};
}

// Where the state lies, and whose the first token is.
std::vector<std::string> Workspace::StoreFlags() const {
  return {"--store",
          "sqlite:" + root_ + "/scheduler/tide.db",
          "--admin",
          UserWord(Env("USER")),
          "--admin-token-file",
          TokenFile()};
}

// Every `tide` of this user looks at one place. Where that belongs to a cluster that still runs,
// this one has a profile in its own folder.
Status Workspace::LetTideFindIt() {
  TIDE_ASSIGN(profile_, ProfileClaim::Take(DevProfilePath(), server(), token_));
  if (profile_.ours()) {
    return {};
  }
  return WriteFileDurably(profile_path(), "server: " + server() + "\ntoken: " + token_ + "\n");
}

std::string Workspace::TokenFile() const {
  return root_ + "/token";
}

std::string Workspace::SecretKeyFile() const {
  return root_ + "/secret-key";
}

std::string Workspace::SchedulerSocket(int number) const {
  return "unix:" + root_ + "/scheduler" + (number == 1 ? "" : "-" + std::to_string(number)) +
         ".sock";
}

// Another `tide dev` on this machine, with another --port, has other ports for its jobs.
ChildSpec Workspace::AgentOf(size_t index, const std::string& schedulers) const {
  constexpr int kFirstPort = 20000;
  constexpr int kRanges = 500;
  constexpr int kPortsInRange = 20;
  const int range = port_ * static_cast<int>(nodes_.size()) + static_cast<int>(index);
  const int port = kFirstPort + kPortsInRange * (range % kRanges);
  const DevNode& node = nodes_[index];
  ChildSpec agent{"agent " + node.name,
                  {bin_ + "/tide-agent",
                   "--scheduler",
                   schedulers,
                   "--name",
                   node.name,
                   "--zone",
                   node.zone,
                   "--leaf",
                   node.leaf,
                   "--state",
                   root_ + "/agent-" + node.name,
                   "--listen",
                   "unix:" + root_ + "/agent-" + node.name + ".sock",
                   "--ports",
                   std::to_string(port) + "-" + std::to_string(port + kPortsInRange - 1),
                   "--checkpoint-root",
                   root_ + "/checkpoints",
                   "--run-root",
                   RunRoot(),
                   "--sdk-dir",
                   root_ + "/sdk",
                   "--kmsg",
                   node.kmsg,
                   "--sysfs-root",
                   node.sysfs,
                   "--runtime",
                   runtime_,
                   "--env",
                   "GLOO_SOCKET_IFNAME=lo",
                   "--masked-path",
                   root_,
                   "--stop-tasks-on-exit"},
                  root_ + "/logs/agent-" + node.name + ".log"};
  if (::geteuid() == 0) {
    const Person person = PersonOfJobs();
    agent.argv.insert(
        agent.argv.end(),
        {"--job-user", std::to_string(person.uid) + ":" + std::to_string(person.gid)});
  }
  for (const std::string& root : mount_roots_) {
    agent.argv.insert(agent.argv.end(), {"--mount-root", root});
  }
  agent.argv.insert(agent.argv.end(), agent_flags_.begin(), agent_flags_.end());
  return agent;
}

std::vector<ChildSpec> Workspace::Daemons() const {
  std::string scheduler;  // all of them
  std::vector<ChildSpec> daemons;
  for (int number = 1; number <= schedulers_; ++number) {
    const std::string suffix = number == 1 ? "" : "-" + std::to_string(number);
    ChildSpec daemon{"scheduler" + suffix,
                     {bin_ + "/tide-scheduler",
                      "--listen",
                      SchedulerSocket(number),
                      "--secret-key-file",
                      SecretKeyFile(),
                      "--isolation-timeout-ms",
                      "30000"},
                     root_ + "/logs/scheduler" + suffix + ".log"};
    const std::vector<std::string> store = StoreFlags();
    daemon.argv.insert(daemon.argv.end(), store.begin(), store.end());
    daemon.argv.insert(daemon.argv.end(), scheduler_flags_.begin(), scheduler_flags_.end());
    if (schedulers_ > 1) {
      daemon.argv.emplace_back("--standby");
    }
    daemons.push_back(std::move(daemon));
    scheduler += (number == 1 ? "" : ",") + SchedulerSocket(number);
  }
  for (size_t index = 0; index < nodes_.size(); ++index) {
    daemons.push_back(AgentOf(index, scheduler));
  }
  ChildSpec api{"api",
                {bin_ + "/tide-api",
                 "--scheduler",
                 scheduler,
                 "--listen",
                 "127.0.0.1:" + std::to_string(port_),
                 "--audit-log",
                 root_ + "/audit.log"},
                root_ + "/logs/api.log"};
  if (!web_.empty()) {
    api.argv.insert(api.argv.end(), {"--web-dir", web_});
  }
  api.argv.insert(api.argv.end(), api_flags_.begin(), api_flags_.end());
  daemons.push_back(std::move(api));
  return daemons;
}

// Pages and sockets of tasks, on tmpfs: a folder of its own for each state folder.
std::string Workspace::RunRoot() const {
  return "/dev/shm/tide-" + std::to_string(::geteuid()) + "-" + Sha256Hex(root_).substr(0, 8);
}

Status Workspace::Discard(bool clean) {
  if (!profile_.ours()) {
    ::unlink(profile_path().c_str());
  }
  profile_.Release();
  if (!clean) {
    TIDE_TRY(CleanLeftovers());
  }
  std::error_code ignored;
  std::filesystem::remove_all(RunRoot(), ignored);
  if (temporary_) {
    std::filesystem::remove_all(root_, ignored);
  }
  return {};
}

}  // namespace tide::cli
