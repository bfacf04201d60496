#include "scheduler/core/requests.h"

#include <catch2/catch.hpp>

#include "scheduler/core/testing/world.h"

namespace tide {
namespace {

using testing::AJob;
using testing::Cluster;
using testing::World;

struct Batch {
  BatchContext context;
  Reply reply;
  explicit Batch(const World& world) : context(world.state, world.now) {}
  Result<std::vector<EventBody>> Submit(const AJob& job,
                                        const std::string& key,
                                        const std::string& user = "ann") {
    reply = {};
    return MakeSubmit(context, reply, job.Spec(), user, key);
  }
};

TEST_CASE("the same key and spec is the same job") {
  World world(Cluster().Zone("A").Leaf(1));
  Batch first(world);
  const auto events = first.Submit(AJob(), "k");
  REQUIRE(events);
  REQUIRE(events->size() == 1);
  CHECK_FALSE(first.reply.existed);
  CHECK(first.reply.job == JobId(1));
  world.Turn(*events);

  Batch again(world);
  const auto none = again.Submit(AJob(), "k");
  REQUIRE(none);
  CHECK(none->empty());
  CHECK(again.reply.existed);
  CHECK(again.reply.job == JobId(1));

  const auto other = again.Submit(AJob().Priority(30), "k");
  REQUIRE_FALSE(other);
  CHECK(other.error().code == ErrorCode::kInvalidArgument);
  CHECK(other.error().message.find("j-1") != std::string::npos);

  const auto of_bob = again.Submit(AJob().Priority(30), "k", "bob");  // keys are each user's own
  REQUIRE(of_bob);
  CHECK(of_bob->size() == 1);
}

TEST_CASE("two with one key in one batch make one job") {
  World world(Cluster().Zone("A").Leaf(1));
  Batch batch(world);
  CHECK(batch.Submit(AJob(), "k"));
  const auto second = batch.Submit(AJob(), "k");
  REQUIRE_FALSE(second);
  CHECK(second.error().code == ErrorCode::kUnavailable);  // the client tries again and gets j-1
  REQUIRE(batch.Submit(AJob(), ""));
  CHECK(batch.reply.job == JobId(2));
  REQUIRE(batch.Submit(AJob(), ""));  // without a key each is a new job
  CHECK(batch.reply.job == JobId(3));
}

TEST_CASE("new names in one batch get ids in a row, old names keep theirs") {
  World world(Cluster().Zone("A").Leaf(2));
  Batch batch(world);
  const std::string known = world.state.nodes[1].identity.name;
  CHECK(batch.context.NodeFor(known) == NodeId(1));
  CHECK(batch.context.NodeFor("x") == NodeId(2));
  CHECK(batch.context.NodeFor("y") == NodeId(3));
  CHECK(batch.context.NodeFor("x") == NodeId(2));
}

TEST_CASE("the deadline of a suspension is loop time plus the notice, within policy") {
  World world(Cluster().Zone("A").Leaf(1));
  const JobId job = world.Submit(AJob().Notice(Duration::Seconds(60)));
  Batch batch(world);
  const auto deadline = [&](Duration notice) {
    const auto events =
        MakeJobOrder(batch.context, {job, JobVerb::kSuspend, "ann", "lunch", notice}, world.policy);
    REQUIRE(events);
    return std::get<HoldRequested>(events->front()).deadline - world.now;
  };
  CHECK(deadline(Duration()) == Duration::Seconds(60));
  CHECK(deadline(Duration::Seconds(5)) == Duration::Seconds(5));
  CHECK(deadline(Duration::Minutes(600)) == world.policy.suspend_notice_max);
}

TEST_CASE("the job of a removed user is not resumed") {
  World world(Cluster().Zone("A").Leaf(1));
  const JobId job = world.Submit(AJob());
  Batch batch(world);
  world.policy.removed_users = {"ada"};
  const auto resume =
      MakeJobOrder(batch.context, {job, JobVerb::kResume, "adam", "", Duration()}, world.policy);
  REQUIRE_FALSE(resume);
  CHECK(resume.error().code == ErrorCode::kConflict);
  CHECK(resume.error().message.find("tide user add ada --again") != std::string::npos);
  CHECK(MakeJobOrder(batch.context, {job, JobVerb::kCancel, "adam", "", Duration()}, world.policy));
}

TEST_CASE("orders for what is not there say where to look") {
  World world(Cluster().Zone("A").Leaf(1));
  Batch batch(world);
  const auto job = MakeJobOrder(
      batch.context, {JobId(9), JobVerb::kCancel, "ann", "", Duration()}, world.policy);
  REQUIRE_FALSE(job);
  CHECK(job.error().code == ErrorCode::kNotFound);
  CHECK(job.error().message.find("j-9") != std::string::npos);
  const auto node = MakeNodeOrder(batch.context, {"nowhere", NodeVerb::kDrain, "ann", "x", ""});
  REQUIRE_FALSE(node);
  CHECK(node.error().code == ErrorCode::kNotFound);
  const std::string known = world.state.nodes[0].identity.name;
  const auto mute = MakeNodeOrder(batch.context, {known, NodeVerb::kDrain, "ann", "", ""});
  REQUIRE_FALSE(mute);
  CHECK(mute.error().code == ErrorCode::kInvalidArgument);
  CHECK(MakeNodeOrder(batch.context, {known, NodeVerb::kUndrain, "ann", "", ""}));
  CHECK(MakeNodeOrder(batch.context, {known, NodeVerb::kValidate, "ann", "", "v1-1"}));
}

TEST_CASE("several nodes are validated as one group, all of them or none") {
  World world(Cluster().Zone("A").Leaf(4));
  const auto name = [&](size_t node) { return world.state.nodes[node].identity.name; };
  const auto ask = [&](std::vector<std::string> with) {
    Batch batch(world);
    NodeOrder order{name(0), NodeVerb::kValidate, "ann", "", "v1-1"};
    order.with = std::move(with);
    return MakeNodeOrder(batch.context, order);
  };
  const auto events = ask({name(2), name(1)});
  REQUIRE(events);
  CHECK(*events == std::vector<EventBody>{ValidationRequested{NodeId(0), "v1-1", "ann"},
                                          ValidationRequested{NodeId(2), "v1-1", "ann"},
                                          ValidationRequested{NodeId(1), "v1-1", "ann"}});
  CHECK(ask({"nowhere"}).error().code == ErrorCode::kNotFound);
  CHECK(ask({name(1), name(1)}).error().code == ErrorCode::kInvalidArgument);
  CHECK(ask({name(0)}).error().code == ErrorCode::kInvalidArgument);
  CHECK(ask(std::vector<std::string>(256, name(1))).error().code == ErrorCode::kInvalidArgument);
  world.Xid(3, 79);
  CHECK(ask({name(3)}));  // a broken node may prove itself beside others
  REQUIRE(world.Apply(ValidationRequested{NodeId(3), "v1-0", "ann"}));
  const auto busy = ask({name(1), name(3)});
  REQUIRE_FALSE(busy);
  CHECK(busy.error().code == ErrorCode::kConflict);
  CHECK(busy.error().message.find(name(3) + " cannot be validated now: it is validating") == 0);
  world.Submit(AJob().Nodes(3));
  CHECK(ask({name(1)}).error().code == ErrorCode::kConflict);
}

}  // namespace
}  // namespace tide
