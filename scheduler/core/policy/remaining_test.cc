// How much longer a job will hold its nodes.

#include "scheduler/core/policy/remaining.h"

#include <catch2/catch.hpp>

#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

using SpanList = std::array<Duration, kOutlooks>;
const Instant kPastNow = Instant::FromUnixNanos(1'800'000'000'000'000'000);
constexpr Duration kAnHour = Duration::Minutes(60);

Job RanJob(const std::string& user, Duration limit = Duration(), uint32_t nodes = 1) {
  Job job;
  job.id = JobId(1000);
  job.spec = AJob().Nodes(nodes).MaxRuntime(limit).Spec();
  job.user = user;
  return job;
}

// `minutes` apart in length: the shortest ran `minutes`.
RunHistory Past(const std::string& user, int count, int64_t minutes, uint32_t nodes = 1) {
  RunHistory history;
  for (int i = 1; i <= count; ++i) {
    Job job = RanJob(user, Duration(), nodes);
    job.id = JobId(static_cast<uint64_t>(i));
    job.run_time = Duration::Minutes(minutes * i);
    (void)history.Add(*RunOf(job, kPastNow + Duration::Seconds(i)));
  }
  return history;
}

}  // namespace

TEST_CASE("nothing known: it runs for as long again as it has run, within a factor of four") {
  const RunHistory nothing;
  const Remaining remaining = RunTimes(nothing).Of(RanJob("ada"), kAnHour);
  CHECK(remaining.basis == RunTimeBasis::kElapsed);
  CHECK(remaining.spans == SpanList{Duration::Minutes(15), kAnHour, kAnHour * 4});
  CHECK(RunTimes(nothing).Of(RanJob("ada"), Duration()).spans[1] == Duration::Minutes(10));
}

TEST_CASE("a limit bounds what is left, and is the end of the range when nothing else is known") {
  const RunHistory nothing;
  const Job job = RanJob("ada", kAnHour * 3);
  CHECK(RunTimes(nothing).Of(job, kAnHour).spans ==
        SpanList{Duration::Minutes(15), kAnHour, kAnHour * 2});
  CHECK(RunTimes(nothing).Of(job, kAnHour).basis == RunTimeBasis::kLimit);
  CHECK(RunTimes(nothing).Of(job, kAnHour * 2).spans ==
        SpanList{Duration::Minutes(30), kAnHour, kAnHour});
  CHECK(RunTimes(nothing).Of(job, kAnHour * 4).spans == SpanList{});  // overdue
}

TEST_CASE("an owner's past jobs of like size say more than everybody's, and those than nothing") {
  RunHistory history = Past("bob", 10, 60);
  CHECK(RunTimes(history).Of(RanJob("bob"), Duration()).basis == RunTimeBasis::kOwnRuns);
  CHECK(RunTimes(history).Of(RanJob("ada"), Duration()).basis == RunTimeBasis::kAllRuns);
  CHECK(RunTimes(history).Of(RanJob("ada"), Duration()).spans ==
        SpanList{kAnHour * 2, kAnHour * 5, kAnHour * 8});
  CHECK(RunTimes(history).Of(RanJob("bob", Duration(), 4), Duration()).basis ==
        RunTimeBasis::kElapsed);
}

TEST_CASE("only jobs that ran longer than it has so far are like it") {
  const RunHistory history = Past("bob", 10, 60);
  CHECK(RunTimes(history).Of(RanJob("bob"), Duration::Minutes(5 * 60 - 1)).spans ==
        SpanList{Duration::Minutes(61), Duration::Minutes(121), Duration::Minutes(241)});
  CHECK(RunTimes(history).Of(RanJob("bob"), kAnHour * 9).basis == RunTimeBasis::kElapsed);
}

TEST_CASE("the newest past runs are kept, whatever the order in which they are told") {
  const RunHistory history = Past("bob", 20, 1);
  const PastRuns& own = history.own.begin()->second;
  REQUIRE(own.size() == kOwnRunsMax);
  CHECK(own.front().ran == Duration::Minutes(5));
  RunHistory backwards;
  for (int i = 20; i >= 1; --i) {
    Job job = RanJob("bob");
    job.id = JobId(static_cast<uint64_t>(i));
    job.run_time = Duration::Minutes(i);
    (void)backwards.Add(*RunOf(job, kPastNow + Duration::Seconds(i)));
  }
  CHECK(backwards == history);
}

TEST_CASE("finished jobs are remembered, also after a load; those that never ran are not") {
  World world(Cluster().Leaf(1));
  const JobId ran = world.Submit(AJob());
  const JobId never = world.Submit(AJob());
  world.Cancel(never);
  world.Pass(kAnHour);
  world.Finish(ran);
  const RunHistory& history = world.state.run_history;
  REQUIRE(history.own.size() == 1);
  CHECK(history.all.begin()->second == PastRuns{{world.now, ran, kAnHour}});
  ClusterState loaded = world.state;
  RebuildDerived(loaded);
  CHECK(loaded.run_history == history);
}

}  // namespace tide::testing
