// Secrets over gRPC: in from the API, out to the agent of a job that names them.

#include <grpcpp/grpcpp.h>

#include <catch2/catch.hpp>

#include "proto/wire/convert.h"
#include "scheduler/server/testing/edge.h"
#include "tide/v1/scheduler.grpc.pb.h"

namespace tide {
namespace {

using Catch::Contains;
using testing::AJob;
using testing::Edge;
using testing::Eventually;
using testing::Stream;
using testing::Token;

class Client {
 public:
  explicit Client(const Edge& edge) : stub_(tide::v1::Scheduler::NewStub(edge.channel())) {}

  Error Set(const std::string& user, const std::string& name, const std::string& value) {
    tide::v1::SetSecretRequest request;
    *request.mutable_caller() = testing::CallerOf(user);
    request.set_name(name);
    request.set_value(value);
    tide::v1::SetSecretResponse response;
    return Call(&tide::v1::Scheduler::Stub::SetSecret, request, response);
  }
  Error Remove(const std::string& user, const std::string& name) {
    tide::v1::RemoveSecretRequest request;
    *request.mutable_caller() = testing::CallerOf(user);
    request.set_name(name);
    tide::v1::RemoveSecretResponse response;
    return Call(&tide::v1::Scheduler::Stub::RemoveSecret, request, response);
  }
  tide::v1::ListSecretsResponse List(const std::string& user) {
    tide::v1::ListSecretsRequest request;
    *request.mutable_caller() = testing::CallerOf(user);
    tide::v1::ListSecretsResponse response;
    CHECK(Call(&tide::v1::Scheduler::Stub::ListSecrets, request, response).message.empty());
    return response;
  }
  template <typename Method, typename Request, typename Response>
  Error Call(Method method, const Request& request, Response& response) {
    grpc::ClientContext context;
    Token().Attach(context);
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    return status.ok() ? Error{} : rpc::FromGrpc(status, context);
  }

