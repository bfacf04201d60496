// Every cell of the table of permissions that the scheduler's calls have, through gRPC, and the
// audit of it.

#include <grpcpp/grpcpp.h>

#include <catch2/catch.hpp>
#include <functional>

#include "proto/wire/convert.h"
#include "scheduler/server/testing/edge.h"
#include "tide/v1/scheduler.grpc.pb.h"

namespace tide {
namespace {

using testing::CallerOf;
using testing::Edge;
using Stub = v1::Scheduler::Stub;

struct Cell {
  Stub& stub;
  grpc::ClientContext& context;
  v1::Caller caller;
  uint64_t job = 0;
};

struct Try {
  Operation operation;
  bool about_job = false;
  std::function<grpc::Status(const Cell&)> call;
  bool audited = true;
};

template <typename Request, typename Response>
grpc::Status Do(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                const Cell& cell,
                Request request) {
  Response response;
  *request.mutable_caller() = cell.caller;
  return (cell.stub.*method)(&cell.context, request, &response);
}

v1::ChangePeopleRequest Change(const std::function<void(v1::ChangePeopleRequest&)>& fill) {
  v1::ChangePeopleRequest request;
  fill(request);
  return request;
}

std::vector<Try> Tries() {
  return {
      {Operation::kSubmitJob,
       false,
       [](const Cell& cell) {
         v1::SubmitJobRequest request;
         *request.mutable_spec() = wire::ToProto(testing::AJob().Spec());
         return Do(&Stub::SubmitJob, cell, request);
       }},
      {Operation::kPlanJob,
       false,
       [](const Cell& cell) {
         v1::PlanJobRequest request;
         *request.mutable_spec() = wire::ToProto(testing::AJob().Spec());
         return Do(&Stub::PlanJob, cell, request);
       },
       false},
      {Operation::kControlJob,
       true,
       [](const Cell& cell) {
         v1::ControlJobRequest request;
         request.set_job_id(cell.job);
         request.set_verb(v1::JOB_VERB_SUSPEND);
         return Do(&Stub::ControlJob, cell, request);
       }},
      {Operation::kControlNode,
       false,
       [](const Cell& cell) {
         v1::ControlNodeRequest request;
         request.set_node("nowhere");
         request.set_verb(v1::NODE_VERB_DRAIN);
         request.set_reason("test");
         return Do(&Stub::ControlNode, cell, request);
       }},
      {Operation::kSeeJobs,
       false,
       [](const Cell& cell) {
         return Do(&Stub::GetArchivedJob, cell, v1::GetArchivedJobRequest());
       },
       false},
      {Operation::kUseSecrets,
       false,
       [](const Cell& cell) {
         v1::RemoveSecretRequest request;
         request.set_name("none");
         return Do(&Stub::RemoveSecret, cell, request);
       }},
      {Operation::kManageUsers,
       false,
       [](const Cell& cell) {
         return Do(&Stub::ChangePeople, cell, Change([](v1::ChangePeopleRequest& request) {
           request.set_remove_user("nobody");
         }));
       }},
      {Operation::kManageProjects,
       false,
       [](const Cell& cell) {
         return Do(&Stub::ChangePeople, cell, Change([](v1::ChangePeopleRequest& request) {
           request.set_remove_project("none");
         }));
       }},
      {Operation::kManageOwnTokens,
       false,
       [](const Cell& cell) {
         return Do(&Stub::ChangePeople, cell, Change([&](v1::ChangePeopleRequest& request) {
           request.mutable_issue_token()->set_user(cell.caller.user());
         }));
       }},
      {Operation::kReadAudit,
       false,
       [](const Cell& cell) { return Do(&Stub::ReadAudit, cell, v1::ReadAuditRequest()); },
       false},
  };
}

// Submits as ann and returns the job.
uint64_t Submitted(Edge& edge) {
  return edge.Submit(testing::AJob()).job_id();
}

std::vector<AuditEntry> AuditOf(Edge& edge) {
  auto reader = edge.world.OpenReader();
  REQUIRE(reader);
  REQUIRE((*reader)->Begin(Duration::Seconds(5), TransactionKind::kRead));
  auto entries = ReadAudit(**reader, 1, 10'000);
  REQUIRE(entries);
  (*reader)->Rollback();
  return *std::move(entries);
}

TEST_CASE("each call, by each role, in each relation, and each is recorded", "[edge][people]") {
  Edge edge;
  const auto stub = v1::Scheduler::NewStub(edge.channel());
  testing::Stream node(edge.address());
  node.Hello("n1");
  node.Next();
  const uint64_t of_ann = Submitted(edge);
  size_t expected = AuditOf(edge).size();
  for (const auto& [user, role] :
       std::vector<std::pair<std::string, Role>>{{"vera", Role::kViewer},
                                                 {"ann", Role::kUser},
                                                 {"bob", Role::kUser},
                                                 {"olga", Role::kOperator},
                                                 {"adam", Role::kAdmin}}) {
    for (const Try& each : Tries()) {
      grpc::ClientContext context;
      testing::Token().Attach(context);
      context.set_deadline(std::chrono::system_clock::now() + testing::kPatience);
      const Relation relation = each.about_job && user != "ann" ? Relation::kOther : Relation::kOwn;
      const grpc::Status status = each.call({*stub, context, CallerOf(user), of_ann});
      INFO(user << " " << PermissionOf(each.operation).name << ": " << status.error_message());
      CHECK(status.error_code() != grpc::StatusCode::UNAUTHENTICATED);
      CHECK((status.error_code() != grpc::StatusCode::PERMISSION_DENIED) ==
            IsAllowed(role, kAllScopes, each.operation, relation));
      expected += each.audited ? 1 : 0;
      const auto audit = AuditOf(edge);
      CHECK(audit.size() == expected);
      if (each.audited) {
        CHECK(audit.back().user == user);
        CHECK(audit.back().operation == PermissionOf(each.operation).name);
        CHECK((audit.back().outcome == "done") == status.ok());
      }
    }
  }
}

TEST_CASE("a caller is who the scheduler knows by that token", "[edge][people]") {
  Edge edge;
  const auto stub = v1::Scheduler::NewStub(edge.channel());
  v1::Caller stranger = CallerOf("ann");
  stranger.set_token(CallerOf("bob").token());
  v1::Caller revoked = CallerOf("bob");
  {
    grpc::ClientContext context;
    testing::Token().Attach(context);
    v1::ChangePeopleRequest request;
    *request.mutable_caller() = CallerOf("bob");
    request.set_revoke_token(revoked.token());
    v1::ChangePeopleResponse response;
    REQUIRE(stub->ChangePeople(&context, request, &response).ok());
  }
  for (const v1::Caller& caller : {v1::Caller(), stranger, revoked}) {
    for (const Try& each : Tries()) {
      grpc::ClientContext context;
      testing::Token().Attach(context);
      CHECK(each.call({*stub, context, caller, 1}).error_code() ==
            grpc::StatusCode::UNAUTHENTICATED);
    }
  }
}

TEST_CASE("who is added and what is revoked survives a restart", "[edge][people]") {
  Edge edge;
  const auto stub = v1::Scheduler::NewStub(edge.channel());
  grpc::ClientContext context;
  testing::Token().Attach(context);
  v1::ChangePeopleRequest request;
  *request.mutable_caller() = CallerOf("adam");
  request.mutable_add_user()->set_name("eve");
  v1::ChangePeopleResponse response;
  REQUIRE(stub->ChangePeople(&context, request, &response).ok());
  const v1::ViewDelta view = edge.world.View();
  CHECK(std::ranges::count_if(view.users(),
                              [](const v1::User& user) { return user.name() == "eve"; }) == 1);
  auto reader = edge.world.OpenReader();
  REQUIRE(reader);
  CHECK(LoadPeople(**reader)->directory.FindUser("eve") != nullptr);
}

TEST_CASE("a job names a project of its owner", "[edge][people]") {
  Edge edge;
  const auto stub = v1::Scheduler::NewStub(edge.channel());
  grpc::ClientContext context;
  testing::Token().Attach(context);
  v1::SubmitJobRequest request;
  *request.mutable_caller() = CallerOf("ann");
  *request.mutable_spec() = wire::ToProto(testing::AJob().Spec());
  request.mutable_spec()->set_project("vision");
  v1::SubmitJobResponse response;
  const grpc::Status status = stub->SubmitJob(&context, request, &response);
  CHECK(rpc::FromGrpc(status, context).code == ErrorCode::kProjectNotMember);
}

}  // namespace
}  // namespace tide
