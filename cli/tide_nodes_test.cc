// The program against a server: nodes, draining, validating, faults.

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/testing/fake_server.h"
#include "cli/testing/run_tide.h"
#include "common/base/time.h"

using namespace tide::cli::testing;
using nlohmann::json;

namespace {

json Node(const std::string& name, const std::string& state) {
  return {{"id", 1},
          {"name", name},
          {"group", "a100"},
          {"zone", "A"},
          {"leaf", "l07"},
          {"state", state},
          {"capacity", {{"cpus", 96}, {"gpus", 8}}},
          {"reason", nullptr},
          {"actor", nullptr},
          {"state_since", "2026-01-31T12:00:00.000Z"},
          {"job", nullptr},
          {"task", nullptr},
          {"faults", 2},
          {"verdicts", json::array()}};
}

json Verdict(const std::string& validator, const std::string& verdict) {
  return {{"validator", validator},
          {"verdict", verdict},
          {"value", 7.5},
          {"unit", "GB/s"},
          {"evidence", "slow link"},
          {"seconds", 4},
          {"at", "2026-01-31T12:05:00.000Z"}};
}

}  // namespace

TEST_CASE("nodes are listed and filtered") {
  FakeServer server;
  json busy = Node("n1", "ready");
  busy["job"] = "j-3";
  busy["task"] = 12;
  json drained = Node("n2", "drained");
  drained["reason"] = "fan tray";
  drained["actor"] = "bob";
  server.OnGet("/v1/nodes", json({{"items", {busy, drained}}, {"next_cursor", nullptr}}).dump());
  const auto all = RunTide({"nodes"}, Using(server));
  CHECK(all.exit_code == 0);
  CHECK(all.out.find("n1    A     l07   a100   ■ busy     j-3    12") != std::string::npos);
  CHECK(all.out.find("fan tray (bob)") != std::string::npos);
  CHECK(all.err == "2 of 2 nodes\n");
  CHECK(RunTide({"nodes", "--state", "drained", "-o", "name"}, Using(server)).out == "n2\n");
  CHECK(RunTide({"nodes", "--state", "busy", "-o", "name"}, Using(server)).out == "n1\n");
  CHECK(RunTide({"nodes", "n[1-2]", "-o", "name"}, Using(server)).out == "n1\nn2\n");
  CHECK(RunTide({"nodes", "--zone", "B", "-o", "name"}, Using(server)).out.empty());
  CHECK(RunTide({"nodes", "n3"}, Using(server)).exit_code == 3);
}

TEST_CASE("a second agent of a node's name is named, with both addresses") {
  FakeServer server;
  json node = Node("n1", "ready");
  node["endpoint"] = "10.0.0.7:7072";
  node["refused_agent"] = {{"endpoint", "10.0.0.9:7072"},
                           {"peer", "ipv4:10.0.0.9:51000"},
                           {"at", "2026-01-31T12:00:00Z"}};
  server.OnGet("/v1/nodes", json({{"items", {node}}, {"next_cursor", nullptr}}).dump());
  server.OnGet("/v1/nodes/n1", node.dump());
  for (const std::string& text :
       {RunTide({"nodes"}, Using(server)).out, RunTide({"node", "n1"}, Using(server)).out}) {
    CHECK_THAT(text, Catch::Contains("10.0.0.7:7072 is obeyed"));
    CHECK_THAT(text, Catch::Contains("10.0.0.9:7072 (from ipv4:10.0.0.9:51000) is refused"));
  }
}

TEST_CASE("a node is shown, and removed") {
  FakeServer server;
  json node = Node("n1", "drained");
  node["reason"] = "fan tray";
  node["actor"] = "bob";
  node["verdicts"] = json::array({Verdict("links", "fail")});
  server.OnGet("/v1/nodes/n1", node.dump());
  const auto shown = RunTide({"node", "n1"}, Using(server));
  CHECK(shown.exit_code == 0);
  CHECK_THAT(shown.out, Catch::Contains("fan tray (bob)"));
  CHECK_THAT(shown.out, Catch::Contains("links: fail, slow link"));
  CHECK(RunTide({"node", "n1", "--reason", "x"}, Using(server)).exit_code == 2);
  CHECK(RunTide({"node", "n9"}, Using(server)).exit_code == 3);

  server.On("DELETE", "/v1/nodes/n1", [](const FakeRequest&) {
    return FakeReply{.status = 200, .body = R"({"removed":"n1"})"};
  });
  const auto removed = RunTide({"node", "n1", "--remove", "--reason", "sold to X"}, Using(server));
  CHECK(removed.exit_code == 0);
  CHECK(removed.out == "✔ n1 removed\n");
}

