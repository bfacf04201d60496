// Nodes: who else took a node's name, and removal.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "api/testing/harness.h"

namespace tide::api {
namespace {

using nlohmann::json;
using testing::Harness;
using testing::ReadyNode;

TEST_CASE("an agent that took a node's name is shown with it", "[api][nodes]") {
  Harness api;
  v1::Node node = ReadyNode("n1", "10.0.0.7:7072");
  api.Show({}, {node});
  CHECK(json::parse(api.Get("/v1/nodes/n1").body)["refused_agent"].is_null());
  node.mutable_refused_agent()->set_endpoint("10.0.0.9:7072");
  node.mutable_refused_agent()->set_peer("ipv4:10.0.0.9:51000");
  node.mutable_refused_agent()->set_at(1);
  api.Show({}, {node});
  const json refused = json::parse(api.Get("/v1/nodes/n1").body)["refused_agent"];
  CHECK(refused["endpoint"] == "10.0.0.9:7072");
  CHECK(refused["peer"] == "ipv4:10.0.0.9:51000");
  CHECK(refused["at"].is_string());
}

TEST_CASE("a removed node leaves the lists, and streams are told", "[api][nodes]") {
  Harness api;
  v1::Node node = ReadyNode("n1", "");
  api.Show({}, {node, ReadyNode("n2", "")});
  const auto stream = api.Open("/v1/stream");
  stream->WaitFor("event: snapshot");
  api.token = testing::TokenOf("alice");
  CHECK(api.Call("DELETE", "/v1/nodes/n1", "").status == 403);
  api.token = testing::TokenOf("olga");
  const auto removed = api.Call("DELETE", "/v1/nodes/n1?reason=sold", "");
  CHECK(removed.status == 200);
  CHECK(json::parse(removed.body)["removed"] == "n1");
  const auto asked = api.upstream.scheduler.node_controls().back();
  CHECK(asked.verb() == v1::NODE_VERB_REMOVE);
  CHECK(asked.reason() == "sold");

  node.set_state(v1::NODE_STATE_REMOVED);
  api.Show({}, {node});
  stream->WaitFor(R"("removed":{"jobs":[],"nodes":["n1"])");
  CHECK(api.Get("/v1/nodes/n1").status == 404);
  CHECK(json::parse(api.Get("/v1/nodes").body)["items"].size() == 1);
}

TEST_CASE("times of a drain are passed on as they are named; nonsense is refused here",
          "[api][nodes]") {
  Harness api;
  api.Show({}, {ReadyNode("n1", "")});
  api.token = testing::TokenOf("olga");
  const auto drain = [&](const std::string& times) {
    return api.Post("/v1/nodes/n1/drain", R"({"reason": "fans", )" + times + "}");
  };
  CHECK(drain(R"("deadline": "90m")").status == 200);
  auto asked = api.upstream.scheduler.node_controls().back();
  CHECK(asked.deadline().in_ms() == 90 * 60'000);
  CHECK_FALSE(asked.has_until());
  CHECK(drain(R"("from": "2026-01-31T08:00:00Z", "until": "4h")").status == 200);
  asked = api.upstream.scheduler.node_controls().back();
  CHECK_FALSE(asked.has_deadline());
  CHECK(asked.from().at() == 1'769'846'400'000'000'000);
  CHECK(asked.until().in_ms() == 4 * 3'600'000);
  const size_t passed_on = api.upstream.scheduler.node_controls().size();
  for (const std::string time : {R"("")",
                                 R"("0")",
                                 R"("-5m")",
                                 R"("90")",
                                 R"("soon")",
                                 R"("9999-12-31T00:00:00Z")",
                                 R"("2026-02-30")",
                                 R"("99999999999999999999h")",
                                 "90",
                                 "{}"}) {
    INFO(time);
    const auto refused = drain("\"deadline\": " + time);
    CHECK(refused.status == 422);
    CHECK(refused.body.find("deadline") != std::string::npos);
  }
  CHECK(api.Post("/v1/nodes/n1/undrain", R"({"until": "4h"})").status == 422);
  CHECK(api.upstream.scheduler.node_controls().size() == passed_on);
}

TEST_CASE("what is to come of a drain is shown", "[api][nodes]") {
  Harness api;
  v1::Node node = ReadyNode("n1", "");
  api.Show({}, {node});
  json shown = json::parse(api.Get("/v1/nodes/n1").body);
  CHECK(shown["jobs_leave_at"].is_null());
  CHECK(shown["maintenance"].is_null());
  node.set_jobs_leave_at(1'769'846'400'000'000'000);
  node.mutable_maintenance()->set_begins_at(1'769'846'400'000'000'000);
  node.mutable_maintenance()->set_ends_at(1'769'850'000'000'000'000);
  node.mutable_maintenance()->set_actor("olga");
  node.mutable_maintenance()->set_reason("fans");
  api.Show({}, {node});
  shown = json::parse(api.Get("/v1/nodes/n1").body);
  CHECK(shown["jobs_leave_at"] == "2026-01-31T08:00:00.000Z");
  CHECK(shown["maintenance"] == json{{"begins_at", "2026-01-31T08:00:00.000Z"},
                                     {"ends_at", "2026-01-31T09:00:00.000Z"},
                                     {"actor", "olga"},
                                     {"reason", "fans"},
                                     {"begun", false}});
}

}  // namespace
}  // namespace tide::api
