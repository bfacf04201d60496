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

// Values for the names in a route's path. Names are of nobody, so that calls which change
// something change nothing that the next needs: 404 is an answer as good as 200.
std::string PathFor(const Route& route, const std::string& job) {
  const std::map<std::string, std::string> names = {{"{ref}", job},
                                                    {"{name}", "none"},
                                                    {"{user}", "none"},
                                                    {"{id}", "999"},
                                                    {"{session}", "none"}};
  std::string path = route.pattern;
  for (size_t begin = path.find('{'); begin != std::string::npos; begin = path.find('{')) {
    const size_t length = path.find('}', begin) + 1 - begin;
    path.replace(begin, length, names.at(path.substr(begin, length)));
  }
  return path;
}

// Bodies without which a call gets no further than its form.
std::string BodyFor(const Route& route) {
  const std::map<std::string, std::string> bodies = {
      {"/v1/jobs", R"({"version": 1, "name": "x", "command": ["true"]})"},
      {"/v1/plan", R"({"version": 1, "name": "x", "command": ["true"]})"},
      {"/v1/jobs/{ref}/exec", R"({"argv": ["true"]})"}};
  const auto found = bodies.find(route.pattern);
  return route.method == "GET" || found == bodies.end() ? "" : found->second;
}

bool IsAboutJob(const Route& route) {
  return route.pattern.find("{ref}") != std::string::npos;
}

Answer Ask(Harness& api, const Route& route, const std::string& job) {
  // The head is enough where the body never ends.
  const std::string method = route.pattern == "/v1/stream" ? "HEAD" : route.method;
  return api.Call(method, PathFor(route, job), BodyFor(route));
}

// Commands in tasks are forbidden here to whoever may run them, too.
bool IsRefused(const Answer& answer) {
  return answer.status == 403 && answer.body.find("exec_forbidden") == std::string::npos;
}

