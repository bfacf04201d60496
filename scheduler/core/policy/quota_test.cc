// Quotas, borrowing, demotion and `auto` in whole small worlds: scheduling.md sections 2 and 3.

#include "scheduler/core/policy/quota.h"

#include <catch2/catch.hpp>

#include "scheduler/core/policy/reasons.h"
#include "scheduler/core/policy/runners.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

using Codes = std::vector<std::string>;
constexpr int32_t kNormal = 10;
constexpr int32_t kHigh = 30;

struct ARow {
  QuotaRow row;
  explicit ARow(const std::string& project, uint32_t nodes) {
    row.name = project;
    row.nodes = nodes;
    row.limit = nodes;
  }
  ARow& User() {
    row.subject = QuotaRow::Subject::kUser;
    return *this;
  }
  ARow& Class(int32_t priority) {
    row.priority = priority;
    return *this;
  }
  ARow& Group(const std::string& group) {
    row.group = group;
    return *this;
  }
  ARow& Limit(std::optional<uint32_t> limit) {
    row.limit = limit;
    return *this;
  }
  ARow& Until(Instant until) {
    row.until = until;
    return *this;
  }
};

struct QuotaWorld : World {
  QuotaWorld(const Cluster& cluster, const std::vector<ARow>& rows) : World(cluster) {
    for (const ARow& each : rows) {
      policy.quotas.push_back(each.row);
    }
  }
  [[nodiscard]] bool Runs(JobId job) const { return Is(job) == JobState::kRunning; }
  [[nodiscard]] ReasonText FirstReason(JobId job) const {
    const ReasonList reasons = ReasonsOf(job);
    return reasons.empty() ? ReasonText() : DescribeReason(At(job), reasons.front());
  }
  [[nodiscard]] int32_t ClassOf(JobId job) const {
    return Quotas(state, state.fabric, policy, now).ClassOf(At(job));
  }
};

NodeCapacity WithGpus(uint32_t gpus) {
  NodeCapacity capacity;
  capacity.gpus = gpus;
  return capacity;
}

const std::optional<uint32_t> kUnbounded;

}  // namespace

TEST_CASE("a quota is used up to the last node and not beyond") {
  for (const uint32_t nodes : {3U, 4U, 5U}) {
    for (const bool by_user : {false, true}) {
      ARow row = by_user ? ARow("ada", 4).User() : ARow("default", 4);
      QuotaWorld world(Cluster().Leaf(8), {row});
      const JobId job = world.Submit(AJob().Nodes(nodes));
      CHECK(world.Runs(job) == (nodes <= 4));
      if (nodes > 4) {
        CHECK(world.Why(job) == Codes{by_user ? "quota.user" : "quota.project"});
      }
    }
  }
}

TEST_CASE("a job over quota says what is used, what is short and what would do") {
  QuotaWorld world(Cluster().Leaf(8),
                   {ARow("default", 6).Class(kHigh).Group("default"), ARow("ada", 7).User()});
  (void)world.Submit(AJob().Nodes(4).Priority(kHigh));
  const JobId job = world.Submit(AJob().Nodes(3).Priority(kHigh));
  CHECK(world.Why(job) == Codes{"quota.project"});
  CHECK(world.FirstReason(job) ==
        ReasonText{"quota.project",
                   "project default uses 4 of 6 nodes in class high of group default; it needs 3, "
                   "short 1",
                   "priority: above-normal has quota left; or resources: {nodes: 2} would be "
                   "within quota"});
  const JobId both = world.Submit(AJob().Nodes(4).Priority(kHigh));
  CHECK(world.Why(both) == Codes{"quota.project", "quota.user"});
}

TEST_CASE("jobs over quota hear the same, however long they wait") {
  QuotaWorld world(Cluster().Leaf(4), {ARow("vision", 2), ARow("llm", 9)});
  (void)world.Submit(AJob().Project("vision").Nodes(2), "bob");
  (void)world.Submit(AJob().Project("llm").Nodes(2), "eve");
  world.Pass(Duration::Seconds(10));
  const JobId longest = world.Submit(AJob().Project("vision").Nodes(3), "bob");
  world.Pass(Duration::Seconds(10));
  (void)world.Submit(AJob().Project("llm").Nodes(3), "bob");
  world.Pass(Duration::Seconds(10));
  const JobId newest = world.Submit(AJob().Project("vision").Nodes(3), "bob");
  CHECK(world.Why(newest) ==
        Codes{"quota.project", "placement.zone_capacity", "preempt.protected"});
  CHECK(world.Why(longest) == world.Why(newest));
}

