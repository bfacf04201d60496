#include "api/testing/fake_upstream.h"

#include <grpcpp/grpcpp.h>

#include "common/base/check.h"

namespace tide::api::testing {
namespace {

std::unique_ptr<grpc::Server> Serve(const std::string& address, grpc::Service& service) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  auto server = builder.BuildAndStart();
  TIDE_CHECK(server != nullptr, "a fresh socket can be listened on");
  return server;
}

}  // namespace

struct FakeUpstream::Servers {
  std::unique_ptr<grpc::Server> scheduler;
  std::unique_ptr<grpc::Server> agent;
};

FakeUpstream::FakeUpstream(const std::string& folder)
    : scheduler_address_("unix:" + folder + "/scheduler.sock"),
      agent_address_("unix:" + folder + "/agent.sock"),
      servers_(std::make_unique<Servers>()) {
  servers_->agent = Serve(agent_address_, agent.service());
  StartScheduler();
}

FakeUpstream::~FakeUpstream() {
  KillScheduler();
  servers_->agent->Shutdown(std::chrono::system_clock::now());
}

void FakeUpstream::KillScheduler() {
  if (servers_->scheduler != nullptr) {
    servers_->scheduler->Shutdown(std::chrono::system_clock::now());
    servers_->scheduler->Wait();
    servers_->scheduler.reset();
  }
}

void FakeUpstream::StartScheduler() {
  servers_->scheduler = Serve(scheduler_address_, scheduler.service());
}

}  // namespace tide::api::testing