// A token for one call: it may be one that ends it.
std::string NewToken(Harness& api, const std::string& scopes = "read,jobs,nodes,admin") {
  return json::parse(api.Post("/v1/tokens", json{{"scopes", scopes}}.dump()).body)["token"];
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

TEST_CASE("each route, by each role, in each relation", "[api][people]") {
  const auto [user, role] = GENERATE(table<std::string, Role>({{"vera", Role::kViewer},
                                                               {"alice", Role::kUser},
                                                               {"olga", Role::kOperator},
                                                               {"adam", Role::kAdmin}}));
  Asked world(user);
  const std::string own = world.api.token;
  for (const Route& route : world.api.routes()) {
    for (const auto& [relation, job] : kRelations) {
      if (!route.access || (!IsAboutJob(route) && relation != Relation::kOwn)) {
        continue;  // about no job: nobody's, or one's own
      }
      INFO(user << " " << route.method << " " << PathFor(route, job));
      world.api.token = own;
      world.api.token = NewToken(world.api);
      const size_t recorded = world.api.upstream.scheduler.audited().size();
      const Answer answer = Ask(world.api, route, job);
      const bool allowed = IsAllowed(role, kAllScopes, *route.access, relation);
      CHECK(answer.status != 401);
      CHECK(IsRefused(answer) == !allowed);
      if (!allowed) {
        REQUIRE(world.api.upstream.scheduler.audited().size() == recorded + 1);
        const auto record = world.api.upstream.scheduler.audited().back();
        CHECK(record.caller().user() == user);
        CHECK(record.operation() == PermissionOf(*route.access).name);
        CHECK(record.outcome() == "permission_denied");
      }
      world.api.token = own;
      for (const json& each : json::parse(world.api.Get("/v1/tokens").body)["items"]) {
        if (each["this"] == false) {
          world.api.Call("DELETE", "/v1/tokens/" + each["id"].dump(), "");
        }
      }
    }
  }
}

TEST_CASE("a token may do what its scopes allow", "[api][people]") {
  const Scope scope = GENERATE(Scope::kRead, Scope::kJobs, Scope::kNodes, Scope::kAdmin);
  Asked world("adam");
  const std::string own = world.api.token;
  for (const Route& route : world.api.routes()) {
    if (!route.access) {
      continue;
    }
    INFO(ScopeName(scope) << " " << route.method << " " << route.pattern);
    world.api.token = own;
    world.api.token = NewToken(world.api, std::string(ScopeName(scope)));
    const Answer answer = Ask(world.api, route, "j-1");
    CHECK(IsRefused(answer) ==
          !IsAllowed(Role::kAdmin, static_cast<uint32_t>(scope), *route.access, Relation::kOwn));
  }
}

TEST_CASE("a job's token is about that job, while its attempt runs", "[api][people]") {
  const std::string secret(64, '5');
  Asked world("alice");
  v1::Job own = testing::RunningJob(1, "own", "alice");
  own.set_token_sha256(SecretDigest(secret));
  world.api.Show({own, testing::RunningJob(4, "also-hers", "alice")});
  world.api.token = MakeJobTokenText(1, secret);
  for (const Route& route : world.api.routes()) {
    for (const char* job : {"j-1", "j-2", "j-3", "j-4", "j-1[]", "none"}) {
      if (!route.access || (!IsAboutJob(route) && std::string_view(job) != "j-1")) {
        continue;
      }
      INFO(route.method << " " << PathFor(route, job));
      const Answer answer = Ask(world.api, route, job);
      const bool allowed =
          IsAboutJob(route) && std::string_view(job) == "j-1" && PermissionOf(*route.access).by_job;
      CHECK(answer.status != 401);
      CHECK((answer.status == 403) == !allowed);
    }
  }
  CHECK(json::parse(world.api.Get("/v1/jobs/own").body)["id"] == "j-1");
  // It signs nobody in: a session would see all jobs of its user, and outlast the attempt.
  const std::string token = world.api.token;
  world.api.token = "";
  const Answer login = world.api.Post("/v1/login", json{{"token", token}}.dump());
  CHECK(login.status == 403);
  CHECK_FALSE(login.headers.contains("set-cookie"));
  world.api.token = token;
  CHECK(world.api.upstream.scheduler.audited().back().caller().user() == "alice");

  world.api.token = MakeJobTokenText(4, secret);  // which has none
  CHECK(world.api.Get("/v1/jobs/j-4").status == 401);
  world.api.token = MakeJobTokenText(1, std::string(64, '6'));
  CHECK(world.api.Get("/v1/jobs/j-1").status == 401);
  world.api.token = MakeJobTokenText(99, secret);
  CHECK(world.api.Get("/v1/jobs/j-99").status == 401);
  world.api.token = MakeJobTokenText(1, secret);
  CHECK(world.api.Get("/v1/jobs/j-1").body.find(SecretDigest(secret)) == std::string::npos);
  own.clear_token_sha256();
  own.set_state(v1::JOB_STATE_FINISHED);
  world.api.Show({own});
  CHECK(world.api.Get("/v1/jobs/j-1").status == 401);
}

TEST_CASE("wrong tokens are in the audit, as a count for each address", "[api][people]") {
  Harness::Options options;
  options.tell_every = std::chrono::milliseconds(50);
  Harness api(options);
  constexpr int kTries = 7;
  for (int i = 0; i < kTries; ++i) {
    api.token = MakeTokenText(1, std::string(64, 'f'));
    CHECK(api.Get("/v1/jobs").status == 401);
  }
  int told = 0;
  api.token = TokenOf("alice");
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (told < kTries && std::chrono::steady_clock::now() < until) {
    told = 0;
    api.Get("/v1/jobs");
    for (const auto& record : api.upstream.scheduler.audited()) {
      CHECK(record.caller().address() == "127.0.0.1");
      CHECK(record.caller().user().empty());
      CHECK(record.outcome() == "unauthenticated");
      CHECK_THAT(record.detail(), Catch::EndsWith("wrong tokens or codes, the last: tide_1"));
      told += std::stoi(record.detail());
    }
  }
  CHECK(told == kTries);
}

TEST_CASE("the audit is asked for by time, user and operation", "[api][people]") {
  Harness api;
  api.token = TokenOf("adam");
  CHECK(api.Get("/v1/audit?from=7&limit=50&since=2026-01-31T12:00:00Z&until=2026-02-01T00:00:00Z"
                "&user=olga&operation=jobs.inside")
            .status == 200);
  const v1::ReadAuditRequest asked = api.upstream.scheduler.audit_reads().back();
  CHECK(asked.from() == 7);
  CHECK(asked.most() == 50);
  CHECK(asked.until() - asked.since() == int64_t{12} * 3600 * 1'000'000'000);
  CHECK(asked.user() == "olga");
  CHECK(asked.operation() == "jobs.inside");
  CHECK(api.Get("/v1/audit?since=10m").status == 200);
  CHECK(api.upstream.scheduler.audit_reads().back().since() > 0);
  CHECK(api.Get("/v1/audit?since=yesterday").status == 422);
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
  for (const json& attempt : outline["attempts"]) {  // its times alone
    CHECK(attempt["tasks"].empty());
    CHECK(attempt["end_detail"].is_null());
  }
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
