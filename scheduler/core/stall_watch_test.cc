#include "scheduler/core/stall_watch.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

using health::RankPhase;
using health::RankTick;

// A gang of four nodes with two ranks on each, whose ranks have come to step 100.
struct Gang : World {
  StallWatch watch;
  JobId job;
  std::vector<RankTick> ranks;

  Gang() : World(Cluster().Leaf(5)) {
    JobSpec spec = AJob().Nodes(4).Spec();
    spec.ranks_per_node = 2;
    job = JobId(state.next_job_id);
    (void)Do(JobSubmitted{job, spec, "ada", ""});
    REQUIRE(Is(job) == JobState::kRunning);
    for (uint32_t rank = 0; rank < 8; ++rank) {
      ranks.push_back({.rank = rank,
                       .step = 100,
                       .age = Duration::Millis(100),
                       .phase = static_cast<uint32_t>(RankPhase::kTraining),
                       .step_time = Duration::Seconds(1),
                       .state = 'S'});
    }
  }
  // So long no rank comes to the end of a step.
  void Silence(Duration span) {
    for (RankTick& rank : ranks) {
      rank.age = rank.age + span;
    }
    now = now + span;
  }
  void Tick() {
    for (RankTick& rank : ranks) {
      ++rank.step;
      rank.age = Duration::Millis(100);
    }
  }
  std::vector<EventBody> Look() {
    const SeenRanks seen{job, At(job).attempts.back().epoch, ranks};
    std::vector<EventBody> events = watch.Check(state, policy, {seen}, now);
    for (const EventBody& event : events) {
      (void)Do(event);
    }
    return events;
  }
  [[nodiscard]] bool Stalls() const { return At(job).attempts.back().stalled_at.is_set(); }
};

}  // namespace

TEST_CASE("a job that stands still is told so once, with the odd rank and its node") {
  Gang gang;
  gang.Silence(Duration::Seconds(14));
  CHECK(gang.Look().empty());
  CHECK(gang.watch.stalled(gang.state).empty());
  gang.ranks[5].state = 'T';
  gang.Silence(Duration::Seconds(2));
  CHECK(gang.Look().size() == 1);
  CHECK(gang.Is(gang.job) == JobState::kRunning);
  CHECK(gang.At(gang.job).detail == "stands still at step 100: rank 5 on " +
                                        gang.state.nodes[2].identity.name +
                                        ": its process is stopped (SIGSTOP, or a debugger)");
  CHECK(gang.watch.stalled(gang.state) == std::set<JobId>{gang.job});
  gang.Silence(Duration::Seconds(60));
  CHECK(gang.Look().empty());
}

TEST_CASE("agents are to say what ranks are doing that stand still, once for each time") {
  Gang gang;
  gang.Silence(Duration::Seconds(20));
  REQUIRE(gang.Look().size() == 1);
  const std::vector<Command> owed = Outstanding(gang.state, gang.policy);
  CHECK(std::ranges::count(owed, CommandKind::kDumpStacks, &Command::kind) == 4);
  gang.Tick();
  CHECK(gang.Look().size() == 1);
  CHECK_FALSE(gang.Stalls());
  CHECK(gang.At(gang.job).detail.empty());
  CHECK(Outstanding(gang.state, gang.policy).empty());
  CHECK(gang.Look().empty());
}

TEST_CASE("a rank that stands out later is named later, and another one after it") {
  Gang gang;
  gang.Silence(Duration::Seconds(20));
  REQUIRE(gang.Look().size() == 1);
  CHECK(gang.At(gang.job).detail == "stands still at step 100");
  gang.ranks[0].state = 'D';
  CHECK(gang.Look().size() == 1);
  CHECK(gang.At(gang.job).detail.starts_with("stands still at step 100: rank 0 on "));
  gang.Silence(Duration::Seconds(5));
  CHECK(gang.Look().empty());
  std::swap(gang.ranks[0].state, gang.ranks[7].state);
  CHECK(gang.Look().empty());  // not each second another text
  gang.Silence(Duration::Seconds(5));
  CHECK(gang.Look().size() == 1);
  CHECK(gang.At(gang.job).detail.starts_with("stands still at step 100: rank 7 on "));
}

TEST_CASE("after half an hour it begins again from its checkpoint, where it was") {
  Gang gang;
  const std::vector<uint32_t> nodes = gang.NodesOf(gang.job);
  gang.Saved(gang.job, 90);
  gang.Silence(Duration::Minutes(29));
  REQUIRE(gang.Look().size() == 1);
  gang.Silence(Duration::Minutes(1));
  REQUIRE(gang.Look().size() == 1);
  CHECK(gang.Is(gang.job) == JobState::kRunning);
  CHECK(gang.At(gang.job).attempts.size() == 2);
  CHECK(gang.NodesOf(gang.job) == nodes);
  CHECK(gang.CauseOf(gang.job).empty());
  const Attempt& given_up = gang.At(gang.job).attempts.front();
  CHECK(given_up.end_cause == StopCause::kFault);
  CHECK(given_up.end_detail == "stood still at step 100 for 30m");
  CHECK(gang.At(gang.job).hardware_restarts == 1);
}

