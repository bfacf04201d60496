#include "api/http/auth.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "api/gate/listener.h"
#include "api/testing/harness.h"
#include "common/base/time.h"

namespace tide::api {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::Harness;

std::string CodeOf(const Answer& answer) {
  const auto body = json::parse(answer.body, nullptr, false);
  return body.is_object() ? body.value("code", "") : "";
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

  api.token = testing::TokenOf("vera");
  CHECK(api.Get("/v1/jobs").status == 200);
  const Answer submit = api.Post("/v1/jobs", R"({"command": ["true"]})");
  CHECK(submit.status == 403);
  CHECK_THAT(submit.body, Catch::Contains("vera (viewer) may not submit jobs"));
  CHECK(api.upstream.scheduler.submits().empty());

  api.token = testing::TokenOf("alice");
  api.Show({}, {testing::ReadyNode("n1", "")});
  CHECK(api.Post("/v1/nodes/n1/drain", "").status == 403);
  api.token = testing::TokenOf("olga");
  CHECK(api.Post("/v1/nodes/n1/drain", R"({"reason": "fans"})").status == 200);
  REQUIRE(api.upstream.scheduler.node_controls().size() == 1);
  CHECK(api.upstream.scheduler.node_controls()[0].caller().user() == "olga");
  CHECK(api.upstream.scheduler.node_controls()[0].reason() == "fans");
  CHECK(api.upstream.scheduler.last_cluster_token() == "cluster-secret");
}

TEST_CASE("nodes are validated alone, or with others as one group", "[api]") {
  Harness api;
  api.token = testing::TokenOf("olga");
  api.Show({}, {testing::ReadyNode("n1", "")});
  const std::string validate = "/v1/nodes/n1/validate";
  CHECK(api.Post(validate, "").status == 200);
  CHECK(api.Post(validate, R"({"with": ["n2", "n3"]})").status == 200);
  CHECK(api.Post(validate, R"({"with": "n2"})").status == 422);
  CHECK(api.Post(validate, R"({"with": [2]})").status == 422);
  CHECK(api.Post("/v1/nodes/n1/drain", R"({"reason": "x", "with": ["n2"]})").status == 422);
  const auto controls = api.upstream.scheduler.node_controls();
  REQUIRE(controls.size() == 2);
  CHECK(controls[0].with_size() == 0);
  CHECK(controls[1].node() == "n1");
  REQUIRE(controls[1].with_size() == 2);
  CHECK(controls[1].with(1) == "n3");
}

TEST_CASE("a user controls own jobs only, an operator all", "[api][auth]") {
  Harness api;
  api.Show({testing::RunningJob(1, "a", "bob")});
  const Answer refused = api.Post("/v1/jobs/j-1/cancel", "");
  CHECK(refused.status == 403);
  CHECK_THAT(refused.body, Catch::Contains("of bob: ask them"));
  api.token = testing::TokenOf("olga");
  CHECK(api.Post("/v1/jobs/j-1/cancel", "").status == 200);
}

std::string CookieOf(const Answer& login) {
  const std::string cookie = login.headers.at("set-cookie");
  return cookie.substr(0, cookie.find(';'));
}

TEST_CASE("a sign-in code works once and gives a session bound to this site", "[api][auth]") {
  Harness api;
  const auto made = json::parse(api.Post("/v1/codes", "").body);
  const std::string code = json{{"code", made["token"]}}.dump();
  api.token = "";
  CHECK(api.Post("/v1/login", R"({"code": "nope"})").status == 401);
  CHECK(api.Post("/v1/login", code, {{"Origin", "http://evil.test"}}).status == 403);
  const Answer login = api.Post("/v1/login", code);
  REQUIRE(login.status == 200);
  CHECK_THAT(login.headers.at("set-cookie"),
             Catch::Contains("HttpOnly") && Catch::Contains("SameSite=Strict"));
  CHECK(api.Post("/v1/login", code).status == 401);

  const std::string pair = CookieOf(login);
  const auto session = json::parse(api.Get("/v1/session", {{"Cookie", pair}}).body);
  CHECK(session["user"] == "alice");
  CHECK(session["role"] == "user");
  CHECK(session["kind"] == "session");
  const std::string spec = R"({"version": 1, "name": "x", "command": ["true"]})";
  CHECK(api.Post("/v1/jobs", spec, {{"Cookie", pair}}).status == 403);
  CHECK(api.Post("/v1/jobs", spec, {{"Cookie", pair}, {"Origin", "http://evil.test"}}).status ==
        403);
  const testing::HeaderList here = {
      {"Cookie", pair}, {"Origin", "http://localhost"}, {"Host", "localhost"}};
  CHECK(api.Post("/v1/jobs", spec, here).status == 201);
  // Signed out, it is worth nothing.
  CHECK(api.Post("/v1/logout", "", here).status == 200);
  CHECK(api.Get("/v1/session", {{"Cookie", pair}}).status == 401);
}

TEST_CASE("a token gives a session, too", "[api][auth]") {
  Harness api;
  const std::string body = json{{"token", api.token}}.dump();
  api.token = "";
  const Answer login = api.Post("/v1/login", body);
  REQUIRE(login.status == 200);
  CHECK(api.Get("/v1/jobs", {{"Cookie", CookieOf(login)}}).status == 200);
  CHECK(api.Post("/v1/login", R"({"token": "tide_1_0"})").status == 401);
  CHECK(api.Post("/v1/login", "{}").status == 422);
}

TEST_CASE("a session ends at once with the token that it was made of", "[api][auth]") {
  Harness api;
  const std::string admins = api.token;
  const json made =
      json::parse(api.Post("/v1/tokens", R"({"scopes": "read,jobs", "expires": "1h"})").body);
  const std::string number = made["id"].dump();
  const std::string body = json{{"token", made["token"]}}.dump();
  api.token = made["token"];
  const std::string code = api.Post("/v1/codes", "").body;
  CHECK(api.Post("/v1/tokens", R"({"expires": "never"})").status == 403);
  const Answer capped = api.Post("/v1/tokens", "{}");
  CHECK(json::parse(capped.body)["expires_at"] == made["expires_at"]);
  api.token = "";
  const std::string session = CookieOf(api.Post("/v1/login", body));
  CHECK(api.Get("/v1/session", {{"Cookie", session}}).status == 200);

  api.token = admins;
  CHECK(api.Call("DELETE", "/v1/tokens/" + number, "").status == 200);
  api.token = "";
  CHECK(api.Get("/v1/session", {{"Cookie", session}}).status == 401);
  CHECK(api.Post("/v1/login", json{{"code", json::parse(code)["token"]}}.dump()).status == 401);
  api.token = json::parse(capped.body)["token"];
  CHECK(api.Get("/v1/session").status == 200);
}

TEST_CASE("an old code is worth nothing", "[api][auth]") {
  Harness api;
  CHECK(api.Post("/v1/codes", R"({"ttl_s": 0})").status == 422);
  CHECK(api.Post("/v1/codes", R"({"ttl_s": 601})").status == 422);
  const std::string code = json{{"code", testing::OldCode()}}.dump();
  api.token = "";
  CHECK(api.Post("/v1/login", code).status == 401);
}

TEST_CASE("who guesses is slowed, by address", "[api][auth]") {
  Harness api;
  const std::string right = api.token;
  api.token = "tide_1_" + std::string(64, '0');
  for (size_t i = 0; i < Guesses::kPerMinute; ++i) {
    REQUIRE(api.Get("/v1/jobs").status == 401);
  }
  const Answer slowed = api.Get("/v1/jobs");
  CHECK(slowed.status == 429);
  CHECK(slowed.headers.contains("retry-after"));
  // Only who is wrong: whose token was guessed at, and others of that address, come in.
  api.token = right;
  CHECK(api.Get("/v1/jobs").status == 200);
}

TEST_CASE("guesses are counted by key for a minute, and beyond ten thousand keys together",
          "[api][auth]") {
  constexpr int64_t kMinute = 60'000'000'000;
  Guesses guesses;
  for (size_t i = 0; i < Guesses::kPerMinute; ++i) {
    CHECK(guesses.Take("a", static_cast<int64_t>(i)));
  }
  CHECK(guesses.Take("a", kMinute).error().code == ErrorCode::kExhausted);
  CHECK_FALSE(guesses.Check("a", kMinute));
  CHECK(guesses.Check("b", kMinute));
  CHECK(guesses.Check("a", 3 * kMinute));  // an entry without any stays
  for (int key = 0; key < 10'000; ++key) {
    REQUIRE(guesses.Take("k" + std::to_string(key), 10 * kMinute));
  }
  for (size_t i = 0; i < Guesses::kPerMinute; ++i) {
    CHECK(guesses.Take("more" + std::to_string(i), 10 * kMinute));
  }
  CHECK_FALSE(guesses.Take("yet another", 10 * kMinute));
  CHECK(guesses.Take("k1", 10 * kMinute));
  CHECK(guesses.Take("yet another", 12 * kMinute));
}

TEST_CASE("addresses of one IPv6 network count as one", "[api][auth]") {
  CHECK(NetworkOf("10.1.2.3") == "10.1.2.3");
  CHECK(NetworkOf("2001:db8:1:2:3:4:5:6") == "2001:db8:1:2::");
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
