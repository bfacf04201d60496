#include "bench/daemons/scheduler_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <vector>

#include "common/base/check.h"
#include "common/base/file.h"
#include "proto/wire/convert.h"
#include "tide/v1/scheduler.grpc.pb.h"

namespace tide::bench {
namespace {

constexpr long kTmpfsMagic = 0x01021994;
constexpr const char* kSecret = "a secret of the benchmark";
constexpr std::chrono::seconds kPatience(120);

// A port that nobody listens on; it may be taken until the scheduler asks for it, which then says
// so and ends.
int FreePort() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  TIDE_CHECK(fd >= 0 && ::bind(fd, generic, size) == 0 && ::getsockname(fd, generic, &size) == 0,
             "loopback has a free port");
  ::close(fd);
  return ntohs(address.sin_port);
}

bool Accepts(int port) {
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  TIDE_CHECK(fd.valid(), "a socket can be had");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

// Beside this program, or in bin/ where this is a test.
std::string SchedulerProgram() {
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const auto& folder : {here, here.parent_path() / "bin"}) {
    if (std::filesystem::exists(folder / "tide-scheduler")) {
      return folder / "tide-scheduler";
    }
  }
  TIDE_CHECK(false, "tide-scheduler lies beside tide-bench; build the target `programs`");
  return "";
}

// The child ends with this process, however that ends. Between fork and exec only what is safe in a
// process with threads.
pid_t Spawn(std::vector<std::string> arguments, const std::string& log_file) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  const int log = ::open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  TIDE_CHECK(log >= 0, "the scheduler's log can be made");
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    ::execv(argv.front(), argv.data());
    ::_exit(127);
  }
  ::close(log);
  TIDE_CHECK(pid > 0, "tide-scheduler can be started");
  return pid;
}

Error FromStatus(const grpc::Status& status, const grpc::ClientContext& context) {
  return rpc::FromGrpc(status, context);
}

}  // namespace

BenchFolder::BenchFolder() {
  const auto parent = std::filesystem::temp_directory_path();
  struct statfs info{};
  TIDE_CHECK(::statfs(parent.c_str(), &info) == 0 && info.f_type != kTmpfsMagic,
             "the folder for temporary files is on a disk; set TMPDIR to one");
  std::string pattern = parent / "tide-bench-XXXXXX";
  TIDE_CHECK(::mkdtemp(pattern.data()) != nullptr, "a benchmark has a temporary folder");
  path_ = pattern;
}

BenchFolder::~BenchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

SchedulerProcess::SchedulerProcess(const BenchFolder& folder, const std::string& store)
    : port_(FreePort()), address_("127.0.0.1:" + std::to_string(port_)), token_(kSecret) {
  const std::string token_file = folder.File("token");
  TIDE_CHECK(WriteFileDurably(token_file, kSecret, 0600).has_value(), "the token is written");
  const std::vector<std::string> arguments = {
      SchedulerProgram(),
      "--listen",
      address_,
      "--store",
      store.empty() ? "sqlite:" + folder.File("tide.db") : store,
      "--cluster-token-file",
      token_file};
  pid_ = Spawn(arguments, folder.File("scheduler.log"));
}

SchedulerProcess::~SchedulerProcess() {
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
}

void SchedulerProcess::WaitUntilListening() const {
  constexpr timespec kPause{0, 2'000'000};
  while (!Accepts(port_)) {
    TIDE_CHECK(::waitpid(pid_, nullptr, WNOHANG) == 0, "the scheduler lives");
    ::nanosleep(&kPause, nullptr);
  }
}

double SchedulerProcess::CpuSeconds() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
  std::string text;
  std::getline(file, text);
  // After "pid (name)": state is field 3; utime and stime are 14 and 15.
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int field = 3; field < 14; ++field) {
    fields >> skipped;
  }
  int64_t user = 0;
  int64_t system = 0;
  fields >> user >> system;
  TIDE_CHECK(!fields.fail(), "the scheduler lives");
  return static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

int64_t SchedulerProcess::ResidentBytes() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/statm");
  int64_t size = 0;
  int64_t resident = 0;
  file >> size >> resident;
  TIDE_CHECK(!file.fail(), "the scheduler lives");
  return resident * ::sysconf(_SC_PAGESIZE);
}

struct SchedulerClient::Impl {
  rpc::ClusterToken token;
  std::unique_ptr<tide::v1::Scheduler::Stub> stub;

  void Prepare(grpc::ClientContext& context) const {
    token.Attach(context);
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
  }
};

SchedulerClient::SchedulerClient(const SchedulerProcess& scheduler)
    : impl_(std::make_unique<Impl>()) {
  impl_->token = scheduler.token();
  impl_->stub = tide::v1::Scheduler::NewStub(rpc::Connect(scheduler.address()));
}

SchedulerClient::~SchedulerClient() = default;

Result<uint64_t> SchedulerClient::Submit(const JobSpec& spec) {
  grpc::ClientContext context;
  impl_->Prepare(context);
  tide::v1::SubmitJobRequest request;
  *request.mutable_spec() = wire::ToProto(spec);
  request.set_user("ada");
  tide::v1::SubmitJobResponse response;
  if (const auto status = impl_->stub->SubmitJob(&context, request, &response); !status.ok()) {
    return std::unexpected(FromStatus(status, context));
  }
  return response.job_id();
}

Status SchedulerClient::Cancel(uint64_t job) {
  grpc::ClientContext context;
  impl_->Prepare(context);
  tide::v1::ControlJobRequest request;
  request.set_job_id(job);
  request.set_verb(tide::v1::JOB_VERB_CANCEL);
  request.set_actor("ada");
  tide::v1::MutationResponse response;
  if (const auto status = impl_->stub->ControlJob(&context, request, &response); !status.ok()) {
    return std::unexpected(FromStatus(status, context));
  }
  return {};
}

Result<tide::v1::ViewDelta> SchedulerClient::Snapshot() {
  grpc::ClientContext context;
  impl_->Prepare(context);
  const auto stream = impl_->stub->Watch(&context, tide::v1::WatchRequest());
  tide::v1::ViewDelta first;
  if (!stream->Read(&first)) {
    return std::unexpected(FromStatus(stream->Finish(), context));
  }
  context.TryCancel();
  (void)stream->Finish();
  return first;
}

Status SchedulerClient::WaitForState(uint64_t job, tide::v1::JobState state) {
  grpc::ClientContext context;
  impl_->Prepare(context);
  const auto stream = impl_->stub->Watch(&context, tide::v1::WatchRequest());
  tide::v1::ViewDelta delta;
  while (stream->Read(&delta)) {
    for (const tide::v1::Job& each : delta.jobs()) {
      if (each.id() == job && each.state() == state) {
        context.TryCancel();
        (void)stream->Finish();
        return {};
      }
    }
  }
  return std::unexpected(FromStatus(stream->Finish(), context));
}

}  // namespace tide::bench