TEST_CASE("jobs of one turn share what is left") {
  QuotaWorld world(Cluster().Leaf(4), {ARow("default", 2)});
  std::vector<EventBody> both;
  for (const uint64_t id : {1U, 2U}) {
    both.emplace_back(JobSubmitted{JobId(id), AJob().Nodes(2).Spec(), "ada", ""});
  }
  world.Turn(both);
  CHECK(world.Is(JobId(1)) == JobState::kStarting);
  CHECK(world.Why(JobId(2)) == Codes{"quota.project"});
}

TEST_CASE("rows count their class, their group, and everything below their project") {
  struct Case {
    ARow row;
    bool starts;
  };
  const Case cases[] = {
      {ARow("llm", 2), false},
      {ARow("chat", 2), false},
      {ARow("other", 2), true},
      {ARow("llm", 2).Class(kNormal), false},
      {ARow("llm", 2).Class(kHigh), true},
      {ARow("llm", 2).Group("default"), false},
      {ARow("llm", 2).Group("a100"), true},
      {ARow("ada", 2).User(), false},
      {ARow("bob", 2).User(), true},
  };
  for (const Case& each : cases) {
    QuotaWorld world(Cluster().Leaf(4), {each.row});
    world.policy.projects = {{"llm", {}}, {"chat", {"llm"}}};
    CHECK(world.Runs(world.Submit(AJob().Project("chat").Nodes(3))) == each.starts);
  }
}

TEST_CASE("parts of a node count for their part") {
  QuotaWorld world(Cluster().Leaf(4), {ARow("default", 1)});
  const JobId three = world.Submit(AJob().Gpus(3));
  const JobId five = world.Submit(AJob().Gpus(5));
  const JobId one = world.Submit(AJob().Gpus(1));
  CHECK(world.Runs(three));
  CHECK(world.Runs(five));
  CHECK(world.FirstReason(one).message ==
        "project default uses 1 of 1 nodes; it needs 0.125, short 0.125");
  CHECK(MilliNodesOf(AJob().Gpus(1).Spec(), WithGpus(3)) == 333);
  CHECK(MilliNodesOf(AJob().Gpus(8).Spec(), WithGpus(8)) == 1000);
  CHECK(MilliNodesOf(AJob().Nodes(2).Gpus(1).Spec(), WithGpus(8)) == 2000);
}

TEST_CASE("who is over quota holds nobody up") {
  QuotaWorld world(Cluster().Leaf(4), {ARow("ada", 2).User()});
  (void)world.Submit(AJob().Nodes(3));
  const JobId other = world.Submit(AJob().Nodes(4), "bob");
  CHECK(world.Runs(other));
  CHECK_FALSE(world.At(other).attempts.back().opportunistic);
}

TEST_CASE("a row ends to the nanosecond, and the scheduler wakes for it") {
  QuotaWorld world(Cluster().Leaf(4), {});
  const Instant end = world.now + Duration::Minutes(60);
  world.policy.quotas = {ARow("default", 2).Until(end).row};
  const JobId job = world.Submit(AJob().Nodes(3));
  CHECK(world.FirstReason(job).remedy ==
        "resources: {nodes: 2} would be within quota; or this quota ends at " + FormatRfc3339(end));
  CHECK(world.last.wake_at == end);
  world.now = end - Duration::Nanos(1);
  world.Turn({});
  CHECK(world.Is(job) == JobState::kQueued);
  world.now = end;
  world.Turn({});
  CHECK(world.Is(job) == JobState::kStarting);
}

TEST_CASE("of equal rows the one that ends first counts; what runs beyond it goes on") {
  QuotaWorld world(Cluster().Leaf(4), {});
  const Instant end = world.now + Duration::Minutes(60);
  world.policy.quotas = {ARow("default", 1).row, ARow("default", 3).Until(end).row};
  const JobId early = world.Submit(AJob());
  world.now = world.now + Duration::Seconds(1);
  const JobId late = world.Submit(AJob().Nodes(2));
  REQUIRE(world.Runs(late));
  world.Pass(Duration::Minutes(61));
  CHECK(world.Runs(early));
  CHECK(world.Runs(late));
  const JobId next = world.Submit(AJob());
  CHECK(world.Why(next) == Codes{"quota.project"});
  const Quotas quotas(world.state, world.state.fabric, world.policy, world.now);
  CHECK(quotas.StandingOf(early) == Standing::kWithin);
  CHECK(quotas.StandingOf(late) == Standing::kOverLimit);
}

TEST_CASE("who is over a lowered quota is the first victim of its class") {
  QuotaWorld world(Cluster().Leaf(2), {});
  const JobId within = world.Submit(AJob(), "bob");
  const JobId over = world.Submit(AJob(), "ada");
  world.Pass(Duration::Seconds(10));
  for (const std::string& lowered : {std::string("ada"), std::string("bob")}) {
    World copy = world;
    copy.policy.quotas = {ARow(lowered, 0).User().row};
    copy.agents.saves = false;
    const JobId high = copy.Submit(AJob().Priority(kHigh), "eve");
    REQUIRE(copy.ClaimOf(high) != nullptr);
    CHECK(copy.ClaimOf(high)->victims == std::vector<JobId>{lowered == "ada" ? over : within});
  }
}

