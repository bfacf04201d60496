#include "bench/daemons/scheduler_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "bench/daemons/bench_cluster.h"
#include "bench/daemons/process_use.h"
#include "bench/daemons/program.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "proto/wire/convert.h"
#include "tide/v1/scheduler.grpc.pb.h"

namespace tide::bench {
namespace {

constexpr std::chrono::seconds kPatience(120);

void Pause() {
  constexpr timespec kPause{0, 2'000'000};
  ::nanosleep(&kPause, nullptr);
}

Error FromStatus(const grpc::Status& status, const grpc::ClientContext& context) {
  return rpc::FromGrpc(status, context);
}

}  // namespace

v1::Caller BenchCaller() {
  v1::Caller caller;
  caller.set_user("ada");
  caller.set_token(1);
  return caller;
}

SchedulerProcess::SchedulerProcess(const BenchStore& store, SchedulerOptions options)
    : address_(std::move(options.address)),
      log_file_(store.folder().File("scheduler-" + address_ + ".log")) {
  std::vector<std::string> arguments = {ProgramBeside("tide-scheduler"),
                                        "--listen",
                                        address_,
                                        "--store",
                                        store.address(),
                                        "--admin",
                                        BenchCaller().user(),
                                        "--admin-token-file",
                                        store.folder().File("admin-token")};
  std::ranges::move(SchedulerSecurityFlags(), std::back_inserter(arguments));
  if (options.standby) {
    arguments.emplace_back("--standby");
  }
  if (!options.policy.empty()) {
    const std::string file = store.folder().File("policy.yaml");
    TIDE_CHECK(WriteFileDurably(file, options.policy).has_value(), "the policy is written");
    arguments.insert(arguments.end(), {"--policy", file});
  }
  pid_ = Spawn(arguments, log_file_);
}

SchedulerProcess::~SchedulerProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
}

void SchedulerProcess::Kill() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void SchedulerProcess::WaitUntilListening() const {
  bench::WaitUntilListening(pid_, address_);
}

void SchedulerProcess::WaitUntilStandingBy() const {
  const auto stands_by = [&] {
    const auto log = ReadFile(log_file_, size_t{1} << 20);
    return log && log->find("Standing by") != std::string::npos;
  };
  while (!stands_by()) {
    TIDE_CHECK(::waitpid(pid_, nullptr, WNOHANG) == 0, "the standby lives");
    Pause();
  }
}

double SchedulerProcess::CpuSeconds() const {
  return bench::CpuSeconds(pid_);
}

int64_t SchedulerProcess::ResidentBytes() const {
  return bench::ResidentBytes(pid_);
}

struct SchedulerClient::Impl {
  Patience patience = Patience::kWaitForServer;
  std::unique_ptr<tide::v1::Scheduler::Stub> stub;

  void Prepare(grpc::ClientContext& context) const {
    ApiSecurity().Attach(context);
    context.set_wait_for_ready(patience == Patience::kWaitForServer);
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
  }
};

SchedulerClient::SchedulerClient(const std::string& address, Patience patience)
    : impl_(std::make_unique<Impl>()) {
  impl_->patience = patience;
  impl_->stub =
      tide::v1::Scheduler::NewStub(ApiSecurity().Connect(address, {rpc::Role::kScheduler, ""}));
}

SchedulerClient::~SchedulerClient() = default;

Result<uint64_t> SchedulerClient::Submit(const JobSpec& spec, const std::string& key) {
  grpc::ClientContext context;
  impl_->Prepare(context);
  tide::v1::SubmitJobRequest request;
  *request.mutable_spec() = wire::ToProto(spec);
  *request.mutable_caller() = BenchCaller();
  request.set_idempotency_key(key);
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
  *request.mutable_caller() = BenchCaller();
  tide::v1::MutationResponse response;
  if (const auto status = impl_->stub->ControlJob(&context, request, &response); !status.ok()) {
    return std::unexpected(FromStatus(status, context));
  }
  return {};
}

Result<std::unordered_map<uint64_t, tide::v1::Job>> SchedulerClient::Jobs() {
  grpc::ClientContext context;
  impl_->Prepare(context);
  const auto stream = impl_->stub->Watch(&context, tide::v1::WatchRequest());
  std::unordered_map<uint64_t, tide::v1::Job> jobs;
  tide::v1::ViewDelta part;
  do {
    if (!stream->Read(&part)) {
      return std::unexpected(FromStatus(stream->Finish(), context));
    }
    for (tide::v1::Job& job : *part.mutable_jobs()) {
      jobs[job.id()].Swap(&job);
    }
  } while (part.more());
  context.TryCancel();
  (void)stream->Finish();
  return jobs;
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
