#include "api/http/limits.h"

#include <catch2/catch.hpp>

#include "api/testing/harness.h"
#include "common/base/time.h"

namespace tide::api {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST_CASE("an allowance may be taken at once, and comes back with time", "[api][limits]") {
  Allowance allowance(60);
  for (int i = 0; i < 60; ++i) {
    CHECK(allowance.Take("a", 1, kSecond) == 0);
  }
  CHECK(allowance.Take("a", 1, kSecond) == kSecond);
  CHECK(allowance.Take("b", 60, kSecond) == 0);
  CHECK(allowance.Take("a", 1, 2 * kSecond) == 0);
  CHECK(allowance.Take("a", 2, 3 * kSecond) == kSecond);
  CHECK(allowance.Take("a", 60, 1000 * kSecond) == 0);
}

TEST_CASE("what is charged may lead into debt", "[api][limits]") {
  Allowance allowance(60);
  CHECK(allowance.Charge("a", 60, 0) == 0);
  CHECK(allowance.Charge("a", 3, 0) == 3 * kSecond);
  CHECK(allowance.Take("a", 1, 0) == 4 * kSecond);
  CHECK(allowance.Charge("a", 0, 3 * kSecond) == 0);
}

TEST_CASE("slots are counted by user and in all", "[api][limits]") {
  Slots slots(3, 2, {"all taken", "slots", "--slots"});
  auto first = slots.Take("a");
  const auto second = slots.Take("a");
  REQUIRE((first && second));
  CHECK(slots.Take("a").error().status == 429);
  const auto others = slots.Take("b");
  REQUIRE(others);
  CHECK(slots.Take("c").error().status == 503);
  first->reset();
  CHECK(slots.open() == 2);
  CHECK(slots.Take("a"));
}

TEST_CASE("a user has so many requests under way", "[api][limits]") {
  const auto requests = std::make_shared<RequestSlots>(1);
  testing::Harness api({.requests = requests});
  {
    const auto under_way = requests->Take("alice");
    const auto refused = api.Get("/v1/jobs");
    CHECK(refused.status == 429);
    CHECK_THAT(refused.body, Catch::Contains("--user-requests"));
    CHECK(api.Get("/healthz").status == 200);
    api.token = testing::TokenOf("bob");
    CHECK(api.Get("/v1/jobs").status == 200);
    api.token = testing::TokenOf("alice");
  }
  CHECK(api.Get("/v1/jobs").status == 200);
}

TEST_CASE("who submits too often is told when to come back", "[api][limits]") {
  testing::Harness api({.allowances = std::make_shared<Allowances>(1)});
  const std::string spec = R"({"version": 1, "name": "a", "command": ["true"]})";
  CHECK(api.Post("/v1/jobs", spec).status < 300);
  const auto refused = api.Post("/v1/jobs", spec);
  CHECK(refused.status == 429);
  CHECK(std::stoi(refused.headers.at("retry-after")) > 1);
  CHECK_THAT(refused.body, Catch::Contains("alice") && Catch::Contains("--user-submits"));
  api.token = testing::TokenOf("bob");
  CHECK(api.Post("/v1/jobs", spec).status < 300);
}

TEST_CASE("who is in debt for logs reads no more of them", "[api][limits]") {
  const auto allowances = std::make_shared<Allowances>(1, 1);
  testing::Harness api({.allowances = allowances});
  api.Show({testing::RunningJob(1, "a", "alice")});
  CHECK(api.Get("/v1/jobs/j-1/logs").status == 404);  // it has no attempt yet
  allowances->log_bytes.Charge("alice", 1, MonotonicNanos());
  allowances->log_bytes.Charge("alice", 1, MonotonicNanos());
  const auto refused = api.Get("/v1/jobs/j-1/logs");
  CHECK(refused.status == 429);
  CHECK_THAT(refused.body, Catch::Contains("--user-log-mib"));
}

TEST_CASE("a body is nested so deep and no deeper", "[api][limits]") {
  testing::Harness api;
  api.Show({testing::RunningJob(1, "a", "alice")});
  const auto told = [&api](int depth, const std::string& inside) {
    const auto count = static_cast<size_t>(depth);
    return api
        .Post("/v1/jobs/j-1/suspend",
              "{\"reason\": " + std::string(count, '[') + inside + std::string(count, ']') + "}")
        .body;
  };
  CHECK_THAT(told(63, ""), !Catch::Contains("nested deeper"));
  CHECK_THAT(told(64, ""), Catch::Contains("nested deeper than 64"));
  CHECK_THAT(told(500'000, ""), Catch::Contains("nested deeper than 64"));
  CHECK_THAT(told(1, "\"\\\"" + std::string(100, '[') + "\""), !Catch::Contains("nested deeper"));
}

}  // namespace
}  // namespace tide::api
