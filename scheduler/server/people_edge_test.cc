// Every cell of the table of permissions that the scheduler's calls have, through gRPC, and the
// audit of it.

#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>

#include <catch2/catch.hpp>
#include <functional>
#include <set>

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
  const char* method;  // of the service
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
      {"SubmitJob",
       Operation::kSubmitJob,
       false,
       [](const Cell& cell) {
         v1::SubmitJobRequest request;
         *request.mutable_spec() = wire::ToProto(testing::AJob().Spec());
         return Do(&Stub::SubmitJob, cell, request);
       }},
      {"PlanJob",
       Operation::kPlanJob,
       false,
       [](const Cell& cell) {
         v1::PlanJobRequest request;
         *request.mutable_spec() = wire::ToProto(testing::AJob().Spec());
         return Do(&Stub::PlanJob, cell, request);
       },
       false},
      {"ControlJob",
       Operation::kControlJob,
       true,
       [](const Cell& cell) {
         v1::ControlJobRequest request;
         request.set_job_id(cell.job);
         request.set_verb(v1::JOB_VERB_SUSPEND);
         return Do(&Stub::ControlJob, cell, request);
       }},
      {"ControlNode",
       Operation::kControlNode,
       false,
       [](const Cell& cell) {
         v1::ControlNodeRequest request;
         request.set_node("nowhere");
         request.set_verb(v1::NODE_VERB_DRAIN);
         request.set_reason("test");
         return Do(&Stub::ControlNode, cell, request);
       }},
      {"GetRanks",
       Operation::kSeeInside,
       false,
       [](const Cell& cell) { return Do(&Stub::GetRanks, cell, v1::GetRanksRequest()); },
       false},
      {"GetArchivedJob",
       Operation::kSeeJobs,
       false,
       [](const Cell& cell) {
         return Do(&Stub::GetArchivedJob, cell, v1::GetArchivedJobRequest());
       },
       false},
      {"SetSecret",
       Operation::kUseSecrets,
       false,
       [](const Cell& cell) {
         v1::SetSecretRequest request;
         request.set_name("some");
         request.set_value("x");
         return Do(&Stub::SetSecret, cell, request);
       }},
      {"ListSecrets",
       Operation::kUseSecrets,
       false,
       [](const Cell& cell) { return Do(&Stub::ListSecrets, cell, v1::ListSecretsRequest()); },
       false},
      {"RemoveSecret",
       Operation::kUseSecrets,
       false,
       [](const Cell& cell) {
         v1::RemoveSecretRequest request;
         request.set_name("none");
         return Do(&Stub::RemoveSecret, cell, request);
       }},
      {"ChangePeople",
       Operation::kManageUsers,
       false,
       [](const Cell& cell) {
         return Do(&Stub::ChangePeople, cell, Change([](v1::ChangePeopleRequest& request) {
           request.set_remove_user("nobody");
         }));
       }},
      {"ChangePeople",
       Operation::kManageProjects,
       false,
       [](const Cell& cell) {
         return Do(&Stub::ChangePeople, cell, Change([](v1::ChangePeopleRequest& request) {
           request.set_remove_project("none");
         }));
       }},
      {"ChangePeople",
       Operation::kManageOwnTokens,
       false,
       [](const Cell& cell) {
         return Do(&Stub::ChangePeople, cell, Change([&](v1::ChangePeopleRequest& request) {
           request.mutable_issue_token()->set_user(cell.caller.user());
         }));
       }},
      {"ReadAudit",
       Operation::kReadAudit,
       false,
       [](const Cell& cell) { return Do(&Stub::ReadAudit, cell, v1::ReadAuditRequest()); },
       false},
  };
}

// Calls that the API makes for itself: nobody may, or everybody who is an API server.
const std::set<std::string> kOfApi = {"Watch", "RecordAudit"};

TEST_CASE("every call of the service is tried, or is the API's own", "[edge][people]") {
  std::set<std::string> tried = kOfApi;
  for (const Try& each : Tries()) {
    tried.insert(each.method);
  }
  std::set<std::string> there;
  const auto* service =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName("tide.v1.Scheduler");
  REQUIRE(service != nullptr);
  for (int i = 0; i < service->method_count(); ++i) {
    there.insert(service->method(i)->name());
  }
  CHECK(tried == there);
}

