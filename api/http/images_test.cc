// Images of nodes over HTTP: merged by digest, and pulled by many nodes at once.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "api/http/node_choice.h"
#include "api/testing/harness.h"

namespace tide::api {
namespace {

using Catch::Contains;
using nlohmann::json;
using testing::FakeImages;
using testing::Harness;

const std::string kOne = "sha256:" + std::string(64, '1');
const std::string kTwo = "sha256:" + std::string(64, '2');

v1::NodeImage ImageOf(const std::string& digest, const std::string& name, int64_t used_at) {
  v1::NodeImage image;
  image.set_digest(digest);
  image.add_names(name);
  image.set_bytes(4096);
  image.set_used_at(used_at);
  return image;
}

// Nodes n1 (zone a, group big), n2 (b, big) and n3 (b, small), which is lost.
struct Cluster {
  Cluster() : one(api.folder.path(), "n1"), two(api.folder.path(), "n2") {
    std::vector<v1::Node> nodes = {testing::ReadyNode("n1", one.address()),
                                   testing::ReadyNode("n2", two.address()),
                                   testing::ReadyNode("n3", "unix:/nowhere")};
    nodes[0].set_zone("a");
    nodes[1].set_zone("b");
    nodes[2].set_zone("b");
    nodes[0].set_group("big");
    nodes[1].set_group("big");
    nodes[2].set_group("small");
    nodes[2].set_state(v1::NODE_STATE_LOST);
    nodes[2].set_reason("no heartbeat for 60 s");
    api.Show({}, nodes);
    api.token = testing::TokenOf("olga");
  }
  json List(const std::string& query) {
    const auto answer = api.Get("/v1/images" + query);
    INFO(answer.body);
    CHECK(answer.status == 200);
    return json::parse(answer.body);
  }
  // What came of each node, by name, and the last line.
  std::vector<json> Pull(const std::string& body) {
    const auto answer = api.Post("/v1/images/pull", body);
    INFO(answer.body);
    CHECK(answer.status == 200);
    CHECK(answer.headers.at("content-type") == "application/x-ndjson");
    std::vector<json> lines;
    std::istringstream text(answer.body);
    for (std::string line; std::getline(text, line);) {
      if (!line.empty() && !json::parse(line).contains("progress")) {
        lines.push_back(json::parse(line));
      }
    }
    REQUIRE(lines.size() > 1);
    CHECK(lines.front() == json({{"nodes", lines.size() - 2}}));
    lines.erase(lines.begin());
    std::sort(lines.begin(), lines.end() - 1, [](const json& a, const json& b) {
      return a["node"] < b["node"];
    });
    return lines;
  }
  Harness api;
  FakeImages one;
  FakeImages two;
};

TEST_CASE("images are listed once, with the nodes that have them", "[api][images]") {
  Cluster cluster;
  v1::ListImagesResponse images;
  *images.add_images() = ImageOf(kOne, "train:1", 1'000'000'000);
  images.mutable_images(0)->set_in_use(true);
  cluster.one.Answer({.images = images, .progress = {}, .digest = "", .error = {}});
  images.mutable_images(0)->set_in_use(false);
  images.mutable_images(0)->set_names(0, "train:latest");
  *images.add_images() = ImageOf(kTwo, "eval:2", 2'000'000'000);
  cluster.two.Answer({.images = images, .progress = {}, .digest = "", .error = {}});

  cluster.api.token = testing::TokenOf("vera");
  const json list = cluster.List("");
  REQUIRE(list["items"].size() == 2);
  CHECK(list["items"][0]["digest"] == kTwo);  // the latest used is the first
  CHECK(list["items"][1] == json({{"digest", kOne},
                                  {"names", {"train:1", "train:latest"}},
                                  {"bytes", 4096},
                                  {"nodes", {"n1", "n2"}},
                                  {"in_use_on", {"n1"}},
                                  {"used_at", "1970-01-01T00:00:01.000Z"}}));
  CHECK(list["unreachable"] ==
        json({{{"node", "n3"}, {"error", "it is lost: no heartbeat for 60 s"}}}));
  CHECK(list["asked"] == 3);
  CHECK(list["next_cursor"].is_null());
  CHECK(cluster.List("?zone=a")["items"].size() == 1);
  CHECK(cluster.List("?zone=b&group=big")["items"].size() == 2);
  CHECK(cluster.List("?nodes=n%5B1-2%5D,n3")["asked"] == 3);
  CHECK(cluster.List("?nodes=n1,n1")["asked"] == 1);
}

TEST_CASE("nodes that there are not are said", "[api][images]") {
  Cluster cluster;
  const auto refused = [&](const std::string& query, int status) {
    const auto answer = cluster.api.Get("/v1/images" + query);
    CHECK(answer.status == status);
    return json::parse(answer.body)["detail"].get<std::string>();
  };
  CHECK_THAT(refused("?nodes=n1,n9", 404), Contains("there is no node n9"));
  CHECK_THAT(refused("?zone=z", 404), Contains("there is no zone z"));
  CHECK_THAT(refused("?group=z", 404), Contains("there is no group z"));
  CHECK_THAT(refused("?zone=a&group=small", 404), Contains("no node is all"));
  CHECK_THAT(refused("?nodes=n%5B1", 422), Contains("n[1"));
}

TEST_CASE("an agent that does not answer, and one of an earlier release", "[api][images]") {
  Cluster cluster;
  std::vector<v1::Node> nodes = {testing::ReadyNode("n1", "unix:/nowhere/agent.sock"),
                                 testing::ReadyNode("n2", cluster.api.upstream.agent_address())};
  cluster.api.Show({}, nodes);
  const json list = cluster.List("?nodes=n1,n2");
  REQUIRE(list["unreachable"].size() == 2);
  CHECK_THAT(list["unreachable"][0]["error"].get<std::string>(),
             Catch::StartsWith("it does not answer ("));
  CHECK_THAT(list["unreachable"][1]["error"].get<std::string>(), Contains("update it"));
}

TEST_CASE("a pull says for each node how far it is and what came of it", "[api][images]") {
  Cluster cluster;
  cluster.one.Answer(
      {.images = {}, .progress = {"looking up", "fetching"}, .digest = kOne, .error = {}});
  cluster.two.Answer({.images = {},
                      .progress = {},
                      .digest = "",
                      .error = {ErrorCode::kUnavailable, "No space left on device"}});
  const auto lines = cluster.Pull(R"({"image":"train:1"})");
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == json({{"node", "n1"}, {"digest", kOne}}));
  CHECK(lines[1] ==
        json({{"node", "n2"}, {"error", "No space left on device"}, {"code", "unavailable"}}));
  CHECK(lines[2] == json({{"node", "n3"},
                          {"error", "it is lost: no heartbeat for 60 s"},
                          {"code", "unavailable"}}));
  CHECK(lines[3] == json({{"done", true}, {"pulled", 1}, {"failed", 2}}));
  REQUIRE(cluster.one.pulls().size() == 1);
  CHECK(cluster.one.pulls()[0].image() == "train:1");
  CHECK(cluster.one.pulls()[0].actor() == "olga");
  const auto audited = cluster.api.upstream.scheduler.audited();
  REQUIRE(audited.size() == 1);
  CHECK(audited[0].operation() == "images.pull");

  CHECK(cluster.Pull(R"({"image":"train:1","nodes":["n[1-1]"]})").back() ==
        json({{"done", true}, {"pulled", 1}, {"failed", 0}}));
  CHECK(cluster.Pull(R"({"image":"train:1","zone":"b","group":"big","nodes":null})").back() ==
        json({{"done", true}, {"pulled", 0}, {"failed", 1}}));
}

TEST_CASE("a pull is an operator's, of an image, on nodes", "[api][images]") {
  Cluster cluster;
  const auto status = [&](const std::string& body) {
    return cluster.api.Post("/v1/images/pull", body).status;
  };
  CHECK(status("{}") == 422);
  CHECK(status(R"({"image":"host"})") == 422);
  CHECK(status(R"({"image":7})") == 422);
  CHECK(status("[]") == 422);
  CHECK(status(R"({"image":"a:1","nodes":"n1"})") == 422);
  CHECK(status(R"({"image":"a:1","nodes":["n1",7]})") == 422);
  CHECK(status(R"({"image":"a:1","nodes":["n9"]})") == 404);
  CHECK(status(json({{"image", std::string(5000, 'a')}}).dump()) == 422);
  for (const std::string& token : {testing::TokenOf("vera"), testing::TokenOf("alice")}) {
    cluster.api.token = token;
    CHECK(status(R"({"image":"a:1"})") == 403);
  }
  CHECK(cluster.one.pulls().empty());
}

TEST_CASE("a pull whose client has gone is called off on every node", "[api][images]") {
  Cluster cluster;
  for (FakeImages* images : {&cluster.one, &cluster.two}) {
    images->Answer(
        {.images = {}, .progress = {"fetching"}, .digest = kOne, .error = {}, .hold = true});
  }
  {
    const auto stream = cluster.api.OpenPost("/v1/images/pull", R"({"image":"train:1"})");
    CHECK_THAT(stream->WaitFor(R"("n2","progress")"), Contains("fetching"));
    CHECK_THAT(stream->WaitFor(R"("n1","progress")"), Contains("fetching"));
    CHECK_THAT(stream->WaitFor("\"n3\""), Contains("\"n3\""));  // in any order
    CHECK_THAT(stream->WaitFor("\n\n"), Contains("\n\n"));      // it is still there
  }
  CHECK(cluster.one.WaitCalledOff());
  CHECK(cluster.two.WaitCalledOff());
}

TEST_CASE("a list of node sets is split between them, not in them", "[api][images]") {
  using Names = std::vector<std::string>;
  CHECK(SplitNodeSets("") == Names{});
  CHECK(SplitNodeSets("a") == Names{"a"});
  CHECK(SplitNodeSets("a,,b[1,3-4],c,") == Names{"a", "b[1,3-4]", "c"});
  CHECK(SplitNodeSets("a[1,b") == Names{"a[1,b"});
}

}  // namespace
}  // namespace tide::api
