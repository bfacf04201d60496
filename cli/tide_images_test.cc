// The program against a server: images of nodes.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/testing/fake_server.h"
#include "cli/testing/run_tide.h"

using namespace tide::cli::testing;
using Catch::Contains;
using nlohmann::json;

namespace {

const std::string kOne = "sha256:" + std::string(64, '1');
const std::string kTwo = "sha256:" + std::string(64, '2');

json ImageList() {
  return {{"items",
           {{{"digest", kOne},
             {"names", {"docker.io/library/train:24.10", "docker.io/library/train:latest"}},
             {"bytes", 4831838208},
             {"nodes", {"n1", "n2"}},
             {"in_use_on", {"n1"}},
             {"used_at", "2026-01-31T12:00:00.000Z"}},
            {{"digest", kTwo},
             {"names", json::array()},
             {"bytes", 1},
             {"nodes", {"n1"}},
             {"in_use_on", json::array()},
             {"used_at", nullptr}}}},
          {"unreachable", {{{"node", "n3"}, {"error", "it does not answer"}}}},
          {"asked", 3},
          {"next_cursor", nullptr}};
}

// Answers a pull with these lines; `whole`: to its end.
void AnswerPull(FakeServer& server, const std::vector<std::string>& lines, bool whole = true) {
  server.On("POST", "/v1/images/pull", [=](const FakeRequest&) {
    FakeReply reply;
    reply.type = "application/x-ndjson";
    reply.break_off = !whole;
    reply.stream = [lines](const FakeReply::Write& write) {
      for (const std::string& line : lines) {
        write(line.substr(0, line.size() / 2));  // lines come in pieces
        write(line.substr(line.size() / 2) + "\n");
      }
    };
    return reply;
  });
}

std::string Has(const std::string& node, const std::string& digest) {
  return json({{"node", node}, {"digest", digest}}).dump();
}

std::string Failed(const std::string& node, const std::string& error) {
  return json({{"node", node}, {"error", error}, {"code", "unavailable"}}).dump();
}

}  // namespace

TEST_CASE("images are listed with the nodes that have them") {
  FakeServer server;
  server.OnGet("/v1/images", ImageList().dump());
  const auto list = RunTide({"images"}, Using(server));
  CHECK(list.exit_code == 0);
  CHECK_THAT(list.out, Contains("IMAGE"));
  CHECK_THAT(list.out, Contains("docker.io/library/train:24.10 +1"));
  CHECK_THAT(list.out, Contains("sha256:111111111111 "));
  CHECK_THAT(list.out, Contains("4.5 GiB"));
  CHECK_THAT(list.out, Contains("1 KiB"));
  CHECK(list.out.find(" ago\n" + kTwo.substr(0, 19) + " ") != std::string::npos);  // has no name
  CHECK(list.out.ends_with(" -\n"));                                               // nor was used
  CHECK(list.err == "tide: 1 of 3 nodes cannot be asked: n3: it does not answer\n");

  const auto names = RunTide({"images", "-o", "name"}, Using(server));
  CHECK(names.out == kOne + "\n" + kTwo + "\n");
  CHECK(json::parse(RunTide({"images", "-o", "json"}, Using(server)).out) == ImageList());
}

TEST_CASE("the list keeps the tag of an image on a usual terminal") {
  FakeServer server;
  json list = ImageList();
  list["items"][0]["names"] = {"registry.example:5000/base/train:24.10"};
  server.OnGet("/v1/images", list.dump());
  RunOptions options = Using(server);
  options.columns = 80;
  CHECK_THAT(RunTide({"images"}, options).out,
             Contains("registry.example:5000/base/train:24.10  "));
}

TEST_CASE("nodes that cannot be asked are said in short, by reason") {
  FakeServer server;
  json list = ImageList();
  list["asked"] = 120;
  for (const char* name : {"n04", "n05", "n06", "n11", "n13", "n15", "n17", "n19"}) {
    list["unreachable"].push_back({{"node", name}, {"error", "it is lost: no \x1b[31mheartbeat"}});
  }
  server.OnGet("/v1/images", list.dump());
  const auto asked = RunTide({"images"}, Using(server));
  CHECK(asked.exit_code == 0);
  CHECK(asked.err ==
        "tide: 9 of 120 nodes cannot be asked: n3: it does not answer; "
        "n[04-06], n11, n13, n15, n17, …: it is lost: no ?[31mheartbeat\n");
}