TEST_CASE("drain needs a reason, says who is affected and how to undo it") {
  FakeServer server;
  json busy = Node("n1", "ready");
  busy["job"] = "j-3";
  busy["task"] = 0;
  server.OnGet("/v1/nodes/n1", busy.dump());
  for (const std::string verb : {"drain", "undrain"}) {
    server.On("POST", "/v1/nodes/n1/" + verb, [verb](const FakeRequest&) {
      return FakeReply{.status = 202,
                       .body = Node("n1", verb == "drain" ? "draining" : "ready").dump()};
    });
  }
  const auto run = RunTide({"drain", "n1", "--reason", "fan tray"}, Using(server));
  CHECK(run.exit_code == 0);
  CHECK(run.out == "✔ n1 ready → draining\n");
  CHECK(run.err.find("task 0 of j-3") != std::string::npos);
  CHECK(run.err.find("tide undrain n1") != std::string::npos);
  CHECK(json::parse(server.Requests().back().body)["reason"] == "fan tray");
  CHECK(RunTide({"drain", "n1", "--reason", " "}, Using(server)).exit_code == 2);
  CHECK(RunTide({"undrain", "n1"}, Using(server)).exit_code == 0);
  CHECK(RunTide({"undrain", "n9"}, Using(server)).exit_code == 3);
}

TEST_CASE("drain passes times on, and what is to come is shown") {
  const tide::Instant now = tide::SystemNow();
  const auto in = [&](int64_t minutes) {
    return tide::FormatRfc3339(now + tide::Duration::Minutes(minutes) +
                               tide::Duration::Seconds(30));
  };
  json leaving = Node("n1", "draining");
  leaving["jobs_leave_at"] = in(25);
  leaving["reason"] = "cable";
  leaving["actor"] = "bob";
  json planned = Node("n2", "ready");
  planned["maintenance"] = {{"begins_at", in(120)},
                            {"ends_at", in(360)},
                            {"actor", "bob"},
                            {"reason", "fans"},
                            {"begun", false}};
  FakeServer server;
  server.OnGet("/v1/nodes", json({{"items", {leaving, planned}}, {"next_cursor", nullptr}}).dump());
  server.OnGet("/v1/nodes/n1", Node("n1", "ready").dump());
  server.OnGet("/v1/nodes/n2", planned.dump());
  server.On("POST", "/v1/nodes/n1/drain", [=](const FakeRequest&) {
    return FakeReply{.status = 200, .body = leaving.dump()};
  });
  server.On("POST", "/v1/nodes/n2/drain", [=](const FakeRequest&) {
    return FakeReply{.status = 200, .body = planned.dump()};
  });
  server.On("POST", "/v1/nodes/n2/undrain", [](const FakeRequest&) {
    return FakeReply{.status = 200, .body = Node("n2", "ready").dump()};
  });
  const auto drain =
      RunTide({"drain", "n1", "--deadline", "25m", "--reason", "cable"}, Using(server));
  CHECK(drain.out.starts_with("✔ n1 ready → draining, jobs leave in 25m"));
  CHECK(json::parse(server.Requests().back().body)["deadline"] == "25m");
  const auto plan =
      RunTide({"drain", "n2", "--from", "2h", "--until", "6h", "--reason", "fans"}, Using(server));
  CHECK(plan.out == "✔ n2 maintenance in 2h00m, for 4h00m\n");
  const json body = json::parse(server.Requests().back().body);
  CHECK(body["from"] == "2h");
  CHECK(body["until"] == "6h");
  CHECK(RunTide({"undrain", "n2"}, Using(server)).out == "✔ n2 maintenance cancelled\n");

  const auto list = RunTide({"nodes"}, Using(server)).out;
  CHECK(list.find("jobs leave in 25m") != std::string::npos);
  CHECK(list.find("maintenance in 2h00m, for 4h00m: fans (bob)") != std::string::npos);
  const auto node = RunTide({"node", "n2"}, Using(server)).out;
  CHECK(node.find(", maintenance in 2h00m, for 4h00m") != std::string::npos);
  CHECK(node.find("fans (bob)") != std::string::npos);

  const auto refused = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"drain", "n1", "--reason", "x"});
    return RunTide(options, Using(server)).exit_code == 2;
  };
  CHECK(refused({"--from", "2h"}));
  CHECK(refused({"--deadline", "2h", "--until", "4h"}));
  (void)RunTide({"drain", "n1", "--reason", "x", "--deadline", ""}, Using(server));
  CHECK(json::parse(server.Requests().back().body)["deadline"] == "");  // the server refuses it
}