// Submits as ann and returns the job.
uint64_t Submitted(Edge& edge) {
  return edge.Submit(testing::AJob()).job_id();
}

// Into a project whose members see each other's jobs: all users.
uint64_t SubmittedToShared(Stub& stub) {
  const auto change = [&](const std::function<void(v1::ChangePeopleRequest&)>& fill) {
    grpc::ClientContext context;
    testing::Token().Attach(context);
    v1::ChangePeopleRequest request = Change(fill);
    *request.mutable_caller() = CallerOf("adam");
    v1::ChangePeopleResponse response;
    REQUIRE(stub.ChangePeople(&context, request, &response).ok());
  };
  change([](v1::ChangePeopleRequest& request) {
    request.mutable_set_project()->set_name("shared");
    request.mutable_set_project()->set_visible(true);
  });
  for (const char* user : {"vera", "ann", "bob", "olga", "adam"}) {
    change([user](v1::ChangePeopleRequest& request) {
      request.mutable_set_member()->set_project("shared");
      request.mutable_set_member()->set_user(user);
    });
  }
  grpc::ClientContext context;
  testing::Token().Attach(context);
  v1::SubmitJobRequest request;
  *request.mutable_caller() = CallerOf("ann");
  *request.mutable_spec() = wire::ToProto(testing::AJob().Spec());
  request.mutable_spec()->set_project("shared");
  v1::SubmitJobResponse response;
  REQUIRE(stub.SubmitJob(&context, request, &response).ok());
  return response.job_id();
}

// Each call, about each job where it is about one.
std::vector<std::pair<Try, uint64_t>> Cells(uint64_t of_ann, uint64_t shared) {
  std::vector<std::pair<Try, uint64_t>> cells;
  for (const Try& each : Tries()) {
    cells.emplace_back(each, of_ann);
    if (each.about_job) {
      cells.emplace_back(each, shared);
    }
  }
  return cells;
}

