#include "scheduler/core/idle_tests.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "scheduler/core/commands.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

constexpr Duration kDay = Duration::Minutes(24 * 60);

struct IdleSite : World {
  explicit IdleSite(uint32_t nodes) : World(Cluster().Leaf(nodes)) { Pass(kDay); }

  // Two looks, as far apart as they are; what begins reaches the agents.
  size_t Look() {
    (void)watch.Check(state, policy, now);
    now = now + IdleTestWatch::check_interval();
    const std::vector<EventBody> events = watch.Check(state, policy, now);
    Turn(events);
    return events.size();
  }
  [[nodiscard]] size_t CountRunning() const {
    return static_cast<size_t>(std::ranges::count_if(
        state.nodes, [](const Node& node) { return node.idle_test.running; }));
  }
  // The agent of the node answers, as far as it came.
  void Answer(uint32_t node, const std::vector<std::pair<std::string, std::string>>& verdicts) {
    ValidationReported report{NodeId(node), state.nodes[node].idle_test.id, {}};
    for (const auto& [validator, verdict] : verdicts) {
      report.verdicts.push_back({validator, verdict, 0, "", "evidence", 1, now});
    }
    REQUIRE(Do(report));
  }

  IdleTestWatch watch;
};

}  // namespace

TEST_CASE("idle tests: each node once a day, the one tested longest ago first", "[idle]") {
  IdleSite site(30);
  std::vector<uint32_t> tested;
  for (int look = 0; look < 12; ++look) {
    CHECK(site.Look() <= 3);  // a tenth
    for (const Node& node : site.state.nodes) {
      if (node.idle_test.running) {
        tested.push_back(static_cast<uint32_t>(node.id.value()));
      }
    }
    CHECK(site.CountRunning() <= 3);
    site.Run();
    CHECK(site.CountRunning() == 0);
  }
  CHECK(tested.size() == 30);
  std::ranges::sort(tested);
  CHECK(std::ranges::adjacent_find(tested) == tested.end());
  CHECK(std::ranges::all_of(site.state.nodes,
                            [&](const Node& node) { return site.now - node.tested_at < kDay; }));
  site.Pass(kDay);
  CHECK(site.Look() == 3);
}

TEST_CASE("idle tests: none where a job runs, none between two jobs, none when told so", "[idle]") {
  IdleSite site(1);
  SECTION("a job runs") {
    site.Submit(AJob());
    CHECK(site.Look() == 0);
  }
  SECTION("a job ran at the last look") {
    const JobId job = site.Submit(AJob());
    (void)site.watch.Check(site.state, site.policy, site.now);
    site.Finish(job);
    CHECK(site.watch.Check(site.state, site.policy, site.now).empty());
  }
  SECTION("the policy wants none") {
    site.policy.faults.test_every = Duration();
    CHECK(site.Look() == 0);
  }
  SECTION("it is out of service") {
    site.Drain(0);
    CHECK(site.Look() == 0);
  }
}

TEST_CASE("idle tests: a job starts at once and breaks the test off", "[idle]") {
  IdleSite site(1);
  site.agents.validates = false;
  REQUIRE(site.Look() == 1);
  std::vector<Command> owed;
  AppendForNode(site.state, site.policy, site.state.nodes[0], owed);
  REQUIRE(owed.size() == 1);
  CHECK(owed[0].kind == CommandKind::kValidate);
  CHECK((owed[0].yields && owed[0].thorough));
  CHECK(site.NodeIs(0) == NodeState::kReady);

  const std::string first = site.state.nodes[0].idle_test.id;
  const JobId job = site.Submit(AJob());
  CHECK(site.Is(job) == JobState::kRunning);
  CHECK(site.CountRunning() == 0);
  site.Answer(0, {{"links", "pass"}, {"cpu", "pass"}});
  const Instant before = site.state.nodes[0].tested_at;
  CHECK(before < site.now - kDay);
  site.Finish(job);
  CHECK(site.state.nodes[0].idle_test.done.size() == 2);

  SECTION("the next one goes on where it was") {
    REQUIRE(site.Look() == 1);
    owed.clear();
    AppendForNode(site.state, site.policy, site.state.nodes[0], owed);
    CHECK(owed.at(0).passed_over == std::vector<std::string>{"links", "cpu"});
    site.Answer(0, {{"memory", "pass"}, {"storage", "skipped"}});
    CHECK(site.state.nodes[0].tested_at == site.now);
    CHECK(site.state.nodes[0].idle_test.done.empty());
    CHECK(site.state.nodes[0].verdicts.size() == 4);
  }
  SECTION("an answer that is repeated says nothing") {
    REQUIRE(site.Look() == 1);
    const auto late =
        site.Apply(ValidationReported{NodeId(0), first, {{"cpu", "fail", 0, "", "", 0, {}}}});
    REQUIRE(late);
    CHECK(*late == Applied::kNoOp);
  }
}

TEST_CASE("idle tests: what fails takes the node out, and its own validator proves it", "[idle]") {
  IdleSite site(4);
  site.agents.validates = false;
  REQUIRE(site.Look() == 1);
  site.Answer(0, {{"cpu", "pass"}, {"memory", "fail"}});
  CHECK(site.NodeIs(0) == NodeState::kQuarantined);
  CHECK_THAT(site.state.nodes[0].reason, Catch::StartsWith("idle test failed: memory: evidence"));
  CHECK_FALSE(site.Do(UndrainRequested{NodeId(0), "op"}));
  site.agents.validates = true;
  site.Pass(Duration::Seconds(61));
  CHECK(site.NodeIs(0) == NodeState::kProbation);
  const Incident& incident = site.state.incidents.begin()->second;
  CHECK(incident.covers == std::vector<std::string>{"memory"});
  CHECK(incident.text == "idle test failed: memory: evidence");
  CHECK(incident.cleared_at.is_set());
}

TEST_CASE("idle tests: one that fails while a job starts moves the job, free of charge", "[idle]") {
  IdleSite site(2);
  site.agents.validates = false;
  REQUIRE(site.Look() == 1);
  const JobId job = site.Submit(AJob());
  REQUIRE(site.NodesOf(job) == std::vector<uint32_t>{0});
  site.Answer(0, {{"cpu", "fail"}});
  site.Run();
  CHECK(site.NodeIs(0) == NodeState::kQuarantined);
  CHECK(site.Is(job) == JobState::kRunning);
  CHECK(site.NodesOf(job) == std::vector<uint32_t>{1});
  CHECK(site.At(job).failure_restarts == 0);
}

TEST_CASE("idle tests: one that is not heard of again is begun anew after an hour", "[idle]") {
  IdleSite site(1);
  site.agents.validates = false;
  REQUIRE(site.Look() == 1);
  CHECK(site.Look() == 0);
  site.now = site.now + kIdleTestMax;
  CHECK(site.Look() == 1);
}

TEST_CASE("idle tests: a whole one that is reported again is no test", "[idle]") {
  IdleSite site(1);
  site.agents.validates = false;
  REQUIRE(site.Look() == 1);
  const ValidationReported report{
      NodeId(0), site.state.nodes[0].idle_test.id, {{"cpu", "fail", 0, "", "", 0, {}}}};
  REQUIRE(site.Do(report));
  CHECK(site.NodeIs(0) == NodeState::kQuarantined);
  const auto again = site.Apply(report);
  REQUIRE(again);
  CHECK(*again == Applied::kNoOp);
  CHECK(site.state.nodes[0].idle_test.done.empty());
  CHECK(site.state.incidents.begin()->second.count == 1);
}

}  // namespace tide::testing