 private:
  std::unique_ptr<tide::v1::Scheduler::Stub> stub_;
};

tide::v1::JobSpec WithSecret(const std::string& name) {
  tide::v1::JobSpec spec = wire::ToProto(AJob().Spec());
  spec.add_secrets(name);
  return spec;
}

Error SubmitAs(Client& client, const std::string& user, const std::string& key = "") {
  tide::v1::SubmitJobRequest request;
  *request.mutable_spec() = WithSecret("hf-token");
  *request.mutable_caller() = testing::CallerOf(user);
  request.set_idempotency_key(key);
  tide::v1::SubmitJobResponse response;
  return client.Call(&tide::v1::Scheduler::Stub::SubmitJob, request, response);
}

TEST_CASE("an order to start brings the secrets as they are then", "[secrets]") {
  Edge edge;
  Client client(edge);
  REQUIRE(client.Set("ann", "hf-token", "hunter2").message.empty());
  REQUIRE(client.Set("ann", "other", "not asked for").message.empty());
  {
    Stream agent(edge.address());
    agent.Hello("n1");
    REQUIRE(agent.Next().has_welcome());
    REQUIRE(SubmitAs(client, "ann").message.empty());
    const auto start = agent.Next().command().start();
    REQUIRE(start.secrets_size() == 2);
    CHECK(start.secrets(0).name() == "hf-token");
    CHECK(start.secrets(0).value() == "hunter2");
    CHECK(start.spec().secrets_size() == 2);
    CHECK(start.secrets(1).name() == "tide-job-token");
  }
  // The same start is sent again on the next stream.
  const std::string bytes("new\0er", 6);
  REQUIRE(client.Set("ann", "hf-token", bytes).message.empty());
  Stream again(edge.address());
  again.Hello("n1");
  REQUIRE(again.Next().has_welcome());
  CHECK(again.Next().command().start().secrets(0).value() == bytes);
}

TEST_CASE("an attempt's token is known while it holds nodes, the next has another", "[secrets]") {
  Edge edge;
  const auto digest = [&edge] { return edge.world.View().jobs(0).token_sha256(); };
  Stream agent(edge.address());
  agent.Hello("n1");
  REQUIRE(agent.Next().has_welcome());
  const uint64_t job = edge.Submit(AJob()).job_id();
  const auto start = agent.Next().command().start();
  REQUIRE(start.secrets_size() == 1);
  const auto token = ParseJobTokenText(start.secrets(0).value());
  REQUIRE(token);
  CHECK(token->number == job);
  CHECK(token->sha256 == digest());
  agent.Report(1, start, tide::v1::TASK_STATE_EXITED);
  CHECK(Eventually([&] { return digest().empty(); }));
}

TEST_CASE("an agent that knows no secrets starts a job without its token", "[secrets]") {
  Edge edge;
  Stream old(edge.address());
  old.takes_secrets = false;
  old.Hello("n1");
  REQUIRE(old.Next().has_welcome());
  edge.Submit(AJob());
  const auto start = old.Next().command().start();
  CHECK(start.secrets_size() == 0);
  CHECK(start.spec().secrets_size() == 0);
}

TEST_CASE("what is listed has names and lengths", "[secrets]") {
  Edge edge;
  Client client(edge);
  REQUIRE(client.Set("ann", "hf-token", "hunter2").message.empty());
  const auto listed = client.List("ann");
  REQUIRE(listed.secrets_size() == 1);
  CHECK(listed.secrets(0).name() == "hf-token");
  CHECK(listed.secrets(0).bytes() == 7);
  CHECK(listed.secrets(0).changed_at() > 0);
  CHECK_THAT(listed.SerializeAsString(), !Contains("hunter2"));
  CHECK(client.List("bob").secrets_size() == 0);
  CHECK(client.Remove("bob", "hf-token").code == ErrorCode::kNotFound);
  REQUIRE(client.Remove("ann", "hf-token").message.empty());
  CHECK(client.List("ann").secrets_size() == 0);
}

TEST_CASE("a job names secrets that its owner has", "[secrets]") {
  Edge edge;
  Client client(edge);
  Stream agent(edge.address());
  agent.Hello("n1");
  REQUIRE(agent.Next().has_welcome());
  REQUIRE(client.Set("bob", "hf-token", "hunter2").message.empty());
  const Error refused = SubmitAs(client, "ann");
  CHECK(refused.code == ErrorCode::kInvalidArgument);
  CHECK(refused.message == "ann has no secret hf-token; set it with `tide secret set hf-token`");
  tide::v1::PlanJobRequest plan;
  *plan.mutable_spec() = WithSecret("hf-token");
  *plan.mutable_caller() = testing::CallerOf("ann");
  tide::v1::PlanJobResponse planned;
  CHECK(client.Call(&tide::v1::Scheduler::Stub::PlanJob, plan, planned).message == refused.message);
  CHECK(edge.world.View().jobs_size() == 0);
  // A submission that is there already is given again, whatever came after it.
  REQUIRE(SubmitAs(client, "bob", "once").message.empty());
  REQUIRE(client.Remove("bob", "hf-token").message.empty());
  CHECK(SubmitAs(client, "bob", "once").message.empty());
  CHECK(edge.world.View().jobs_size() == 1);
}

TEST_CASE("a job whose secret was removed fails with one clear line", "[secrets]") {
  Edge edge;
  Client client(edge);
  Stream agent(edge.address());
  agent.Hello("n1");
  REQUIRE(agent.Next().has_welcome());
  edge.Submit(AJob());  // which has the node
  const auto first = agent.Next().command().start();
  REQUIRE(client.Set("ann", "hf-token", "hunter2").message.empty());
  REQUIRE(SubmitAs(client, "ann").message.empty());
  REQUIRE(client.Remove("ann", "hf-token").message.empty());
  agent.Report(1, first, tide::v1::TASK_STATE_EXITED);
  tide::v1::Job job;
  REQUIRE(Eventually([&] {
    job = edge.world.View().jobs(1);
    return job.state() == tide::v1::JOB_STATE_FINISHED;
  }));
  CHECK(job.outcome() == tide::v1::OUTCOME_FAILED);
  CHECK_THAT(job.detail(), Contains("ann has no secret hf-token"));
  CHECK(job.starts() == 1);
  CHECK(edge.world.View().nodes(0).faults() == 0);
}

TEST_CASE("an agent that knows no secrets gets no job with some", "[secrets]") {
  Edge edge;
  Client client(edge);
  REQUIRE(client.Set("ann", "hf-token", "hunter2").message.empty());
  Stream old(edge.address());
  old.takes_secrets = false;
  old.Hello("n1");
  REQUIRE(old.Next().has_welcome());
  REQUIRE(SubmitAs(client, "ann").message.empty());
  std::string why;
  REQUIRE(Eventually([&] {
    const auto job = edge.world.View().jobs(0);
    for (const auto& attempt : job.attempts()) {
      for (const auto& task : attempt.tasks()) {
        why = task.exit().message().empty() ? why : task.exit().message();
      }
    }
    return !why.empty();
  }));
  CHECK_THAT(why, Contains("older release"));
  // All that it is told is to forget what it never had.
  while (const auto message = old.Read()) {
    CHECK_FALSE(message->command().has_start());
    if (message->command().has_forget()) {
      break;
    }
  }
}

}  // namespace
}  // namespace tide