std::vector<AuditEntry> AuditOf(Edge& edge) {
  auto reader = edge.world.OpenReader();
  REQUIRE(reader);
  REQUIRE((*reader)->Begin(Duration::Seconds(5), TransactionKind::kRead));
  auto entries = ReadAudit(**reader, {.most = 10'000});
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
  const uint64_t shared = SubmittedToShared(*stub);
  size_t expected = AuditOf(edge).size();
  for (const auto& [user, role] :
       std::vector<std::pair<std::string, Role>>{{"vera", Role::kViewer},
                                                 {"ann", Role::kUser},
                                                 {"bob", Role::kUser},
                                                 {"olga", Role::kOperator},
                                                 {"adam", Role::kAdmin}}) {
    for (const auto& [each, job] : Cells(of_ann, shared)) {
      grpc::ClientContext context;
      testing::Token().Attach(context);
      context.set_deadline(std::chrono::system_clock::now() + testing::kPatience);
      const Relation relation = !each.about_job || user == "ann" ? Relation::kOwn
                                : job == shared                  ? Relation::kMember
                                                                 : Relation::kOther;
      const grpc::Status status = each.call({*stub, context, CallerOf(user), job});
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

TEST_CASE("a proxy's word gives a session, and nothing else; it is recorded", "[edge][people]") {
  Edge edge;
  const auto stub = v1::Scheduler::NewStub(edge.channel());
  const auto ask = [&](v1::ChangePeopleRequest request) {
    grpc::ClientContext context;
    testing::Token().Attach(context);
    request.mutable_caller()->set_user("ann");
    request.mutable_caller()->set_address("192.0.2.7");
    v1::ChangePeopleResponse response;
    return stub->ChangePeople(&context, request, &response).error_code();
  };
  v1::ChangePeopleRequest session;
  session.mutable_issue_token()->set_user("ann");
  session.mutable_issue_token()->set_kind(v1::TOKEN_KIND_SESSION);
  session.mutable_issue_token()->set_sha256(std::string(64, 'a'));
  session.mutable_issue_token()->set_scopes(kAllScopes);
  session.mutable_issue_token()->set_expires_at((SystemNow() + Duration::Minutes(5)).unix_nanos());
  // Refused without a token and without a proxy's word: a job's token is none of its owner's.
  CHECK(ask(session) == grpc::StatusCode::UNAUTHENTICATED);
  session.mutable_issue_token()->set_by_proxy(true);
  CHECK(ask(session) == grpc::StatusCode::OK);
  const AuditEntry recorded = AuditOf(edge).back();
  CHECK(recorded.user == "ann");
  CHECK(recorded.address == "192.0.2.7");
  CHECK(recorded.object == "a session of ann");
  CHECK(recorded.detail == "signed in by a proxy");

  v1::ChangePeopleRequest token = session;
  token.mutable_issue_token()->set_kind(v1::TOKEN_KIND_TOKEN);
  CHECK(ask(token) == grpc::StatusCode::UNAUTHENTICATED);
  v1::ChangePeopleRequest of_another = session;
  of_another.mutable_issue_token()->set_user("adam");
  CHECK(ask(of_another) == grpc::StatusCode::UNAUTHENTICATED);
}

TEST_CASE("a session ends with the token that it was made of", "[edge][people]") {
  Edge edge;
  const auto stub = v1::Scheduler::NewStub(edge.channel());
  const auto issue = [&](v1::TokenKind kind, Duration life, const v1::Caller& caller) {
    grpc::ClientContext context;
    testing::Token().Attach(context);
    v1::ChangePeopleRequest request;
    *request.mutable_caller() = caller;
    request.mutable_issue_token()->set_user("ann");
    request.mutable_issue_token()->set_kind(kind);
    request.mutable_issue_token()->set_sha256(std::string(64, 'a'));
    request.mutable_issue_token()->set_scopes(static_cast<uint32_t>(Scope::kRead));
    request.mutable_issue_token()->set_expires_at((SystemNow() + life).unix_nanos());
    v1::ChangePeopleResponse response;
    REQUIRE(stub->ChangePeople(&context, request, &response).ok());
    return response.token();
  };
  v1::Caller caller = CallerOf("ann");
  const v1::Token token = issue(v1::TOKEN_KIND_TOKEN, Duration::Minutes(5), caller);
  caller.set_token(token.number());
  const v1::Token session = issue(v1::TOKEN_KIND_SESSION, Duration::Minutes(720), caller);
  CHECK(session.expires_at() == token.expires_at());
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

TEST_CASE("a submission is recorded with the job that it made", "[edge][people]") {
  Edge edge;
  const auto stub = v1::Scheduler::NewStub(edge.channel());
  testing::Stream node(edge.address());
  node.Hello("n1");
  REQUIRE(node.Next().has_welcome());
  v1::SubmitJobRequest request;
  *request.mutable_caller() = CallerOf("ann");
  *request.mutable_spec() = wire::ToProto(testing::AJob().Spec());
  request.mutable_spec()->set_name("prod");
  request.set_idempotency_key("once");
  const auto submit = [&] {
    grpc::ClientContext context;
    testing::Token().Attach(context);
    v1::SubmitJobResponse response;
    (void)stub->SubmitJob(&context, request, &response);
    return response.job_id();
  };
  const uint64_t job = submit();
  CHECK(submit() == job);
  request.mutable_spec()->set_name("other");  // with the key of another spec
  CHECK(submit() == 0);
  const auto audit = AuditOf(edge);
  REQUIRE(audit.size() >= 3);
  for (const AuditEntry& done : {audit[audit.size() - 3], audit[audit.size() - 2]}) {
    CHECK(done.object == FormatJobName(job));
    CHECK(done.detail == "job prod");
    CHECK(done.owner == "ann");
    CHECK(done.outcome == "done");
  }
  CHECK(audit.back().object == "job other");
  CHECK(audit.back().outcome == "invalid_argument");
}

TEST_CASE("an order that the node's state refuses is recorded as refused", "[edge][people]") {
  Edge edge;
  const auto stub = v1::Scheduler::NewStub(edge.channel());
  testing::Stream node(edge.address());
  node.Hello("n1");
  REQUIRE(node.Next().has_welcome());
  grpc::ClientContext context;
  testing::Token().Attach(context);
  v1::ControlNodeRequest remove;
  *remove.mutable_caller() = CallerOf("olga");
  remove.set_node("n1");
  remove.set_verb(v1::NODE_VERB_REMOVE);
  v1::MutationResponse response;
  const grpc::Status status = stub->ControlNode(&context, remove, &response);
  REQUIRE_FALSE(status.ok());
  const AuditEntry recorded = AuditOf(edge).back();
  CHECK(recorded.object == "node n1");
  CHECK(recorded.outcome == "conflict");
  CHECK_THAT(recorded.detail, Catch::Contains("its agent answers"));
}

TEST_CASE("who is refused all the time does not fill the audit", "[edge][people]") {
  Edge edge;
  const auto stub = v1::Scheduler::NewStub(edge.channel());
  const size_t before = AuditOf(edge).size();
  for (int i = 0; i < 100; ++i) {
    grpc::ClientContext context;
    testing::Token().Attach(context);
    v1::ChangePeopleRequest request;
    *request.mutable_caller() = CallerOf("ann");
    request.set_remove_user("bob");
    v1::ChangePeopleResponse response;
    CHECK(stub->ChangePeople(&context, request, &response).error_code() ==
          grpc::StatusCode::PERMISSION_DENIED);
  }
  CHECK(AuditOf(edge).size() == before + AuditTally::kEach);
}

TEST_CASE("a user has so many jobs that have not finished", "[edge][people]") {
  Edge edge;
  const auto stub = v1::Scheduler::NewStub(edge.channel());
  const auto submit = [&](const std::string& user, uint32_t count) {
    grpc::ClientContext context;
    testing::Token().Attach(context);
    v1::SubmitJobRequest request;
    *request.mutable_caller() = CallerOf(user);
    *request.mutable_spec() = wire::ToProto(testing::AJob().Spec());
    request.mutable_spec()->set_count(count);
    v1::SubmitJobResponse response;
    const grpc::Status status = stub->SubmitJob(&context, request, &response);
    return status.ok() ? Error{} : rpc::FromGrpc(status, context);
  };
  testing::Stream node(edge.address());
  node.Hello("n1");
  node.Next();
  REQUIRE(submit("ann", kArrayCountMax).message == "");
  const Error refused = submit("ann", testing::kUserJobs - kArrayCountMax + 1);
  CHECK(refused.code == ErrorCode::kLimitReached);
  CHECK_THAT(refused.message, Catch::Contains("ann has 10000") && Catch::Contains("--user-jobs"));
  CHECK(submit("bob", 1).message == "");
  CHECK(submit("ann", testing::kUserJobs - kArrayCountMax).message == "");
  CHECK(submit("ann", 1).code == ErrorCode::kLimitReached);
  // A job that has ended counts no more: the second waits, as the first has the node.
  REQUIRE(edge.world.Do(CancelRequested{JobId(2), "ann", ""}).status);
  CHECK(submit("ann", 1).message == "");
  CHECK(submit("ann", 1).code == ErrorCode::kLimitReached);
}

TEST_CASE("the waiting jobs of a user who is removed are held", "[edge][people]") {
  Edge edge;
  const auto stub = v1::Scheduler::NewStub(edge.channel());
  testing::Stream node(edge.address());
  node.Hello("n1");
  node.Next();
  (void)edge.Submit(testing::AJob());
  (void)edge.Submit(testing::AJob());
  const auto state = [&] { return edge.world.View().jobs(1).state(); };
  REQUIRE(state() == v1::JOB_STATE_QUEUED);
  grpc::ClientContext context;
  testing::Token().Attach(context);
  v1::ChangePeopleRequest request;
  *request.mutable_caller() = CallerOf("adam");
  request.set_remove_user("ann");
  v1::ChangePeopleResponse response;
  REQUIRE(stub->ChangePeople(&context, request, &response).ok());
  CHECK(testing::Eventually([&] { return state() == v1::JOB_STATE_HELD; }));
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