TEST_CASE("validate waits for new verdicts; a failed test is exit code 1") {
  const std::string worst = GENERATE("pass", "fail");
  FakeServer server;
  std::atomic<int> looks = 0;
  server.On("GET", "/v1/nodes/n1", [&](const FakeRequest&) {
    const int look = ++looks;
    json node = Node("n1", look == 2 ? "validating" : "ready");
    if (look > 3) {  // the third still shows the state from before
      node["verdicts"] = {Verdict("gpu_count", "pass"), Verdict("ib_bandwidth", worst)};
    }
    return FakeReply{.body = node.dump()};
  });
  server.On("POST", "/v1/nodes/n1/validate", [](const FakeRequest&) {
    return FakeReply{.status = 202, .body = Node("n1", "validating").dump()};
  });
  const auto run = RunTide({"validate", "n1"}, Using(server));
  CHECK(run.exit_code == (worst == "fail" ? 1 : 0));
  CHECK(run.out.find("ib_bandwidth") != std::string::npos);
  CHECK(run.out.find("7.5 GB/s") != std::string::npos);
  CHECK(looks == 4);
}

TEST_CASE("validate ends where a node was lost before it gave a verdict") {
  FakeServer server;
  for (const std::string name : {"n1", "n2"}) {
    server.On("GET", "/v1/nodes/" + name, [name, looks = 0](const FakeRequest&) mutable {
      json node = Node(name, "drained");  // twice the state from before
      if (++looks > 2 && name == "n1") {
        node = Node(name, "quarantined");
        node["reason"] = "lost during its validation";
        node["state_since"] = "2026-01-31T12:06:00.000Z";
      } else if (looks > 2) {
        node["verdicts"] = json::array({Verdict("gpu_count", "pass")});
      }
      return FakeReply{.body = node.dump()};
    });
    server.On("POST", "/v1/nodes/" + name + "/validate", [name](const FakeRequest&) {
      json node = Node(name, "validating");
      node["state_since"] = "2026-01-31T12:04:00.000Z";
      return FakeReply{.status = 202, .body = node.dump()};
    });
  }
  const auto run = RunTide({"validate", "n[1-2]", "--timeout", "20s"}, Using(server));
  CHECK(run.exit_code == 1);
  CHECK(run.err == "tide: n1 is quarantined without a verdict: lost during its validation\n");
  CHECK(run.out.find("gpu_count") != std::string::npos);
}

TEST_CASE("validate gives up in time") {
  FakeServer server;
  server.OnGet("/v1/nodes/n1", Node("n1", "validating").dump());
  server.On("POST", "/v1/nodes/n1/validate", [](const FakeRequest&) {
    return FakeReply{.status = 202, .body = Node("n1", "validating").dump()};
  });
  CHECK(RunTide({"validate", "n1", "--timeout", "1ms"}, Using(server)).exit_code == 8);
}

// A cluster of four whose nodes end a validation at once; a group with `bad` in it does not sum
// right.
class FabricServer {
 public:
  explicit FabricServer(std::string bad) : bad_(std::move(bad)) {
    for (const std::string name : {"n1", "n2", "n3", "n4"}) {
      server_.On("GET", "/v1/nodes/" + name, [this, name](const FakeRequest&) {
        return FakeReply{.body = nodes_[name].dump()};
      });
      server_.On("POST", "/v1/nodes/" + name + "/validate", [this, name](const FakeRequest& asked) {
        return Validate(name, json::parse(asked.body));
      });
      nodes_[name] = Node(name, "ready");
    }
  }

  FakeServer& server() { return server_; }
  [[nodiscard]] std::vector<std::vector<std::string>> groups() const { return groups_; }

