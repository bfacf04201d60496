#include "api/http/auth.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "api/testing/harness.h"
#include "common/base/file.h"
#include "common/base/time.h"
#include "common/digest/sha256.h"

namespace tide::api {
namespace {

using testing::Answer;
using testing::Harness;
using testing::TempFolder;

std::string CodeOf(const Answer& answer) {
  const auto body = nlohmann::json::parse(answer.body, nullptr, false);
  return body.is_object() ? body.value("code", "") : "";
}

TEST_CASE("a token file that others can read is refused, and a wrong line is named",
          "[api][auth]") {
  const TempFolder folder;
  const std::string path = folder / "tokens";
  const std::string good = "# people\n" + Sha256Hex("t") + " alice user\n\n";
  REQUIRE(WriteFileDurably(path, good, 0644));
  REQUIRE(::chmod(path.c_str(), 0644) == 0);
  CHECK(LoadTokens(path).error().code == ErrorCode::kPermissionDenied);
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  REQUIRE(LoadTokens(path));
  CHECK(LoadTokens(path)->size() == 1);
  REQUIRE(WriteFileDurably(path, good + "nothex bob user\n"));
  CHECK_THAT(LoadTokens(path).error().message, Catch::Contains("tokens:4"));
  CHECK_FALSE(LoadTokens(folder / "none"));
}

TEST_CASE("cookies and hosts are read from their headers", "[api][auth]") {
  CHECK(CookieValue("a=1; tide_session=abc; b=2", "tide_session") == "abc");
  CHECK(CookieValue("xtide_session=abc", "tide_session").empty());
  CHECK(HostName("localhost:7070") == "localhost");
  CHECK(HostName("[::1]:7070") == "::1");
}

TEST_CASE("without a token, with a wrong one and with too small a role", "[api][auth]") {
  Harness api;
  api.token = "";
  const Answer none = api.Get("/v1/jobs");
  CHECK(none.status == 401);
  CHECK(none.headers.at("content-type") == "application/problem+json; charset=utf-8");
  CHECK_THAT(none.body, Catch::Contains("Bearer"));
  CHECK(none.headers.contains("www-authenticate"));
  CHECK(api.Get("/healthz").status == 200);

  api.token = "wrong";
  CHECK(CodeOf(api.Get("/v1/jobs")) == "unauthenticated");

  api.token = "viewer-token";
  CHECK(api.Get("/v1/jobs").status == 200);
  const Answer submit = api.Post("/v1/jobs", R"({"command": ["true"]})");
  CHECK(submit.status == 403);
  CHECK_THAT(submit.body, Catch::Contains("vera is a viewer"));
  CHECK(api.upstream.scheduler.submits().empty());

  api.token = "user-token";
  api.Show({}, {testing::ReadyNode("n1", "")});
  CHECK(api.Post("/v1/nodes/n1/drain", "").status == 403);
  api.token = "operator-token";
  CHECK(api.Post("/v1/nodes/n1/drain", R"({"reason": "fans"})").status == 200);
  REQUIRE(api.upstream.scheduler.node_controls().size() == 1);
  CHECK(api.upstream.scheduler.node_controls()[0].actor() == "olga");
  CHECK(api.upstream.scheduler.node_controls()[0].reason() == "fans");
  CHECK(api.upstream.scheduler.last_cluster_token() == "cluster-secret");
}

TEST_CASE("a user controls own jobs only, an operator all", "[api][auth]") {
  Harness api;
  api.Show({testing::RunningJob(1, "a", "bob")});
  const Answer refused = api.Post("/v1/jobs/j-1/cancel", "");
  CHECK(refused.status == 403);
  CHECK_THAT(refused.body, Catch::Contains("belongs to bob"));
  api.token = "operator-token";
  CHECK(api.Post("/v1/jobs/j-1/cancel", "").status == 200);
}

TEST_CASE("a sign-in code works once and gives a session bound to this site", "[api][auth]") {
  Harness api;
  api.token = "";
  api.WriteLoginCode("c0de " + std::to_string(SystemNow().unix_nanos() / 1'000'000'000 + 60) +
                     " alice\n");
  CHECK(api.Post("/v1/login", R"({"code": "nope"})").status == 401);
  CHECK(api.Post("/v1/login", R"({"code": "c0de"})", {{"Origin", "http://evil.test"}}).status ==
        403);
  const Answer login = api.Post("/v1/login", R"({"code": "c0de"})");
  REQUIRE(login.status == 200);
  const std::string cookie = login.headers.at("set-cookie");
  CHECK_THAT(cookie, Catch::Contains("HttpOnly") && Catch::Contains("SameSite=Strict"));
  CHECK(api.Post("/v1/login", R"({"code": "c0de"})").status == 401);

  const std::string pair = cookie.substr(0, cookie.find(';'));
  const Answer session = api.Get("/v1/session", {{"Cookie", pair}});
  CHECK(session.body == R"({"user":"alice","role":"user"})");
  const std::string spec = R"({"version": 1, "name": "x", "command": ["true"]})";
  CHECK(api.Post("/v1/jobs", spec, {{"Cookie", pair}}).status == 403);
  CHECK(api.Post("/v1/jobs", spec, {{"Cookie", pair}, {"Origin", "http://evil.test"}}).status ==
        403);
  CHECK(api.Post("/v1/jobs",
                 spec,
                 {{"Cookie", pair}, {"Origin", "http://localhost"}, {"Host", "localhost"}})
            .status == 201);
}

TEST_CASE("an old code is worth nothing", "[api][auth]") {
  Harness api;
  api.token = "";
  api.WriteLoginCode("c0de 1000 alice\n");
  CHECK(api.Post("/v1/login", R"({"code": "c0de"})").status == 401);
}

TEST_CASE("a Host that is not ours gets nothing, and pages cannot be framed", "[api][auth]") {
  Harness api;
  CHECK(api.Get("/v1/jobs", {{"Host", "evil.test"}}).status == 421);
  const Answer fine = api.Get("/v1/jobs", {{"Host", "localhost:7070"}});
  CHECK(fine.status == 200);
  CHECK(fine.headers.at("x-frame-options") == "DENY");
  CHECK(fine.headers.at("x-content-type-options") == "nosniff");
  CHECK_THAT(fine.headers.at("content-security-policy"), Catch::Contains("default-src 'self'"));
}

}  // namespace
}  // namespace tide::api
