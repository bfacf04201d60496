#include "agent/server/compat_env.h"

#include <catch2/catch.hpp>

#include "agent/server/start_plan.h"
#include "agent/server/testing/agent_testing.h"

namespace tide::agent {
namespace {

using Env = std::map<std::string, std::string>;

constexpr const char* kTwoZones = R"({"version":1,"zones":[["A",3],["B",1]]})";

TEST_CASE("compat: a node's zone is where its number falls in the topology's zones") {
  CHECK(ZoneByTopology(kTwoZones, 0) == "A");
  CHECK(ZoneByTopology(kTwoZones, 2) == "A");
  CHECK(ZoneByTopology(kTwoZones, 3) == "B");
  CHECK(ZoneByTopology(R"({"zones":[["A",1],["B",1],["A",1]]})", 2) == "A");
  CHECK(ZoneByTopology(R"({"zones":[["A",4294967295],["B",1]]})", 4294967295U) == "B");
}

TEST_CASE("compat: what is no topology names no zone") {
  CHECK(ZoneByTopology(kTwoZones, 4).empty());
  for (const char* text : {"",
                           "{",
                           "[]",
                           "1",
                           "{}",
                           R"({"zones":null})",
                           R"({"zones":"A"})",
                           R"({"zones":[]})",
                           R"({"zones":["A"]})",
                           R"({"zones":[["A"]]})",
                           R"({"zones":[[1,"A"]]})",
                           R"({"zones":[["A",-1]]})",
                           R"({"zones":[["A",1.5]]})"}) {
    CAPTURE(text);
    CHECK(ZoneByTopology(text, 0).empty());
  }
}

TEST_CASE("compat: the order's zone goes before the agent's own, and none is none") {
  AgentConfig config;
  config.zone = "C";
  tide::v1::StartTask start = TestStart(4);
  start.set_topology_json(kTwoZones);
  start.set_task(3);
  CHECK(CompatEnv(config, start).empty());  // off unless told otherwise
  config.compat_env = true;
  CHECK(CompatEnv(config, start) == Env{{"MARSV2_SCHEDULE_ZONE", "B"}, {"MARSV2_ROOM", "B"}});
  start.set_topology_json(R"({"zones":null})");
  CHECK(CompatEnv(config, start) == Env{{"MARSV2_SCHEDULE_ZONE", "C"}, {"MARSV2_ROOM", "C"}});
  config.zone.clear();
  CHECK(CompatEnv(config, start).empty());
}

TEST_CASE("compat: ranks get the names where the agent is told so, over the job's own") {
  const TestDir dir;
  AgentConfig config = TestConfig(dir);
  tide::v1::StartTask start = TestStart();
  start.set_topology_json(kTwoZones);
  auto& env = *start.mutable_spec()->mutable_env();
  env["MARSV2_ROOM"] = "mine";
  env["HFAI_SIMULATE"] = "1";
  const auto planned = [&] {
    const auto plan = PlanStart(config, start);
    INFO((plan ? "" : plan.error().message));
    REQUIRE(plan);
    return plan->ranks.front().env;
  };
  const Env without = planned();
  CHECK(without.at("MARSV2_ROOM") == "mine");
  CHECK_FALSE(without.contains("MARSV2_SCHEDULE_ZONE"));
  config.compat_env = true;
  const Env with = planned();
  CHECK(with.at("MARSV2_ROOM") == "A");
  CHECK(with.at("MARSV2_SCHEDULE_ZONE") == "A");
  CHECK(with.at("HFAI_SIMULATE") == "1");
}

}  // namespace
}  // namespace tide::agent