TEST_CASE("images of chosen nodes are asked for in short") {
  FakeServer server;
  server.OnGet("/v1/images", R"({"items":[],"unreachable":[],"asked":5,"next_cursor":null})");
  const auto list = RunTide({"images", "n[1-4]", "b", "--zone", "a b"}, Using(server));
  CHECK(list.exit_code == 0);
  CHECK_THAT(list.err, Contains("tide images pull"));
  REQUIRE(server.Requests().size() == 1);
  CHECK(server.Requests()[0].query == "nodes=n[1-4],b&zone=a b");
  CHECK(RunTide({"images", "n[1"}, Using(server)).exit_code == 2);
  CHECK(server.Requests().size() == 1);
}

TEST_CASE("nodes of which none answers are a failure") {
  FakeServer server;
  json list = ImageList();
  list["items"] = json::array();
  list["asked"] = 1;
  server.OnGet("/v1/images", list.dump());
  CHECK(RunTide({"images"}, Using(server)).exit_code == 6);
  server.On("GET", "/v1/images", [](const FakeRequest&) {
    return Problem(404, "not_found", "there is no zone z; `tide nodes` lists what there is");
  });
  const auto none = RunTide({"images", "--zone", "z"}, Using(server));
  CHECK(none.exit_code == 3);
  CHECK_THAT(none.err, Contains("there is no zone z"));
}

TEST_CASE("a pull names its nodes, and says which image they have") {
  FakeServer server;
  AnswerPull(server,
             {R"({"nodes":2})",
              R"({"node":"n1","progress":"fetching"})",
              "",
              Has("n1", kOne),
              Has("n2", kOne),
              R"({"done":true,"pulled":2,"failed":0})"});
  const auto pull =
      RunTide({"images", "pull", "train:24.10", "n[1-2]", "--group", "big"}, Using(server));
  CHECK(pull.exit_code == 0);
  CHECK(pull.out == "✔ train:24.10 is on 2 nodes: " + kOne + "\n");
  CHECK(pull.err.empty());
  const auto requests = server.Requests();
  REQUIRE(requests.size() == 1);
  CHECK(json::parse(requests[0].body) ==
        json({{"image", "train:24.10"}, {"nodes", {"n[1-2]"}}, {"zone", ""}, {"group", "big"}}));
  CHECK(requests[0].headers.at("content-type") == "application/json");

  const auto of = [&](const std::string& format) {
    return RunTide({"images", "pull", "train:24.10", "--all", "-o", format}, Using(server));
  };
  CHECK(of("name").out == "n1\nn2\n");
  CHECK(json::parse(of("json").out) ==
        json({{"image", "train:24.10"},
              {"images", {{{"digest", kOne}, {"nodes", {"n1", "n2"}}}}},
              {"failed", json::array()}}));
  CHECK_THAT(of("jsonl").out, Contains("\"progress\":\"fetching\"") && Contains("\"done\":true"));
}

TEST_CASE("nodes that cannot pull are said once for each reason") {
  FakeServer server;
  AnswerPull(server,
             {R"({"nodes":4})",
              Failed("n1", "No space left on device"),
              Failed("n2", "No space left on device"),
              Failed("x", "\x1b[31mit is lost"),
              Has("n4", kOne),
              R"({"done":true,"pulled":1,"failed":3})"});
  const auto pull = RunTide({"images", "pull", "train:1", "--all"}, Using(server));
  CHECK(pull.exit_code == 1);
  CHECK(pull.out == "✔ train:1 is on 1 node: " + kOne + "\n");
  CHECK(pull.err ==
        "tide: x: ?[31mit is lost\n"
        "tide: n[1-2]: No space left on device\n");
}

TEST_CASE("a pull that does not reach all nodes has failed, whatever was said of them") {
  FakeServer server;
  AnswerPull(server, {R"({"nodes":2})", Has("n1", kOne), R"({"done":true,"pulled":1})"});
  const auto pull = RunTide({"images", "pull", "train:1", "--all"}, Using(server));
  CHECK(pull.exit_code == 1);
  CHECK_THAT(pull.err, Contains("only 1 of 2 nodes has the image"));
  AnswerPull(server, {Has("n1", kOne), "{broken", R"({"done":true,"pulled":1,"failed":1})"});
  CHECK(RunTide({"images", "pull", "train:1", "--all"}, Using(server)).exit_code == 1);
  AnswerPull(server, {R"({"node":"n1","error":""})", R"({"done":true,"pulled":0,"failed":1})"});
  CHECK_THAT(RunTide({"images", "pull", "train:1", "--all"}, Using(server)).err, Contains("n1: "));
}