TEST_CASE("unused share is borrowed up to the limit and taken back after the minimum run") {
  QuotaWorld world(Cluster().Leaf(4),
                   {ARow("llm", 2).Limit(kUnbounded), ARow("vision", 2).Limit(3)});
  const JobId own = world.Submit(AJob().Project("llm").Nodes(2));
  const JobId borrowed = world.Submit(AJob().Project("llm").Nodes(2));
  REQUIRE(world.Runs(borrowed));
  const JobId too_many = world.Submit(AJob().Project("vision").Nodes(4), "bob");
  CHECK(world.Why(too_many).front() == "quota.project");
  const JobId guaranteed = world.Submit(AJob().Project("vision").Nodes(2), "bob");
  CHECK(world.Is(guaranteed) == JobState::kQueued);
  CHECK(world.last.wake_at <= world.now + world.policy.minimum_run);
  world.Pass(world.policy.minimum_run);
  CHECK(world.Runs(guaranteed));
  CHECK(world.Runs(own));
  CHECK(world.Is(borrowed) == JobState::kQueued);
}

TEST_CASE("who wants its quota back is told when the borrower has had its minimum run") {
  for (const bool within : {true, false}) {
    QuotaWorld world(Cluster().Leaf(2),
                     {ARow("llm", 0).Limit(kUnbounded), ARow("vision", within ? 1 : 0).Limit(1)});
    const JobId borrower = world.Submit(AJob().Project("llm").Nodes(2));
    const JobId job = world.Submit(AJob().Project("vision"), "bob");
    CHECK(world.Why(job) == Codes{"placement.zone_capacity", "preempt.protected"});
    const Reason reason = world.ReasonsOf(job).back();
    CHECK(reason.other == borrower);
    CHECK(reason.until ==
          world.now +
              (within ? world.policy.minimum_run
                      : SliceOf(CostOfSuspension(world.At(borrower), world.policy), world.policy)));
  }
}

TEST_CASE("nobody takes his own back, and stands in the way of nobody who would") {
  QuotaWorld world(Cluster().Leaf(1),
                   {ARow("llm", 0).Limit(kUnbounded), ARow("vision", 2).Limit(kUnbounded)});
  world.policy.turn_ratio = 1000;  // nobody takes turns
  (void)world.Submit(AJob().Project("llm"), "bob");
  const JobId own = world.Submit(AJob().Project("vision"), "bob");
  const JobId other = world.Submit(AJob().Project("vision"), "eve");
  world.Pass(world.policy.minimum_run);
  CHECK(world.Is(own) == JobState::kQueued);
  CHECK(world.Runs(other));
}

TEST_CASE("who is within its quota is not refused with one who would borrow") {
  QuotaWorld world(Cluster().Leaf(1),
                   {ARow("art", 0).Limit(kUnbounded), ARow("vision", 2).Limit(kUnbounded)});
  world.policy.quotas.push_back(ARow("llm", 0).Limit(kUnbounded).row);
  (void)world.Submit(AJob().Project("llm"), "dan");
  const JobId borrower = world.Submit(AJob().Project("art"), "bob");  // is looked at first
  const JobId within = world.Submit(AJob().Project("vision"), "eve");
  world.Pass(world.policy.minimum_run);
  CHECK(world.Is(borrower) == JobState::kQueued);
  CHECK(world.Runs(within));
}

TEST_CASE("only who is within its quota takes borrowed nodes back, and only in its class") {
  struct Case {
    const char* project;
    uint32_t nodes;
    int32_t priority;
    bool takes;
  };
  const Case cases[] = {{"vision", 2, kNormal, true},
                        {"vision", 3, kNormal, false},  // would borrow itself
                        {"other", 2, kNormal, false},   // has no row
                        {"vision", 2, 0, false}};       // a lower class
  for (const Case& each : cases) {
    QuotaWorld world(Cluster().Leaf(4),
                     {ARow("llm", 0).Limit(kUnbounded), ARow("vision", 2).Limit(kUnbounded)});
    world.policy.turn_ratio = 1000;  // nobody takes turns
    (void)world.Submit(AJob().Project("llm").Nodes(2));
    (void)world.Submit(AJob().Project("llm").Nodes(2));
    world.Pass(Duration::Minutes(20));
    const JobId job =
        world.Submit(AJob().Project(each.project).Nodes(each.nodes).Priority(each.priority), "bob");
    CHECK(world.Runs(job) == each.takes);
  }
}

