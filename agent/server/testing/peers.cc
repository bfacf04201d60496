#include "agent/server/testing/peers.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>

#include "agent/server/start_plan.h"

namespace tide::agent {

struct Peer::Server {
  std::unique_ptr<grpc::Service> service;
  std::unique_ptr<grpc::Server> running;
};

Peer::Peer(const TestDir& dir, const std::string& name, const rpc::ClusterToken& token)
    : address("unix:" + dir.File(name + ".sock")),
      state_dir(dir.File(name)),
      server_(std::make_unique<Server>()) {
  REQUIRE(MakeDirs(state_dir));
  server_->service = MakePeerService({book,
                                      token,
                                      state_dir,
                                      [this](const TaskId& id, int64_t /*deadline*/) {
                                        signalled = TaskKey(id);
                                        ++signals;
                                        on_signal();
                                        return delivers.load();
                                      },
                                      [this](const std::string&) { return over.load(); },
                                      [this](const TaskId& id, int64_t submitted_at) {
                                        ++asked;
                                        return alive && id == TaskId{7, 2, 1} && submitted_at == 5;
                                      }});
  Serve();
}

Peer::~Peer() {
  Stop();
}

void Peer::Serve() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(server_->service.get());
  server_->running = builder.BuildAndStart();
  REQUIRE(server_->running);
}

void Peer::Stop() {
  if (server_->running) {
    server_->running->Shutdown(std::chrono::system_clock::now());
    server_->running.reset();
  }
}

std::shared_ptr<TaskPages> Peer::AddPages(uint32_t index, uint32_t ranks) {
  auto pages = TaskPages::Open(RunDir(), ranks, ::geteuid(), ::getegid());
  REQUIRE(pages);
  std::shared_ptr<TaskPages> shared = *std::move(pages);
  book.Put("7.2." + std::to_string(index), shared);
  return shared;
}

}  // namespace tide::agent