TEST_CASE("on a terminal a pull says how far it is in one line") {
  FakeServer server;
  const std::string name = "registry.example:5000/base/train:24.10";
  const auto said = [](const std::string& node, const std::string& progress) {
    return json({{"node", node}, {"progress", progress}}).dump();
  };
  AnswerPull(server,
             {R"({"nodes":12})",
              said("n1", "looking up image " + name),
              said("n2", "unpacking image " + name + ", 4.0 of 4.0 GiB"),
              said("n1", "fetching image " + name + ": 1.2 of 4.0 GiB"),
              Has("n1", kOne),
              Failed("n3", "it is lost"),
              said("n2", "the registry \x1b[31mdoes not answer; trying again"),
              Has("n2", kOne),
              R"({"done":true,"pulled":2,"failed":10})"});
  RunOptions options = Using(server);
  options.columns = 80;
  options.errors_there = true;
  const auto pull = RunTide({"images", "pull", name, "--all"}, options);
  CHECK(pull.exit_code == 1);
  const std::string rewind = "\r\x1b[K";
  for (const char* line :
       {"0 of 12 nodes have it, 12 waiting",
        "0 of 12 nodes have it, 1 fetching (n1: looking up), 11 waiting",
        "0 of 12 nodes have it, 2 fetching (n1: 1.2 of 4.0 GiB), 10 waiting",
        "1 of 12 nodes has it, 1 fetching (n2: unpacking 4.0 of 4.0 GiB), 10 waiting",
        "1 of 12 nodes has it, 1 failed, 1 fetching (n2: the registry ?[31mdoes not answ…"}) {
    CHECK_THAT(pull.out, Contains(rewind + line + rewind));
  }
  CHECK_THAT(pull.out, Contains(rewind + "✔ " + name + " is on 2 nodes"));

  // Lines of JSON there are not mixed with it, and a screen reader gets whole lines.
  CHECK(RunTide({"images", "pull", name, "--all", "-o", "jsonl"}, options).out.find(rewind) ==
        std::string::npos);
  options.env["TIDE_ACCESSIBLE"] = "1";
  const auto spoken = RunTide({"images", "pull", name, "--all"}, options).out;
  CHECK(spoken.starts_with("1 of 12 nodes has it\r\n1 of 12 nodes has it, 1 failed\r\n"));
}

TEST_CASE("a tag that moved during a pull is two images") {
  FakeServer server;
  AnswerPull(server, {Has("n1", kOne), Has("n2", kTwo), R"({"done":true})"});
  const auto pull = RunTide({"images", "pull", "train:1", "--all"}, Using(server));
  CHECK(pull.exit_code == 0);
  CHECK_THAT(pull.out, Contains(kOne + "\n") && Contains(kTwo + "\n"));
  CHECK_THAT(pull.err, Contains("name a digest"));
}

TEST_CASE("a pull whose answer breaks off has failed") {
  FakeServer server;
  const std::vector<std::string> begun = {R"({"nodes":3})", Has("n1", kOne), "no json"};
  for (const bool whole : {false, true}) {
    AnswerPull(server, begun, whole);
    const auto pull = RunTide({"images", "pull", "train:1", "--all"}, Using(server));
    CHECK(pull.exit_code == 1);
    CHECK_THAT(pull.err, Contains("1 of 3 nodes has the image by then"));
  }
}

TEST_CASE("a pull that is refused, or names no nodes, is said") {
  FakeServer server;
  server.On("POST", "/v1/images/pull", [](const FakeRequest&) {
    return Problem(403, "permission_denied", "pulling images needs the role operator");
  });
  const auto refused = RunTide({"images", "pull", "train:1", "--all"}, Using(server));
  CHECK(refused.exit_code == 4);
  CHECK_THAT(refused.err, Contains("needs the role operator"));
  CHECK(server.Requests().size() == 1);  // not tried again

  const auto wrong = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"images", "pull"});
    const auto run = RunTide(arguments, Using(server));
    CHECK(run.exit_code == 2);
    return run.err;
  };
  CHECK_THAT(wrong({"train:1"}), Contains("tide images pull train:1 NODE..."));
  CHECK_THAT(wrong({"train:1", "--all", "--zone", "a"}), Contains("--all"));
  CHECK_THAT(wrong({"host", "--all"}), Contains("no image"));
  CHECK_THAT(wrong({"train:1", "n[3-1]"}), Contains("n[3-1]"));
  const auto before = RunTide({"images", "--zone", "a", "pull", "train:1", "--all"}, Using(server));
  CHECK(before.exit_code == 2);
  CHECK_THAT(before.err, Contains("belong after the image"));
  CHECK_THAT(wrong({}), Contains("image"));
  CHECK(server.Requests().size() == 1);
}