 private:
  FakeReply Validate(const std::string& name, const json& body) {
    std::vector<std::string> group = body["with"];
    group.insert(group.begin(), name);
    groups_.push_back(group);
    const bool good = std::ranges::find(group, bad_) == group.end();
    for (const std::string& each : group) {
      json verdict = Verdict("fabric", good ? "pass" : "skipped");
      verdict["at"] = "2026-01-31T12:0" + std::to_string(groups_.size()) + ":30.000Z";
      nodes_[each]["verdicts"] = json::array({verdict});
    }
    return FakeReply{.status = 202, .body = Node(name, "validating").dump()};
  }

  const std::string bad_;
  std::map<std::string, json> nodes_;
  std::vector<std::vector<std::string>> groups_;
  FakeServer server_;
};

TEST_CASE("validate --fabric tests groups until the bad node is known") {
  using Groups = std::vector<std::vector<std::string>>;
  FabricServer sound("none");
  const auto good = RunTide({"validate", "--fabric", "n[1-4]"}, Using(sound.server()));
  CHECK(good.exit_code == 0);
  CHECK(good.err.empty());
  CHECK(sound.groups() == Groups{{"n1", "n2", "n3", "n4"}});
  CHECK(good.out.find("fabric") != std::string::npos);

  FabricServer spoilt("n3");
  const auto run = RunTide({"validate", "--fabric", "n[1-4]"}, Using(spoilt.server()));
  CHECK(run.exit_code == 1);
  CHECK(spoilt.groups() ==
        Groups{{"n1", "n2", "n3", "n4"}, {"n1", "n2"}, {"n3", "n4"}, {"n3", "n1"}, {"n4", "n2"}});
  CHECK(run.err.starts_with("tide: n3 does not sum right with a sound node"));
  CHECK(run.err.find("n4") == std::string::npos);

  FabricServer pair("n1");
  const auto open = RunTide({"validate", "--fabric", "n[1-2]"}, Using(pair.server()));
  CHECK(open.exit_code == 1);
  CHECK(open.err.find("n[1-2]: at least one") != std::string::npos);
  CHECK(RunTide({"validate", "--fabric", "n1"}, Using(pair.server())).exit_code == 2);
}

TEST_CASE("a person vouches for a fault, with a reason") {
  FakeServer server;
  server.On("POST", "/v1/faults/17/ack", [](const FakeRequest&) {
    return FakeReply{.body = R"({"id":17,"node":"n1"})"};
  });
  const auto done = RunTide({"faults", "ack", "17", "--reason", "GPU replaced"}, Using(server));
  CHECK(done.exit_code == 0);
  CHECK(done.out == "fault 17 of n1 is vouched for\n");
  CHECK(RunTide({"faults", "ack", "17"}, Using(server)).exit_code == 2);
  CHECK(RunTide({"faults", "ack", "17", "--reason", " "}, Using(server)).exit_code == 2);
}

TEST_CASE("a line of a kernel log is explained without a server") {
  const std::string fallen = "NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus";
  const auto done = RunTide({"faults", "explain", fallen, "-o", "json"}, {});
  CHECK(done.exit_code == 0);
  const json item = json::parse(done.out)["items"][0];
  CHECK(item["action"] == "drain_now");
  CHECK(item["covers"] == json({"gpu-gemm", "gpu-memory", "links"}));
  CHECK(RunTide({"faults", "explain", "nothing"}, {}).err == "No fault is seen in this.\n");
}

