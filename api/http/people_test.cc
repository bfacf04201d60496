// Every cell of the table of permissions, through HTTP.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "api/testing/harness.h"
#include "common/people/permissions.h"

namespace tide::api {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::Harness;
using testing::TokenOf;

constexpr const char* kTrueSpec = R"({"version": 1, "name": "x", "command": ["true"]})";

// A call that does one operation, about a job of `owner` where it is about one.
struct Try {
  Operation operation;
  const char* method;
  const char* path;  // {job}: the job's
  const char* body = "";
};

// One for each operation that HTTP has. Calls that change something change nothing that the next
// needs: names are of nobody, and 404 is an answer as good as 200.
constexpr Try kTries[] = {
    {Operation::kSeeJobs, "GET", "/v1/jobs/{job}"},
    {Operation::kSeeInside, "GET", "/v1/jobs/{job}/why"},
    {Operation::kReadLogs, "GET", "/v1/jobs/{job}/logs"},
    {Operation::kSubmitJob, "POST", "/v1/jobs", kTrueSpec},
    {Operation::kPlanJob, "POST", "/v1/plan", kTrueSpec},
    {Operation::kControlJob, "POST", "/v1/jobs/{job}/suspend"},
    {Operation::kRunCommand, "POST", "/v1/jobs/{job}/exec", R"({"argv": ["true"]})"},
    {Operation::kUseSecrets, "GET", "/v1/secrets"},
    {Operation::kSeeNodes, "GET", "/v1/nodes"},
    {Operation::kControlNode, "POST", "/v1/nodes/n1/drain", R"({"reason": "x"})"},
    {Operation::kSeeImages, "GET", "/v1/images"},
    {Operation::kPullImage, "POST", "/v1/images/pull", "{}"},
    {Operation::kSeeFaults, "GET", "/v1/faults"},
    {Operation::kSeeSelf, "GET", "/v1/session"},
    {Operation::kManageOwnTokens, "DELETE", "/v1/tokens/999"},
    {Operation::kSeeUsers, "GET", "/v1/users"},
    {Operation::kManageUsers, "DELETE", "/v1/users/nobody"},
    {Operation::kSeeProjects, "GET", "/v1/projects"},
    {Operation::kManageProjects, "DELETE", "/v1/projects/none"},
    {Operation::kReadAudit, "GET", "/v1/audit"},
};

std::string PathFor(const Try& tried, const std::string& job) {
  std::string path = tried.path;
  if (const size_t at = path.find("{job}"); at != std::string::npos) {
    path.replace(at, 5, job);
  }
  return path;
}

bool IsAboutJob(const Try& tried) {
  return std::string_view(tried.path).find("{job}") != std::string_view::npos;
}

// j-1 is of the user who asks, j-2 in a project that shows its members' work, j-3 another's.
struct Asked {
  explicit Asked(const std::string& user) {
    api.token = TokenOf("adam");
    REQUIRE(api.Call("PUT", "/v1/projects/shared", R"({"visibility": "project"})").status == 200);
    for (const std::string& member : {user, std::string("bob")}) {
      REQUIRE(api.Call("PUT", "/v1/projects/shared/members/" + member, "").status == 200);
    }
    v1::Job own = testing::RunningJob(1, "own", user);
    v1::Job shared = testing::RunningJob(2, "shared", "bob");
    shared.mutable_spec()->set_project("shared");
    v1::Job other = testing::RunningJob(3, "other", "bob");
    api.Show({own, shared, other}, {testing::ReadyNode("n1", "")});
    api.token = TokenOf(user);
  }
  Harness api;
};

constexpr std::pair<Relation, const char*> kRelations[] = {
    {Relation::kOwn, "j-1"}, {Relation::kMember, "j-2"}, {Relation::kOther, "j-3"}};

TEST_CASE("each operation, by each role, in each relation", "[api][people]") {
  const auto [user, role] = GENERATE(table<std::string, Role>({{"vera", Role::kViewer},
                                                               {"alice", Role::kUser},
                                                               {"olga", Role::kOperator},
                                                               {"adam", Role::kAdmin}}));
  std::set<Operation> tried;
  Asked world(user);
  for (const Try& each : kTries) {
    tried.insert(each.operation);
    for (const auto& [relation, job] : kRelations) {
      if (!IsAboutJob(each) && relation != Relation::kOwn) {
        continue;  // about no job: nobody's, or one's own
      }
      INFO(user << " " << each.method << " " << PathFor(each, job));
      const Answer answer = world.api.Call(each.method, PathFor(each, job), each.body);
      const bool allowed = IsAllowed(role, kAllScopes, each.operation, relation);
      CHECK(answer.status != 401);
      CHECK((answer.status != 403 || answer.body.find("exec_forbidden") != std::string::npos) ==
            allowed);
    }
  }
  CHECK(tried.size() == kOperations);
}

TEST_CASE("a token may do what its scopes allow", "[api][people]") {
  for (const Scope scope : {Scope::kRead, Scope::kJobs, Scope::kNodes, Scope::kAdmin}) {
    Asked world("adam");
    const json token =
        json::parse(world.api.Post("/v1/tokens", json{{"scopes", ScopeName(scope)}}.dump()).body);
    world.api.token = token["token"];
    for (const Try& each : kTries) {
      INFO(ScopeName(scope) << " " << each.method << " " << each.path);
      const Answer answer = world.api.Call(each.method, PathFor(each, "j-1"), each.body);
      const bool allowed =
          IsAllowed(Role::kAdmin, static_cast<uint32_t>(scope), each.operation, Relation::kOwn);
      CHECK((answer.status != 403 || answer.body.find("exec_forbidden") != std::string::npos) ==
            allowed);
    }
  }
}

TEST_CASE("every route has an operation, or is open and says so", "[api][people]") {
  Harness api;
  std::set<std::string> open;
  std::set<Operation> named;
  for (const Route& route : api.routes()) {
    if (route.access) {
      named.insert(*route.access);
    } else {
      open.insert(route.pattern);
    }
  }
  CHECK(open == std::set<std::string>{"/healthz", "/metrics", "/readyz", "/v1/login"});
  CHECK(named.size() == kOperations);
}

TEST_CASE("of another's job a list shows the outline", "[api][people]") {
  Asked world("alice");
  v1::Job secret = testing::RunningJob(4, "secret", "bob");
  (*secret.mutable_spec()->mutable_env())["PASSWORD"] = "hush";
  secret.mutable_spec()->add_command("--key=hush");
  secret.mutable_spec()->set_workdir("/data/bob/hush");
  testing::AddAttempt(secret, 1, {"n1"});
  world.api.Show({secret});
  const json outline = json::parse(world.api.Get("/v1/jobs/j-4").body);
  CHECK(outline["shown"] == "outline");
  CHECK(outline["user"] == "bob");
  CHECK(outline["spec"]["name"] == "secret");
  CHECK(outline["state"] == "running");
  CHECK(outline["attempts"].empty());
  for (const char* path : {"/v1/jobs/j-4", "/v1/jobs", "/v1/jobs?state=running"}) {
    CHECK(world.api.Get(path).body.find("hush") == std::string::npos);
  }
  CHECK(world.api.Open("/v1/stream")->WaitFor("snapshot").find("hush") == std::string::npos);

  world.api.token = TokenOf("olga");
  CHECK(world.api.Get("/v1/jobs").body.find("hush") == std::string::npos);
  CHECK(world.api.Get("/v1/jobs/j-4").body.find("hush") != std::string::npos);
  const auto looks = world.api.upstream.scheduler.audited();
  REQUIRE_FALSE(looks.empty());
  CHECK(looks.back().operation() == "jobs.inside");
  CHECK(looks.back().object() == "j-4");
  CHECK(looks.back().owner() == "bob");
  CHECK(looks.back().outcome() == "done");
  CHECK(looks.back().caller().user() == "olga");
}

TEST_CASE("what is refused is recorded, and where the record fails nothing is shown",
          "[api][people]") {
  Asked world("alice");
  const size_t before = world.api.upstream.scheduler.audited().size();
  CHECK(world.api.Get("/v1/jobs/j-3/logs").status == 403);
  CHECK(world.api.Post("/v1/nodes/n1/drain", R"({"reason": "x"})").status == 403);
  const auto audited = world.api.upstream.scheduler.audited();
  REQUIRE(audited.size() == before + 2);
  CHECK(audited[before].operation() == "logs.read");
  CHECK(audited[before].outcome() == "permission_denied");
  CHECK(audited[before + 1].operation() == "nodes.control");
}

TEST_CASE("a revoked token ends at once, its streams with it", "[api][people]") {
  Harness api;
  const json made = json::parse(api.Post("/v1/tokens", R"({"label": "laptop"})").body);
  const std::string first = api.token;
  api.token = made["token"];
  CHECK(api.Get("/v1/jobs").status == 200);
  const auto stream = api.Open("/v1/stream");
  CHECK(stream->WaitFor("snapshot").find("snapshot") != std::string::npos);
  const json listed = json::parse(api.Get("/v1/tokens").body)["items"];
  CHECK(std::ranges::count_if(listed, [](const json& each) { return each["this"] == true; }) == 1);
  CHECK(api.Call("DELETE", "/v1/tokens/" + made["id"].dump(), "").status == 200);
  CHECK(api.Get("/v1/jobs").status == 401);
  CHECK(stream->WaitForEnd().find("(not ended)") == std::string::npos);
  api.token = first;
  CHECK(api.Get("/v1/jobs").status == 200);
}

TEST_CASE("users and projects are made, changed and removed", "[api][people]") {
  Harness api;
  api.token = TokenOf("adam");
  CHECK(api.Post("/v1/users", R"({"name": "eve", "uid": 20017, "gids": [20017, 44]})").status ==
        201);
  CHECK(api.Post("/v1/users", R"({"name": "eve"})").status == 409);
  CHECK(api.Post("/v1/users", R"({"name": "root user"})").status == 422);
  CHECK(api.Post("/v1/users", R"({"name": "mallory", "uid": 0, "gids": [0]})").status == 422);
  CHECK(api.Post("/v1/users", R"({"name": "mallory", "uid": 999})").status == 422);
  CHECK(api.Post("/v1/users", R"({"name": "mallory", "uid": 20017})").status == 409);
  CHECK(api.Post("/v1/users", R"({"name": "mallory", "rolle": "admin"})").status == 422);
  CHECK(api.Call("PATCH", "/v1/users/eve", R"({"role": "operator"})").status == 200);
  const json users = json::parse(api.Get("/v1/users").body)["items"];
  const auto eve =
      std::ranges::find_if(users, [](const json& user) { return user["name"] == "eve"; });
  REQUIRE(eve != users.end());
  CHECK((*eve)["role"] == "operator");
  CHECK((*eve)["uid"] == 20017);
  CHECK(api.Call("PATCH", "/v1/users/adam", R"({"role": "user"})").status == 409);
  CHECK(api.Call("DELETE", "/v1/users/adam", "").status == 409);
  CHECK(api.Call("DELETE", "/v1/users/eve", "").status == 200);
  CHECK(api.Call("DELETE", "/v1/users/eve", "").status == 404);

  CHECK(api.Call("PUT", "/v1/projects/vision", "").status == 200);
  CHECK(api.Call("PUT", "/v1/projects/vision/members/alice", R"({"max_class": "high"})").status ==
        200);
  CHECK(api.Call("PUT", "/v1/projects/vision/members/nobody", "").status == 404);
  CHECK(api.Call("PUT", "/v1/projects/vision/members/alice", R"({"max_class": "hi"})").status ==
        422);
  const json project = json::parse(api.Get("/v1/projects").body)["items"][0];
  CHECK(project["members"][0]["max_class"] == "high");
  api.token = TokenOf("alice");
  const json self = json::parse(api.Get("/v1/session").body);
  CHECK(self["projects"][0]["name"] == "vision");
}

}  // namespace
}  // namespace tide::api
