// Secrets over HTTP: in, listed, out of the way; never back.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "api/testing/harness.h"

namespace tide::api {
namespace {

using Catch::Contains;
using nlohmann::json;
using testing::Harness;
using testing::HeaderList;

const HeaderList kBytes = {{"content-type", "application/octet-stream"}};

TEST_CASE("a secret is set for the caller, and only told about", "[api][secrets]") {
  Harness api;
  const std::string value("hunter2\0\n", 9);
  const auto set = api.Call("PUT", "/v1/secrets/hf-token", value, kBytes);
  INFO(set.body);
  REQUIRE(set.status == 200);
  CHECK(json::parse(set.body)["name"] == "hf-token");
  CHECK(json::parse(set.body)["bytes"] == 9);
  CHECK_THAT(set.body, !Contains("hunter2"));
  const auto asked = api.upstream.scheduler.secrets_set();
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].caller().user() == "alice");
  CHECK(asked[0].name() == "hf-token");
  CHECK(asked[0].value() == value);

  const auto listed = api.Get("/v1/secrets");
  CHECK(listed.status == 200);
  CHECK_THAT(listed.body, !Contains("hunter2"));
  const json list = json::parse(listed.body);
  REQUIRE(list["items"].size() == 1);
  CHECK(list["items"][0]["name"] == "hf-token");
  CHECK(list["items"][0]["changed_at"].is_string());
  CHECK(list["next_cursor"].is_null());
  CHECK(api.Get("/v1/secrets/hf-token").status == 404);  // no such route

  api.token = testing::TokenOf("olga");  // of somebody else, whatever his role
  CHECK(json::parse(api.Get("/v1/secrets").body)["items"].empty());
  CHECK(api.Call("DELETE", "/v1/secrets/hf-token", "").status == 404);
  api.token = testing::TokenOf("alice");
  CHECK(api.Call("DELETE", "/v1/secrets/hf-token", "").status == 200);
  CHECK(json::parse(api.Get("/v1/secrets").body)["items"].empty());
}

TEST_CASE("secrets are for users, and are no JSON", "[api][secrets]") {
  Harness api;
  api.token = testing::TokenOf("vera");
  CHECK(api.Call("PUT", "/v1/secrets/a", "x", kBytes).status == 403);
  CHECK(api.Get("/v1/secrets").status == 403);
  api.token = "";
  CHECK(api.Call("PUT", "/v1/secrets/a", "x", kBytes).status == 401);
  api.token = testing::TokenOf("alice");
  const auto typed = api.Call(
      "PUT", "/v1/secrets/a", R"({"value":"hunter2"})", {{"content-type", "application/json"}});
  CHECK(typed.status == 415);
  CHECK_THAT(typed.body, Contains("application/octet-stream") && !Contains("hunter2"));
  const auto large = api.Call("PUT", "/v1/secrets/a", std::string(65537, 'x'), kBytes);
  CHECK(large.status == 413);
  CHECK_THAT(large.body, Contains("64 KiB"));
  CHECK(api.upstream.scheduler.secrets_set().empty());
}

TEST_CASE("what the scheduler refuses is said", "[api][secrets]") {
  Harness api;
  api.upstream.scheduler.FailNext(201, "start tide-scheduler with --secret-key-file");
  const auto refused = api.Call("PUT", "/v1/secrets/a", "hunter2", kBytes);
  CHECK(refused.status == 409);
  CHECK_THAT(refused.body, Contains("--secret-key-file") && !Contains("hunter2"));
}

}  // namespace
}  // namespace tide::api
