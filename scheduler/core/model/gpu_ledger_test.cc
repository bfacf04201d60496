#include "scheduler/core/model/gpu_ledger.h"

#include <catch2/catch.hpp>

#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

// A gang of two whole nodes of 8 GPUs each; times are in seconds, GPU time in seconds of the gang.
struct Counted : World {
  JobId job;

  Counted() : World(Cluster().Leaf(3)) { job = Submit(AJob().Nodes(2)); }

  void Wait(int64_t seconds) { Pass(Duration::Seconds(seconds)); }
  void Step() { (void)Do(JobStepped{job, At(job).attempts.back().epoch, now}); }
  [[nodiscard]] double Of(GpuUse use) const {
    return static_cast<double>(At(job).ledger.held[use]) / (16 * 1000.0);
  }
  [[nodiscard]] double Total() const {
    return static_cast<double>(At(job).ledger.held.Total()) / (16 * 1000.0);
  }
};

}  // namespace

TEST_CASE("ledger: from the start to the first step is restart, then work waits to be saved") {
  Counted world;
  world.Wait(20);
  world.Step();
  CHECK(world.Of(GpuUse::kRestart) == 20);
  world.Wait(100);
  world.Saved(world.job, 100);
  CHECK(world.Of(GpuUse::kUseful) == 100);
  CHECK(world.Of(GpuUse::kUnsaved) == 0);
  world.Wait(30);
  world.Finish(world.job);
  CHECK(world.Of(GpuUse::kUseful) == 130);
  CHECK(world.Total() == 150);
}

TEST_CASE("ledger: a first step that is told late counts from when it was") {
  Counted world;
  world.Wait(20);
  const Instant first = world.now - Duration::Seconds(4);
  (void)world.Do(JobStepped{world.job, Epoch(1), first});
  CHECK(world.Of(GpuUse::kRestart) == 16);
  CHECK(world.Of(GpuUse::kUnsaved) == 4);
  CHECK(world.At(world.job).attempts.back().stepped_at == first);
}

TEST_CASE("ledger: a job that is not seen to use the SDK is unknown, however it ends") {
  Counted world;
  world.agents.prepares = false;
  world.Cancel(world.job);
  world.job = world.Submit(AJob().Nodes(2));
  world.Wait(50);
  SECTION("well") {
    world.Finish(world.job);
  }
  SECTION("by a failure") {
    world.Exit(world.job, 0, ExitReason::kFailed, 1);
    world.Wait(60);  // for evidence against the node
  }
  SECTION("by a fault") {
    world.Xid(world.NodesOf(world.job).front(), 79);
  }
  CHECK(world.Of(GpuUse::kUnknown) == 50);
  CHECK(world.Of(GpuUse::kUseful) == 0);
}

TEST_CASE("ledger: work since the newest checkpoint is lost to what ended the attempt") {
  Counted world;
  world.Wait(10);
  world.Step();
  world.Wait(60);
  world.Saved(world.job, 60);
  world.Wait(40);
  GpuUse loss = GpuUse::kUnknown;
  SECTION("the job's own failure") {
    world.Exit(world.job, 0, ExitReason::kFailed, 1);
    world.Wait(60);  // for evidence against the node
    loss = GpuUse::kRecomputed;
  }
  SECTION("a fault") {
    world.Xid(world.NodesOf(world.job).front(), 79);
    loss = GpuUse::kLostToFaults;
  }
  SECTION("a job of a higher class, for which it does not save in time") {
    world.agents.saves = false;
    (void)world.Submit(AJob().Nodes(3).Priority(40));
    CHECK(world.Is(world.job) == JobState::kSaving);
    world.Wait(600);
    loss = GpuUse::kLostToPreemption;
  }
  INFO(GpuUseName(loss));
  CHECK(world.Is(world.job) != JobState::kSaving);
  CHECK(world.Of(GpuUse::kUseful) == 60);
  CHECK(world.Of(loss) >= 40);
}

TEST_CASE("an attempt that breaks says when what broke it was seen, and when it was to stop") {
  Counted world;
  world.Wait(100);
  const Instant seen = world.now - Duration::Seconds(3);
  const NodeId node(world.NodesOf(world.job).front());
  SECTION("by a line of the kernel log") {
    (void)world.Do(FaultObserved{node, FaultKind::kXid, 79, "0000:a1:00", "fell off", seen});
    CHECK(world.At(world.job).attempts.front().broke_at == seen);
  }
  SECTION("by a hang") {
    (void)world.Do(JobStalled{world.job, Epoch(1), seen, "stood still", true});
    CHECK(world.At(world.job).attempts.front().broke_at == seen);
  }
  SECTION("by a node that does not answer: since it was suspect") {
    (void)world.Apply(NodeSilent{node});
    const Instant silent = world.now;
    world.now = world.now + Duration::Seconds(7);
    (void)world.Apply(NodeLost{node});
    CHECK(world.At(world.job).attempts.front().broke_at == silent);
  }
  CHECK(world.At(world.job).attempts.front().stop_at == world.now);
}

