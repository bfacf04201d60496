// Tasks of gangs while the scheduler is away: the agent asks its peers, and answers them.

#include <catch2/catch.hpp>

#include "agent/server/start_plan.h"
#include "agent/server/testing/peers.h"
#include "agent/server/testing/world.h"
#include "agent/server/witness_calls.h"

namespace tide::agent {
namespace {

constexpr TaskId kId{7, 2, 0};

// Task 0 of two runs here; task 1 is held by hand.
struct GangWorld : World {
  Peer peer{dir, "n2", Token()};

  // The first Welcome says nothing of witnesses yet.
  explicit GangWorld(uint64_t witness_ms = 60'000) : World(600'000) {
    scheduler->WelcomeAll(600'000, witness_ms);
    Restart();
    tide::v1::StartTask start = TestStart(2);
    start.set_submitted_at(5);
    start.mutable_peers(0)->set_endpoint(config.listen);
    start.mutable_peers(1)->set_endpoint(peer.address);
    Start(start);
    REQUIRE(WaitState(tide::v1::TASK_STATE_RUNNING));
  }
  [[nodiscard]] Contact Lease() const {
    return ReadContact(TaskContactPath(config, "7.2.0"), BootNanos()).value_or(Contact{});
  }
};

TEST_CASE("a gang's task has a lease of its own, and its node's Hello says which") {
  GangWorld world;
  CHECK(world.Lease().witness_ms == 60'000);
  CHECK(ReadContact(ContactPath(world.config), BootNanos()).value().witness_ms == 0);
  world.Restart();
  CHECK(world.scheduler->hellos().back().witness_timeout_ms() == 60'000);
  CHECK(world.scheduler->hellos().back().isolation_timeout_ms() == 600'000);
  CHECK(world.agent->loop().IsAlive(kId, 5));
  CHECK_FALSE(world.agent->loop().IsAlive(kId, 6));        // another job of that number
  CHECK_FALSE(world.agent->loop().IsAlive({7, 1, 0}, 5));  // another attempt
  REQUIRE(::unlink(TaskContactPath(world.config, "7.2.0").c_str()) == 0);
  world.Restart();  // as after an agent that knew no witnesses
  CHECK_FALSE(world.scheduler->hellos().back().has_witness_timeout_ms());
}

TEST_CASE("a task that is gone is no witness when its end is reported, and its lease is cleared") {
  GangWorld world;
  world.node.Exit("7.2.0", 1);
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_EXITED));
  CHECK_FALSE(world.agent->loop().IsAlive(kId, 5));
  world.Forget();
  CHECK(Eventually(
      [&] { return ::access(TaskContactPath(world.config, "7.2.0").c_str(), F_OK) != 0; }));
}

TEST_CASE("while the scheduler is away, a peer's word keeps a gang's task going") {
  GangWorld world(3000);
  const int64_t asked_from = BootNanos();
  world.scheduler->Stop();
  REQUIRE(Eventually([&] { return world.Lease().witnessed_ns > asked_from + 3'000'000'000; }));
  CHECK(world.peer.asked > 0);
  CHECK(world.CountCalls("kill 7.2.0") == 0);
  world.peer.alive = false;
  CHECK(world.WaitCall("kill 7.2.0"));
  CHECK(BootNanos() >= world.Lease().ExpiresNs());
}

TEST_CASE("without scheduler and witness a gang's task ends early") {
  GangWorld world(1000);
  world.peer.Stop();
  world.scheduler->Stop();
  REQUIRE(world.WaitCall("kill 7.2.0"));
  world.scheduler->Serve();
  CHECK(world.scheduler->WaitExit(tide::v1::EXIT_REASON_CUT_OFF));
}

TEST_CASE("an agent asks a peer that shows the cluster's secret, and takes no answer for none") {
  const TestDir dir;
  Peer peer(dir, "n2", Token());
  tide::v1::WitnessRequest request;
  request.set_job_id(7);
  request.set_epoch(2);
  request.set_task(1);
  request.set_submitted_at(5);
  tide::v1::Peer asked;
  asked.set_node("n2");
  asked.set_endpoint(peer.address);
  const auto ask = [&](const rpc::Security& security) {
    WitnessCalls calls(security);
    std::atomic<int> answer = -1;
    calls.Ask(asked, request, Duration::Seconds(60), [&](bool alive) { answer = alive ? 1 : 0; });
    REQUIRE(Eventually([&] { return answer >= 0; }));
    return answer == 1;
  };
  CHECK(ask(Token()));
  CHECK_FALSE(ask(rpc::ClusterToken("another")));
  peer.alive = false;
  CHECK_FALSE(ask(Token()));
  peer.Stop();
  CHECK_FALSE(ask(Token()));
}

}  // namespace
}  // namespace tide::agent