TEST_CASE(
    "it begins again sooner where a fault was seen beside it, at that time, that may be why") {
  struct Row {
    FaultKind kind;
    Duration before;  // the last step
    bool sooner;
  };
  const Row row = GENERATE(Row{FaultKind::kLinkFlash, Duration(), true},
                           Row{FaultKind::kMemoryCorrected, Duration(), false},
                           Row{FaultKind::kLinkFlash, Duration::Minutes(5), false});
  Gang gang;
  {
    const NodeId node(gang.NodesOf(gang.job)[1]);
    (void)gang.Do(FaultObserved{node, row.kind, 0, "mlx5_0", "seen", gang.now});
    gang.now = gang.now + row.before;
  }
  gang.Silence(Duration::Seconds(30));
  REQUIRE(gang.Look().size() == 1);
  CHECK(gang.At(gang.job).attempts.size() == 1);
  gang.Silence(Duration::Seconds(31));
  (void)gang.Look();
  CHECK(gang.At(gang.job).attempts.size() == (row.sooner ? 2 : 1));
}

TEST_CASE("who has made all steps is not begun again") {
  Gang gang;
  gang.Silence(Duration::Minutes(100));
  SeenRanks seen{gang.job, Epoch(1), gang.ranks, 100};
  for (const EventBody& event : gang.watch.Check(gang.state, gang.policy, {seen}, gang.now)) {
    (void)gang.Do(event);
  }
  CHECK(gang.At(gang.job).attempts.size() == 1);
  CHECK(gang.Stalls());
}

TEST_CASE("faults of nodes while it stands still are no stalls in vain") {
  Gang gang;
  gang.agents.saves = false;
  for (uint32_t i = 0; i < 4; ++i) {
    gang.Tick();
    gang.Silence(Duration::Seconds(20));
    REQUIRE(gang.Look().size() == 1);
    (void)gang.Do(
        JobStalled{gang.job, gang.At(gang.job).attempts.back().epoch, gang.now, "stands", false});
    const NodeId node(gang.NodesOf(gang.job)[0]);
    (void)gang.Do(FaultObserved{node, FaultKind::kXid, 79, "g", "off the bus", gang.now});
    gang.Pass(Duration::Minutes(10));  // the node is proven, or another one is free
    REQUIRE(gang.Is(gang.job) == JobState::kRunning);
  }
  CHECK(StalledInVain(gang.At(gang.job)) == 0);
}

TEST_CASE("who evaluates, or is held by a debugger, is not begun again") {
  Gang gang;
  if (GENERATE(true, false)) {
    gang.ranks[2].phase = static_cast<uint32_t>(RankPhase::kEvaluating);
  } else {
    gang.ranks[2].state = 't';
  }
  gang.Silence(Duration::Minutes(300));
  (void)gang.Look();
  gang.Silence(Duration::Minutes(300));
  (void)gang.Look();
  CHECK(gang.Is(gang.job) == JobState::kRunning);
  CHECK(gang.At(gang.job).attempts.size() == 1);
}

TEST_CASE("a pause that ended by itself makes the next one of that length expected") {
  Gang gang;
  gang.policy.faults.stall_restart = Duration::Minutes(30);
  gang.Silence(Duration::Minutes(25));
  REQUIRE(gang.Look().size() == 1);
  gang.Tick();
  REQUIRE(gang.Look().size() == 1);
  gang.Silence(Duration::Minutes(45));
  REQUIRE(gang.Look().size() == 1);
  CHECK(gang.Stalls());
  CHECK(gang.At(gang.job).attempts.size() == 1);
  gang.Silence(Duration::Minutes(6));
  REQUIRE(gang.Look().size() == 1);
  CHECK(gang.At(gang.job).attempts.size() == 2);
}

TEST_CASE("0 in the policy: it is told, and nothing is done") {
  Gang gang;
  gang.policy.faults.stall_restart = Duration();
  gang.policy.faults.stall_restart_faulty = Duration();
  gang.Silence(Duration::Minutes(10'000));
  REQUIRE(gang.Look().size() == 1);
  CHECK(gang.Look().empty());
  CHECK(gang.At(gang.job).attempts.size() == 1);
}

TEST_CASE("the third time in a row without a newer checkpoint ends it") {
  Gang gang;
  for (int i = 0; i < 4; ++i) {  // in the first attempt it saved
    gang.Tick();
    REQUIRE(gang.Is(gang.job) == JobState::kRunning);
    gang.Silence(Duration::Minutes(31) * (int64_t{1} << i));  // each time it is given twice as long
    REQUIRE(gang.Look().size() == 1);
  }
  CHECK(gang.Is(gang.job) == JobState::kFinished);
  CHECK(
      gang.At(gang.job).detail ==
      "stood still at step 104 for 4h8m (3 times in a row without a newer checkpoint: its own code "
      "may be the reason)");
}

TEST_CASE("one that saves between its stalls goes on") {
  Gang gang;
  for (int i = 0; i < 5; ++i) {
    gang.Tick();
    REQUIRE(gang.Is(gang.job) == JobState::kRunning);
    gang.Saved(gang.job, 100 + i);
    gang.Silence(Duration::Minutes(31) * (int64_t{1} << i));
    REQUIRE(gang.Look().size() == 1);
  }
  CHECK(gang.Is(gang.job) == JobState::kRunning);
}

TEST_CASE("what a new leader finds standing still is watched by it") {
  Gang gang;
  gang.Silence(Duration::Seconds(20));
  REQUIRE(gang.Look().size() == 1);
  StallWatch next;
  CHECK(next.stalled(gang.state) == std::set<JobId>{gang.job});
}

TEST_CASE("ranks of an earlier attempt say nothing") {
  Gang gang;
  gang.Silence(Duration::Minutes(60));
  const SeenRanks seen{gang.job, Epoch(7), gang.ranks};
  CHECK(gang.watch.Check(gang.state, gang.policy, {seen}, gang.now).empty());
}

}  // namespace tide::testing
