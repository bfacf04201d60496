#include "scheduler/core/turn.h"

#include <catch2/catch.hpp>

#include "scheduler/core/policy/estimate.h"
#include "scheduler/core/testing/world.h"

namespace tide {
namespace {

using testing::Cluster;
using testing::World;

using Words = std::vector<std::string>;

// Writes down what it is asked to do, in order.
class RecordingHost final : public TurnHost {
 public:
  std::vector<EventBody> notices;
  Status commit;
  Words done;
  Words logged;
  Instant sent_at;

  std::vector<EventBody> Notice(const ClusterState& /*state*/) override {
    done.emplace_back("notice");
    return notices;
  }
  Status Commit(const ClusterState& /*state*/, const StepResult& step, Instant /*now*/) override {
    done.emplace_back("commit");
    for (const Event& event : step.log) {
      logged.emplace_back(EventName(event.body));
    }
    return commit;
  }
  uint64_t Publish(const ClusterState& /*state*/, const StepResult& /*step*/) override {
    done.emplace_back("publish");
    return 7;
  }
  void Send(const Command& /*command*/, const ClusterState& /*state*/, Instant now) override {
    done.emplace_back("send");
    sent_at = now;
  }
  void Explain(Explanations /*explanations*/) override { done.emplace_back("explain"); }
};

// On a cluster of one node.
struct OneTurn {
  World world{Cluster().Zone("A").Leaf(1)};
  RecordingHost host;
  Request Ask(EventBody body) {
    Request request;
    request.make = [body](BatchContext&, Reply&) -> Result<std::vector<EventBody>> {
      return std::vector<EventBody>{body};
    };
    request.decided = [this](const Status& outcome) {
      host.done.emplace_back(outcome ? "decided" : "refused");
    };
    request.done = [this](const Reply& reply) {
      host.done.push_back("answer " + std::to_string(reply.rev));
    };
    return request;
  }
  Result<Instant> Turn(EventBody body, Deciding deciding = Deciding::kNow) {
    std::deque<Request> batch;
    batch.push_back(Ask(std::move(body)));
    return RunTurn(world.state, Policy(), world.now, batch, host, deciding);
  }
};

EventBody ASubmit() {
  JobSubmitted submit;
  submit.job = JobId(1);
  submit.spec = testing::AJob().Spec();
  submit.user = "ann";
  return submit;
}

TEST_CASE("a turn commits first, then shows, answers and sends, all of one moment") {
  OneTurn turn;
  REQUIRE(turn.Turn(ASubmit()));
  CHECK(turn.host.done ==
        Words{"notice", "decided", "commit", "publish", "answer 7", "send", "explain"});
  CHECK(turn.host.sent_at == turn.world.now);
}

TEST_CASE("a turn that leaves the decision to the next one commits and answers all the same") {
  OneTurn turn;
  const auto again = turn.Turn(ASubmit(), Deciding::kLater);
  REQUIRE(again);
  CHECK(*again == turn.world.now);
  CHECK(turn.host.done == Words{"notice", "decided", "commit", "publish", "answer 7"});
  CHECK(turn.host.logged == Words{"job_submitted"});
  turn.host.logged.clear();
  REQUIRE(RunTurn(turn.world.state, Policy(), turn.world.now, {}, turn.host));
  CHECK(turn.host.logged == Words{"job_placed"});
}

TEST_CASE(
    "a node that joins in a turn which leaves the decision to the next one is known at once") {
  OneTurn turn;
  JobSubmitted more;
  more.job = JobId(1);
  more.spec = testing::AJob().Nodes(1).Zone("cross-ok").Spec();
  more.user = "ann";
  NodeJoined join = Cluster().Zone("A").Leaf(1).Zone("B").Leaf(1).Joins().back();
  REQUIRE(turn.Turn(more, Deciding::kLater));
  REQUIRE(turn.Turn(join, Deciding::kLater));
  const ClusterState& state = turn.world.state;
  CHECK_FALSE(state.fabric_stale);
  CHECK(state.fabric.ZoneOf(join.node).name == "B");
  CHECK(EstimateStarts(state, state.fabric, Policy(), turn.world.now).size() == 1);
}

TEST_CASE("after a commit that failed nobody is answered and nothing is sent") {
  OneTurn turn;
  turn.host.commit = Fail(ErrorCode::kStorage, "disk full");
  const auto failed = turn.Turn(ASubmit());
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message == "disk full");
  CHECK(turn.host.done == Words{"notice", "decided", "commit"});
}

TEST_CASE("a node that joins is not declared lost for its silence before") {
  OneTurn turn;
  NodeJoined join = Cluster().Zone("A").Leaf(1).Joins().front();
  turn.host.notices = {NodeSilent{join.node}, NodeLost{join.node}};
  const bool joins = GENERATE(true, false);
  REQUIRE(turn.Turn(joins ? EventBody(join) : ASubmit()));
  CHECK(turn.world.NodeIs(0) == (joins ? NodeState::kReady : NodeState::kLost));
  CHECK(turn.host.logged.back() == (joins ? "node_joined" : "node_lost"));
}

}  // namespace
}  // namespace tide
