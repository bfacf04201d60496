#include "bench/daemons/submit_load.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "bench/daemons/bench_cluster.h"
#include "bench/daemons/scheduler_process.h"
#include "common/base/check.h"
#include "common/base/time.h"
#include "proto/wire/convert.h"
#include "tide/v1/scheduler.grpc.pb.h"

namespace tide::bench {
namespace {

constexpr std::chrono::seconds kSubmitPatience(120);

// One submission after the other, each begun by gRPC's thread that has ended the one before.
class Submitter {
 public:
  Submitter(const std::string& address,
            const tide::v1::SubmitJobRequest& request,
            size_t jobs,
            std::shared_ptr<std::atomic<size_t>> busy)
      : stub_(tide::v1::Scheduler::NewStub(
            ApiSecurity().Connect(address, {rpc::Role::kScheduler, ""}))),
        request_(request),
        left_(jobs),
        busy_(std::move(busy)) {}

  void Submit() {
    if (left_ == 0) {
      const auto busy = busy_;  // this may be gone when the last one has ended
      if (--*busy == 0) {
        busy->notify_all();
      }
      return;
    }
    --left_;
    context_ = std::make_unique<grpc::ClientContext>();
    ApiSecurity().Attach(*context_);
    context_->set_wait_for_ready(true);
    context_->set_deadline(std::chrono::system_clock::now() + kSubmitPatience);
    asked_ = MonotonicNanos();
    stub_->async()->SubmitJob(
        context_.get(), &request_, &response_, [this](const grpc::Status& status) {
          TIDE_CHECK(status.ok(), "the scheduler accepts the job");
          samples_.Add(MonotonicNanos() - asked_);
          Submit();
        });
  }

  [[nodiscard]] const Samples& samples() const { return samples_; }

 private:
  const std::unique_ptr<tide::v1::Scheduler::Stub> stub_;
  const tide::v1::SubmitJobRequest request_;
  size_t left_;
  const std::shared_ptr<std::atomic<size_t>> busy_;
  std::unique_ptr<grpc::ClientContext> context_;
  tide::v1::SubmitJobResponse response_;
  int64_t asked_ = 0;
  Samples samples_;
};

}  // namespace

Samples SubmitFromMany(const std::string& address,
                       const JobSpec& spec,
                       size_t clients,
                       size_t each) {
  tide::v1::SubmitJobRequest request;
  *request.mutable_spec() = wire::ToProto(spec);
  *request.mutable_caller() = BenchCaller();
  const auto busy = std::make_shared<std::atomic<size_t>>(clients);
  std::vector<std::unique_ptr<Submitter>> all;
  for (size_t i = 0; i < clients; ++i) {
    all.push_back(std::make_unique<Submitter>(address, request, each, busy));
    all.back()->Submit();
  }
  for (size_t left = *busy; left > 0; left = *busy) {
    busy->wait(left);
  }
  Samples samples;
  for (const auto& client : all) {
    samples.Append(client->samples());
  }
  return samples;
}

}  // namespace tide::bench