TEST_CASE("what is guaranteed is not lent out again by shares") {
  for (const bool guaranteed : {true, false}) {
    QuotaWorld world(Cluster().Leaf(2), {ARow("llm", 0).Limit(kUnbounded)});
    world.policy.quotas.push_back(ARow("vision", guaranteed ? 2 : 1).Limit(kUnbounded).row);
    const JobId running = world.Submit(AJob().Project("vision").Nodes(2));
    world.Pass(Duration::Minutes(900));
    const JobId borrower = world.Submit(AJob().Project("llm"), "bob");
    world.Pass(world.policy.minimum_run + Duration::Minutes(2));
    CHECK(world.Runs(running) == guaranteed);
    CHECK(world.Runs(borrower) == !guaranteed);
  }
}

TEST_CASE("a claim uses quota: nobody is asked to leave for who then may not start") {
  QuotaWorld world(Cluster().Leaf(3), {ARow("llm", 2)});
  (void)world.Submit(AJob().Nodes(2).Priority(0), "bob");
  world.agents.saves = false;
  const JobId claiming = world.Submit(AJob().Project("llm").Nodes(2).Priority(kHigh));
  REQUIRE(world.ClaimOf(claiming) != nullptr);
  const JobId second = world.Submit(AJob().Project("llm"));
  CHECK(world.Why(second).front() == "quota.project");
  world.policy.quotas.front().limit = 1;  // lowered while its victim saves
  world.Turn({});
  CHECK(world.ClaimOf(claiming) == nullptr);
  CHECK(world.Runs(JobId(1)));
}

TEST_CASE("a class is lost after its running time, at the moment and for good") {
  QuotaWorld world(Cluster().Leaf(2), {});
  world.policy.demotions = {{20, {5, Duration::Minutes(30)}}};
  const JobId job = world.Submit(AJob().Nodes(2).Priority(20));
  const JobId normal = world.Submit(AJob().Nodes(2), "bob");
  CHECK(world.ClassOf(job) == 20);
  world.Pass(Duration::Minutes(30) - Duration::Nanos(1));
  CHECK(world.Runs(job));
  CHECK(world.last.wake_at <= world.now + Duration::Nanos(1));
  world.Pass(Duration::Nanos(1));
  CHECK(world.Runs(normal));
  CHECK(world.ClassOf(job) == 5);  // also while it waits
  world.policy.demotions.clear();
  CHECK(world.ClassOf(job) == 20);
}

TEST_CASE("demotions follow each other by the whole running time") {
  Policy policy;
  policy.demotions = {{20, {10, Duration::Minutes(30)}}, {10, {0, Duration::Minutes(60)}}};
  Job job;
  const Instant now = Instant::FromUnixNanos(1);
  for (const auto& [minutes, priority] : {std::pair(29, 20), {30, 10}, {59, 10}, {60, 0}}) {
    job.run_time = Duration::Minutes(minutes);
    CHECK(Demote(20, RunTimeAt(job, now), policy) == priority);
    CHECK(Demote(30, RunTimeAt(job, now), policy) == 30);
  }
  CHECK(Policy().demotions.at(20) == Demotion{10, Duration::Minutes(30)});
}

TEST_CASE("an auto job stands in the highest class with quota left, else in low") {
  QuotaWorld world(Cluster().Leaf(8),
                   {ARow("ada", 2).User().Class(kHigh), ARow("ada", 4).User().Class(kNormal)});
  const JobId first = world.Submit(AJob().Nodes(2).Priority(-1));
  world.now = world.now + Duration::Seconds(1);
  const JobId second = world.Submit(AJob().Nodes(2).Priority(-1));
  world.now = world.now + Duration::Seconds(1);
  const JobId third = world.Submit(AJob().Nodes(3).Priority(-1));
  REQUIRE(world.Runs(third));
  CHECK(world.ClassOf(first) == kHigh);
  CHECK(world.ClassOf(second) == kNormal);
  CHECK(world.ClassOf(third) == 0);
  // Who names the class comes before: the others move down.
  const JobId named = world.Submit(AJob().Nodes(1).Priority(kHigh));
  REQUIRE(world.Runs(named));
  CHECK(world.ClassOf(first) == kNormal);
  CHECK(world.ClassOf(second) == kNormal);
  CHECK(world.ClassOf(third) == 0);
}

TEST_CASE("auto jobs are bound by rows of any class, and without quotas stand below low") {
  QuotaWorld bound(Cluster().Leaf(4), {ARow("ada", 2).User()});
  CHECK(bound.Why(bound.Submit(AJob().Nodes(3).Priority(-1))) == Codes{"quota.user"});
  QuotaWorld free(Cluster().Leaf(4), {});
  CHECK(free.ClassOf(free.Submit(AJob().Nodes(3).Priority(-1))) == -1);
}

}  // namespace tide::testing