TEST_CASE("an attempt that is cancelled is stopped, and nothing broke it") {
  Counted world;
  world.Cancel(world.job);
  CHECK(world.At(world.job).attempts.front().stop_at == world.now);
  CHECK_FALSE(world.At(world.job).attempts.front().broke_at.is_set());
}

TEST_CASE("ledger: a suspension that is saved loses nothing") {
  Counted world;
  world.Wait(10);
  world.Step();
  world.Wait(60);
  world.agents.saves = false;
  (void)world.Submit(AJob().Nodes(3).Priority(40));
  world.Wait(5);  // ranks go on until the step on which they agree
  world.agents.saves = true;
  world.Run();
  CHECK(world.Is(world.job) == JobState::kQueued);
  CHECK(world.Of(GpuUse::kUseful) == 65);
  CHECK(world.Of(GpuUse::kLostToPreemption) == 0);
}

TEST_CASE("ledger: ranks that wait for the save are counted as saving") {
  Counted world;
  world.Step();
  world.Wait(60);
  world.agents.stops = world.agents.saves = false;
  world.Hold(world.job);
  const Instant parked = world.now;
  const std::vector<uint32_t> nodes = world.NodesOf(world.job);
  world.Wait(7);
  for (uint32_t task = 0; task < 2; ++task) {
    TaskReported report;
    report.node = NodeId(nodes[task]);
    report.job = world.job;
    report.epoch = Epoch(1);
    report.task = task;
    report.state = TaskState::kRunning;
    report.parked_at = parked;
    report.stop_step = 60;
    (void)world.Apply(report);
  }
  CHECK(world.Of(GpuUse::kSave) == 7);
  CHECK(world.Of(GpuUse::kUnsaved) == 60);
  CHECK(UseNow(world.At(world.job)) == GpuUse::kSave);
}

TEST_CASE("ledger: standing still is lost where it is given up, and unknown where it goes on") {
  Counted world;
  world.Step();
  world.Wait(60);
  const Instant since = world.now - Duration::Seconds(15);
  (void)world.Do(JobStalled{world.job, Epoch(1), since, "stands still", false});
  CHECK(world.Of(GpuUse::kUnsaved) == 45);
  world.Wait(5);
  SECTION("goes on") {
    (void)world.Do(JobStalled{world.job, Epoch(1), Instant(), "", false});
    CHECK(world.Of(GpuUse::kUnknown) == 20);
  }
  SECTION("is given up") {
    (void)world.Do(JobStalled{world.job, Epoch(1), since, "stood still", true});
    CHECK(world.Of(GpuUse::kLostToFaults) == 65);
  }
}

TEST_CASE("ledger: a part holds its GPUs, and a job that names none those of its whole nodes") {
  World world(Cluster().Leaf(2));
  const JobId part = world.Submit(AJob().Gpus(3));
  const JobId whole = world.Submit(AJob());
  world.Pass(Duration::Seconds(10));
  world.Finish(part);
  world.Finish(whole);
  CHECK(world.At(part).ledger.held.Total() == 3 * 10'000);
  CHECK(world.At(whole).ledger.held.Total() == 8 * 10'000);
}

TEST_CASE("ledger: what archived jobs held is kept for their owner") {
  World world(Cluster().Leaf(1));
  world.policy.finished_max = 1;
  for (int i = 0; i < 3; ++i) {
    const JobId id = world.Submit(AJob());
    world.Pass(Duration::Seconds(10));
    world.Finish(id);
  }
  world.Pass(Duration::Minutes(10));
  int64_t total = 0;
  for (const auto& [owner, used] : world.state.archived_use) {
    total += used.held.Total();
  }
  for (const auto& [id, job] : world.state.jobs) {
    total += job.ledger.held.Total();
  }
  CHECK(world.state.jobs.size() < 3);
  CHECK(total == 3 * 8 * 10'000);
}

TEST_CASE("ledger: losses by cause") {
  CHECK(LossOf(StopCause::kPreempted) == GpuUse::kLostToPreemption);
  CHECK(LossOf(StopCause::kDrained) == GpuUse::kLostToFaults);
  CHECK(LossOf(StopCause::kFault) == GpuUse::kLostToFaults);
  CHECK(LossOf(StopCause::kLeft) == GpuUse::kRestart);
  CHECK(LossOf(StopCause::kFailed) == GpuUse::kRecomputed);
  CHECK(LossOf(StopCause::kCancelled) == GpuUse::kRecomputed);
}

}  // namespace tide::testing
