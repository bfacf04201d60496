// The gRPC edge of commands in tasks, in front of a real task of the process runtime.
#include "agent/server/access_service.h"

#include <grpcpp/grpcpp.h>

#include <csignal>

#include "agent/runtime/task_testing.h"
#include "agent/server/held_task.h"
#include "agent/server/testing/agent_testing.h"
#include "common/exec/limits.h"
#include "tide/v1/access.grpc.pb.h"

namespace tide::agent {
namespace {

using ExecClient = grpc::ClientReaderWriter<tide::v1::ExecInput, tide::v1::ExecOutput>;

class AccessWorld {
 public:
  AccessWorld() {
    TaskConfig config = task.Task(RuntimeKind::kProcess, {"echo up; exec sleep 1000"});
    const Status started = task.runtime().Start(config);
    REQUIRE(started);
    REQUIRE(WaitUntil([&] {
      const std::string status = ReadFile(task.Folder() + "/status.json").value_or("");
      return status.find("\"started\":true") != std::string::npos;
    }));
    JournalEntry entry;
    entry.start = TestStart();
    entry.start.set_epoch(1);
    entry.start.set_submitted_at(5);
    entry.record.id = {7, 1, 0};
    REQUIRE(MakeDirs(task.state_dir() + "/held"));
    REQUIRE(WriteHeld(task.state_dir(), entry));
    service_ = MakeAccessService(
        {token, task.state_dir(), [this](const std::string&) { return over.load(); }});
    grpc::ServerBuilder builder;
    address = "unix:" + task.state_dir() + "/access.sock";
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    REQUIRE(server_);
  }
  ~AccessWorld() { server_->Shutdown(std::chrono::system_clock::now()); }
  AccessWorld(const AccessWorld&) = delete;
  AccessWorld& operator=(const AccessWorld&) = delete;

  TaskFixture task;
  rpc::ClusterToken token{"0123456789abcdef"};
  std::string address;
  std::atomic<bool> over = false;

 private:
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

struct AccessCall {
  AccessCall(const AccessWorld& world,
             const tide::v1::ExecStart& start,
             const rpc::ClusterToken& token)
      : stub(tide::v1::AgentAccess::NewStub(
            rpc::Security().Connect(world.address, {rpc::Role::kAgent, ""}))) {
    token.Attach(context);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    context.set_wait_for_ready(true);
    stream = stub->Exec(&context);
    tide::v1::ExecInput first;
    *first.mutable_start() = start;
    stream->Write(first);
  }
  AccessCall(const AccessWorld& world, const tide::v1::ExecStart& start)
      : AccessCall(world, start, world.token) {}

  grpc::StatusCode Refusal() {
    tide::v1::ExecOutput output;
    CHECK_FALSE(stream->Read(&output));
    return stream->Finish().error_code();
  }
  tide::v1::ExecEnded End(std::string& out) {
    tide::v1::ExecOutput output;
    while (stream->Read(&output)) {
      out += output.out();
      if (output.has_ended()) {
        stream->WritesDone();
        const tide::v1::ExecEnded ended = output.ended();
        CHECK_FALSE(stream->Read(&output));
        CHECK(stream->Finish().ok());
        return ended;
      }
    }
    const grpc::Status status = stream->Finish();
    INFO(status.error_message());
    CHECK(status.ok());
    return {};
  }

  std::unique_ptr<tide::v1::AgentAccess::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<ExecClient> stream;
};

tide::v1::ExecStart StartOf(const std::vector<std::string>& argv) {
  tide::v1::ExecStart start;
  start.set_job_id(7);
  start.set_epoch(1);
  start.set_rank(8);
  start.set_submitted_at(5);
  start.set_actor("alice");
  for (const std::string& word : argv) {
    start.add_argv(word);
  }
  return start;
}

TEST_CASE("a command over gRPC: input, its end, exit code") {
  AccessWorld world;
  AccessCall call(world, StartOf({"sh", "-c", "cat; exit 4"}));
  tide::v1::ExecInput input;
  input.set_data("hello");
  CHECK(call.stream->Write(input));
  input.set_end_of_data(true);
  CHECK(call.stream->Write(input));
  std::string out;
  CHECK(call.End(out).code() == 4);
  CHECK(out == "hello");
}

TEST_CASE("who is not of the cluster, or asks for what is not here, is refused") {
  AccessWorld world;
  const auto start = StartOf({"true"});
  CHECK(AccessCall(world, start, rpc::ClusterToken("wrong-wrong-wrong")).Refusal() ==
        grpc::StatusCode::UNAUTHENTICATED);
  auto other = start;
  other.set_epoch(2);
  CHECK(AccessCall(world, other).Refusal() == grpc::StatusCode::FAILED_PRECONDITION);
  other = start;
  other.set_submitted_at(6);  // another job of that number
  CHECK(AccessCall(world, other).Refusal() == grpc::StatusCode::FAILED_PRECONDITION);
  other = start;
  other.mutable_terminal()->set_rows(1U << 20U);
  CHECK(AccessCall(world, other).Refusal() == grpc::StatusCode::INVALID_ARGUMENT);
  other = start;
  other.add_argv(std::string(kExecArgumentBytesMax, 'x'));
  CHECK(AccessCall(world, other).Refusal() == grpc::StatusCode::INVALID_ARGUMENT);
  other = start;
  other.set_argv(0, "");
  CHECK(AccessCall(world, other).Refusal() == grpc::StatusCode::INVALID_ARGUMENT);
  world.over = true;
  CHECK(AccessCall(world, start).Refusal() == grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_CASE("a caller that hangs up or floods leaves no process") {
  AccessWorld world;
  const std::string tag = TaskTag("7.1.0", world.task.Folder());
  const size_t before = ProcessesWithTag(tag).size();
  {
    AccessCall call(world, StartOf({"sh", "-c", "trap '' HUP; echo ready; sleep 1000; :"}));
    tide::v1::ExecOutput output;
    REQUIRE(call.stream->Read(&output));
    CHECK(ProcessesWithTag(tag).size() > before);
    call.context.TryCancel();
    while (call.stream->Read(&output)) {
    }
    CHECK(call.stream->Finish().error_code() == grpc::StatusCode::CANCELLED);
  }
  CHECK(Eventually([&] { return ProcessesWithTag(tag).size() == before; }));
  AccessCall flood(world, StartOf({"sleep", "1000"}));
  tide::v1::ExecInput input;
  input.set_data(std::string(kExecWindow, 'x'));
  for (int i = 0; i < 3; ++i) {
    flood.stream->Write(input);
  }
  std::string out;
  CHECK(flood.End(out).signal() == SIGHUP);
  CHECK(Eventually([&] { return ProcessesWithTag(tag).size() == before; }));
}

TEST_CASE("a node runs only so many commands at a time") {
  AccessWorld world;
  std::vector<std::unique_ptr<AccessCall>> calls;
  for (int i = 0; i < kExecSessionsMax; ++i) {
    calls.push_back(std::make_unique<AccessCall>(world, StartOf({"cat"})));
    tide::v1::ExecOutput output;
    REQUIRE(calls.back()->stream->Read(&output));
  }
  CHECK(AccessCall(world, StartOf({"true"})).Refusal() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  calls.front()->context.TryCancel();
  CHECK(Eventually([&] {
    AccessCall again(world, StartOf({"true"}));
    tide::v1::ExecOutput output;
    return again.stream->Read(&output);
  }));
  for (const auto& call : calls) {
    call->context.TryCancel();
  }
}

}  // namespace
}  // namespace tide::agent
