#include "scheduler/server/testing/edge.h"

#include <grpcpp/grpcpp.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <utility>

#include "proto/wire/convert.h"
#include "tide/v1/agent.grpc.pb.h"
#include "tide/v1/scheduler.grpc.pb.h"

namespace tide::testing {

const rpc::ClusterToken& Token() {
  static const rpc::ClusterToken kToken("0123456789abcdef");
  return kToken;
}

struct Stream::Wire {
  std::unique_ptr<tide::v1::AgentLink::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<tide::v1::AgentMessage, tide::v1::SchedulerMessage>>
      stream;
};

Stream::Stream(const std::string& address, const rpc::ClusterToken& token)
    : wire_(std::make_unique<Wire>()) {
  wire_->stub =
      tide::v1::AgentLink::NewStub(rpc::Security().Connect(address, {rpc::Role::kScheduler, ""}));
  token.Attach(wire_->context);
  wire_->context.set_deadline(std::chrono::system_clock::now() + kPatience);
  wire_->stream = wire_->stub->Connect(&wire_->context);
}

Stream::~Stream() = default;

void Stream::Hello(const std::string& name,
                   uint64_t highest_term,
                   const std::string& leaf,
                   const std::string& zone,
                   const std::vector<tide::v1::TaskReport>& tasks,
                   uint64_t number) {
  tide::v1::AgentMessage message;
  message.mutable_hello()->set_number(number);
  message.mutable_hello()->mutable_tasks()->Assign(tasks.begin(), tasks.end());
  tide::v1::Node* node = message.mutable_hello()->mutable_node();
  node->set_name(name);
  node->set_group("default");
  node->set_zone(zone);
  node->set_leaf(leaf);
  node->mutable_capacity()->set_gpus(8);
  node->set_port_low(20000);
  node->set_port_high(20099);
  message.mutable_hello()->set_highest_term(highest_term);
  message.mutable_hello()->set_takes_secrets(takes_secrets);
  message.mutable_hello()->set_cluster_id(cluster_id);
  message.mutable_hello()->set_state_id(state_id);
  message.mutable_hello()->set_machine_id(machine_id);
  node->set_boot_id(boot_id);
  Write(message);
}

void Stream::Report(uint64_t seq, const tide::v1::StartTask& start, tide::v1::TaskState state) {
  tide::v1::AgentMessage message;
  message.mutable_report()->set_seq(seq);
  tide::v1::TaskReport* task = message.mutable_report()->add_tasks();
  task->set_job_id(start.job_id());
  task->set_epoch(start.epoch());
  task->set_task(start.task());
  task->set_state(state);
  task->set_stop_step(-1);
  task->set_saved_step(-1);
  if (state == tide::v1::TASK_STATE_EXITED) {
    task->mutable_exit()->set_reason(tide::v1::EXIT_REASON_SUCCEEDED);
  }
  Write(message);
}

void Stream::Write(const tide::v1::AgentMessage& message) {
  wire_->stream->Write(message);
}

std::optional<tide::v1::SchedulerMessage> Stream::Read() {
  tide::v1::SchedulerMessage message;
  return wire_->stream->Read(&message) ? std::optional(message) : std::nullopt;
}

tide::v1::SchedulerMessage Stream::Next() {
  const auto message = Read();
  REQUIRE(message);
  return *message;
}

grpc::Status Stream::Finish() {
  wire_->stream->WritesDone();
  while (Read()) {
  }
  return wire_->stream->Finish();
}

Edge::Edge(Admission admission, std::unique_ptr<BeatPort> beats)
    : address_("unix:" + folder_.File("s.sock")), admission_(std::move(admission)) {
  agents_ = MakeAgentLinkService(world.loop(),
                                 world.view(),
                                 world.sessions(),
                                 admission_,
                                 {Token(), Duration::Seconds(1), std::move(beats)});
  scheduler_ = MakeSchedulerService(
      world.loop(), world.view(), Token(), [this] { return world.OpenReader(); });
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
  builder.RegisterService(agents_.get());
  builder.RegisterService(scheduler_.get());
  server_ = builder.BuildAndStart();
  REQUIRE(server_);
  channel_ = rpc::Security().Connect(address_, {rpc::Role::kScheduler, ""});
}

Edge::~Edge() {
  world.sessions().CloseAll();
  server_->Shutdown(std::chrono::system_clock::now());
}

tide::v1::SubmitJobResponse Edge::Submit(const AJob& job) {
  grpc::ClientContext context;
  Token().Attach(context);
  tide::v1::SubmitJobRequest request;
  *request.mutable_spec() = wire::ToProto(job.Spec());
  *request.mutable_caller() = CallerOf("ann");
  tide::v1::SubmitJobResponse response;
  const grpc::Status status =
      tide::v1::Scheduler::NewStub(channel_)->SubmitJob(&context, request, &response);
  INFO(status.error_message());
  REQUIRE(status.ok());
  return response;
}

}  // namespace tide::testing
