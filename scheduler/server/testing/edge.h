#pragma once
// The gRPC edge in one process: real services over a unix socket, agents made by hand. For tests.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/server/scheduler_service.h"
#include "scheduler/server/testing/server_world.h"
#include "tide/v1/agent.pb.h"
#include "tide/v1/scheduler.pb.h"

namespace grpc {
class Channel;
class Server;
class Service;
class Status;
}  // namespace grpc

namespace tide::testing {

const rpc::ClusterToken& Token();

// An agent's side of one stream.
class Stream {
 public:
  explicit Stream(const std::string& address, const rpc::ClusterToken& token = Token());
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void Hello(const std::string& name,
             uint64_t highest_term = 0,
             const std::string& leaf = "l1",
             const std::string& zone = "A",
             const std::vector<tide::v1::TaskReport>& tasks = {},
             uint64_t number = 0);
  void Report(uint64_t seq, const tide::v1::StartTask& start, tide::v1::TaskState state);
  void Write(const tide::v1::AgentMessage& message);
  // Nothing when the stream has ended.
  std::optional<tide::v1::SchedulerMessage> Read();
  // The next message; fails the test when there is none.
  tide::v1::SchedulerMessage Next();
  grpc::Status Finish();

  bool takes_secrets = true;  // of an agent of this release
  std::string cluster_id;     // that it belongs to
  std::string state_id;       // of its state folder
  std::string machine_id;
  std::string boot_id;

 private:
  struct Wire;
  std::unique_ptr<Wire> wire_;
};

class Edge {
 public:
  explicit Edge(Admission admission = {}, std::unique_ptr<BeatPort> beats = nullptr);
  ~Edge();
  Edge(const Edge&) = delete;
  Edge& operator=(const Edge&) = delete;

  // By ann.
  tide::v1::SubmitJobResponse Submit(const AJob& job);
  [[nodiscard]] const std::string& address() const { return address_; }
  // To the scheduler, for clients.
  [[nodiscard]] const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  ServerWorld world;

 private:
  TempDir folder_;
  const std::string address_;
  const Admission admission_;
  std::unique_ptr<grpc::Service> agents_;
  std::unique_ptr<grpc::Service> scheduler_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace tide::testing