TEST_CASE("a node shows when it was tested, and what it went through") {
  FakeServer server;
  json node = Node("n1", "ready");
  node["tested_at"] = "2026-01-31T11:00:00Z";
  node["testing"] = true;
  node["verdicts"] = {Verdict("memory", "pass")};
  server.OnGet("/v1/nodes/n1", node.dump());
  const std::string shown = RunTide({"node", "n1"}, Using(server)).out;
  CHECK_THAT(shown, Catch::Contains(" ago, a test runs now"));
  CHECK_THAT(shown, Catch::Contains("memory: pass, slow link (") && Catch::Contains(" ago)"));
  const json xid = {{"id", 7},
                    {"node", "n1"},
                    {"kind", "xid"},
                    {"code", 79},
                    {"device", "0000:3b:00"},
                    {"count", 3},
                    {"first_seen_at", "2026-01-31T12:00:00Z"},
                    {"last_seen_at", "2026-01-31T12:00:09Z"},
                    {"withdrawn_at", "2026-01-31T12:00:01Z"},
                    {"repair", "reboot"},
                    {"repair_at", "2026-01-31T12:01:01Z"},
                    {"cleared_at", nullptr},
                    {"meaning", "GPU has fallen off the bus"}};
  json other = xid;
  other["id"] = 8;
  other["node"] = "n2";
  json part = xid;
  part["id"] = 9;
  part["code"] = 45;
  part["count"] = 1;
  part["part_of"] = 7;
  part["meaning"] = nullptr;
  part["withdrawn_at"] = nullptr;
  part["repair_at"] = nullptr;
  part["first_seen_at"] = "2026-01-31T12:00:02Z";
  part["cleared_at"] = "2026-01-31T12:10:00Z";
  server.OnGet("/v1/faults",
               json({{"items", {part, other, xid}}, {"next_cursor", nullptr}}).dump());
  CHECK(
      RunTide({"node", "n1", "--faults"}, Using(server)).out ==
      "2026-01-31T12:00:00.000Z  fault 7 seen: xid 79 on 0000:3b:00 (GPU has fallen off the bus)\n"
      "2026-01-31T12:00:01.000Z  out of service because of fault 7\n"
      "2026-01-31T12:00:02.000Z  fault 9 seen: xid 45 on 0000:3b:00, explained by fault 7\n"
      "2026-01-31T12:00:09.000Z  fault 7 seen again, 3 times in all\n"
      "2026-01-31T12:01:01.000Z  repair ordered for fault 7: reboot\n"
      "2026-01-31T12:10:00.000Z  fault 9 is over\n");
  CHECK(RunTide({"node", "n1", "--faults", "--remove"}, Using(server)).exit_code == 2);
}

TEST_CASE("faults are listed with what they mean") {
  FakeServer server;
  const json xid = {{"id", 7},
                    {"node", "n1"},
                    {"kind", "xid"},
                    {"code", 79},
                    {"device", "0000:3b:00"},
                    {"action", "drain_now"},
                    {"job", nullptr},
                    {"count", 3},
                    {"first_seen_at", "2026-01-31T12:00:00Z"},
                    {"cleared_at", nullptr},
                    {"meaning", "GPU has fallen off the bus"}};
  json link = xid;
  link["id"] = 6;
  link["kind"] = "link_down";
  link["code"] = nullptr;
  link["cleared_at"] = "2026-01-31T12:10:00Z";
  server.OnGet("/v1/faults", json({{"items", {xid, link}}, {"next_cursor", nullptr}}).dump());
  const auto all = RunTide({"faults"}, Using(server));
  CHECK(all.out.find("xid 79     0000:3b:00  ✕ open     drain_now") != std::string::npos);
  CHECK(all.out.find("link_down  0000:3b:00  ✔ cleared") != std::string::npos);
  CHECK(RunTide({"faults", "--open", "-o", "name"}, Using(server)).out == "7\n");
  CHECK(RunTide({"faults", "--node", "n2"}, Using(server)).err == "No faults.\n");
}

TEST_CASE("a fault that automation does not act on says why and where to look") {
  FakeServer server;
  json held = {{"id", 7},
               {"node", "n1"},
               {"kind", "xid"},
               {"code", 79},
               {"device", "0000:3b:00"},
               {"action", "drain_now"},
               {"count", 1},
               {"first_seen_at", "2026-01-31T12:00:00Z"},
               {"cleared_at", nullptr},
               {"meaning", "GPU has fallen off the bus"},
               {"hold", "breaker"},
               {"part_of", 5}};
  server.OnGet("/v1/faults", json({{"items", {held}}, {"next_cursor", nullptr}}).dump());
  const auto now = RunTide({"faults"}, Using(server));
  CHECK(now.out.find("⏸ held  drain_now (breaker, see 5)") != std::string::npos);
  json part = held;
  part["hold"] = nullptr;
  server.OnGet("/v1/faults", json({{"items", {part}}, {"next_cursor", nullptr}}).dump());
  CHECK(RunTide({"faults"}, Using(server)).out.find("✕ open  drain_now (came of 5)") !=
        std::string::npos);
  held["cleared_at"] = "2026-01-31T12:10:00Z";
  server.OnGet("/v1/faults", json({{"items", {held}}, {"next_cursor", nullptr}}).dump());
  const auto later = RunTide({"faults"}, Using(server));
  CHECK(later.out.find("✔ cleared  drain_now  ") != std::string::npos);
}
