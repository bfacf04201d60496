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

}  // namespace
}  // namespace tide::api
