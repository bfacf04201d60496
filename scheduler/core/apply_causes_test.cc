// jobs.md section 2: why a job stopped decides what follows.

#include <catch2/catch.hpp>

#include "scheduler/core/testing/world.h"
#include "scheduler/core/timers.h"

namespace tide::testing {

TEST_CASE("a preempted job is queued again, resumes, and nothing counts against it") {
  World world(Cluster().Leaf(2));
  const JobId low = world.Submit(AJob().Nodes(2).Priority(0));
  const JobId high = world.Submit(AJob().Nodes(2).Priority(30));
  CHECK(world.Is(high) == JobState::kRunning);
  REQUIRE(world.Is(low) == JobState::kQueued);
  CHECK(world.CauseOf(low) == "preempted");
  CHECK(world.At(low).suspensions == 1);
  CHECK(world.At(low).failure_restarts == 0);
  CHECK(world.At(low).hardware_restarts == 0);
  world.Finish(high);
  REQUIRE(world.Is(low) == JobState::kRunning);
  CHECK(world.At(low).attempts.back().start_reason == StartReason::kResumed);
  CHECK(world.At(low).attempts.back().epoch == Epoch(2));
}

TEST_CASE("a held job saves, leaves its nodes and waits for its user") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob().Nodes(2));
  world.Hold(job);
  CHECK(world.Is(job) == JobState::kHeld);
  CHECK(world.CauseOf(job) == "held");
  CHECK(world.Why(job) == std::vector<std::string>{"held.user"});
  world.Pass(Duration::Minutes(60));
  CHECK(world.Is(job) == JobState::kHeld);
  world.Release(job);
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("an operator's drain moves the job; a fault's drain waits for its end") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob());
  world.Drain(0);
  CHECK(world.NodesOf(job) == std::vector<uint32_t>{1});
  CHECK(world.CauseOf(job) == "");
  CHECK(world.At(job).attempts.front().end_cause == StopCause::kDrained);
  CHECK(world.NodeIs(0) == NodeState::kDrained);
  world.Xid(1, 63);
  CHECK(world.NodeIs(1) == NodeState::kDraining);
  CHECK(world.Is(job) == JobState::kRunning);
  world.Finish(job);
  CHECK(world.Is(job) == JobState::kFinished);
  CHECK(world.NodeIs(1) == NodeState::kDrained);
}

TEST_CASE("a suspension that is withdrawn after a task has left ends the attempt") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob().Nodes(2));
  world.agents.saves = false;
  (void)world.Do(SuspendRequested{
      job, StopCause::kPreempted, JobId(), world.now + Duration::Minutes(2), "for a test"});
  world.agents.Exit(job, 1, ExitReason::kStopped, 143, world.now);
  world.Run();
  (void)world.Do(SuspendWithdrawn{job});
  CHECK(world.Is(job) == JobState::kRunning);
  world.Pass(world.policy.leave_grace);
  CHECK(world.At(job).attempts.front().end_cause == StopCause::kLeft);
  CHECK(world.agents.LiveTasks(job) == 2);  // of the next attempt
}

TEST_CASE("a start that a node cut short is tried again") {
  World world(Cluster().Leaf(2));
  world.agents.starts = false;
  const JobId job = world.Submit(AJob().Nodes(2));
  REQUIRE(world.Is(job) == JobState::kStarting);
  world.Exit(job, 1, ExitReason::kCutOff);
  world.agents.starts = true;
  world.Run();
  CHECK(world.Is(job) == JobState::kRunning);
  CHECK(world.At(job).attempts.size() == 2);
  CHECK(world.At(job).hardware_restarts == 1);
}

TEST_CASE("a broken node costs a hardware restart elsewhere, up to the limit") {
  World world(Cluster().Leaf(4));
  const JobId job = world.Submit(AJob().Nodes(2).RetryHardware(1));
  REQUIRE(world.NodesOf(job) == std::vector<uint32_t>{0, 1});
  world.Xid(1, 79);
  CHECK(world.Is(job) == JobState::kRunning);
  CHECK(world.NodesOf(job) == std::vector<uint32_t>{0, 2});  // only the broken node is replaced
  CHECK(world.At(job).hardware_restarts == 1);
  CHECK(world.At(job).attempts.back().start_reason == StartReason::kFault);
  world.Xid(2, 79);
  REQUIRE(world.Is(job) == JobState::kFinished);
  CHECK(std::get<Finished>(world.At(job).phase).outcome == Outcome::kFailed);
  CHECK(world.At(job).detail.find("retry.hardware") != std::string::npos);
}

TEST_CASE("a failure is retried after a growing pause, as often as the job allows") {
  World world(Cluster().Leaf(1));
  const JobId job = world.Submit(AJob().RetryFailure(2, Duration::Seconds(10)));
  world.Exit(job, 0, ExitReason::kFailed, 7);
  REQUIRE(world.Is(job) == JobState::kQueued);
  CHECK(world.Why(job) == std::vector<std::string>{"backoff"});
  CHECK(world.last.wake_at == world.now + Duration::Seconds(10));
  world.Pass(Duration::Seconds(9));
  CHECK(world.Is(job) == JobState::kQueued);
  world.Pass(Duration::Seconds(1));
  CHECK(world.Is(job) == JobState::kRunning);
  CHECK(world.At(job).attempts.back().start_reason == StartReason::kRetry);
  world.Exit(job, 0, ExitReason::kOom, 9);
  CHECK(world.last.wake_at == world.now + Duration::Seconds(20));
  world.Pass(Duration::Seconds(20));
  world.Exit(job, 0, ExitReason::kFailed, 7);
  REQUIRE(world.Is(job) == JobState::kFinished);
  CHECK(std::get<Finished>(world.At(job).phase) == Finished{Outcome::kFailed, 7});
}

TEST_CASE("the time limit counts running time over all attempts") {
  World world(Cluster().Leaf(1));
  const JobId job = world.Submit(AJob().MaxRuntime(Duration::Minutes(10)));
  world.Pass(Duration::Minutes(6));
  world.Hold(job);
  world.Pass(Duration::Minutes(60));
  world.Release(job);
  world.Pass(Duration::Seconds(239));
  CHECK(world.Is(job) == JobState::kRunning);
  world.Pass(Duration::Seconds(1));
  REQUIRE(world.Is(job) == JobState::kFinished);
  CHECK(std::get<Finished>(world.At(job).phase) == Finished{Outcome::kFailed, 124});
  CHECK(world.CauseOf(job) == "time_limit");
}

TEST_CASE("cancelling works from everywhere and twice is no error while it stops") {
  World world(Cluster().Leaf(1));
  const JobId first = world.Submit(AJob());
  const JobId waiting = world.Submit(AJob());
  world.Cancel(waiting);
  CHECK(std::get<Finished>(world.At(waiting).phase) == Finished{Outcome::kCancelled, 130});
  world.agents.stops = false;
  world.Cancel(first);
  CHECK(world.Is(first) == JobState::kStopping);
  CHECK(*world.Do(CancelRequested{first, "bob", "me too"}) == Applied::kNoOp);
  world.Pass(world.policy.stop_grace);  // SIGKILL
  CHECK(std::get<Finished>(world.At(first).phase) == Finished{Outcome::kCancelled, 130});
}

TEST_CASE("ranks that save and leave unasked are queued again") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob().Nodes(2));
  world.agents.starts = false;
  world.agents.Exit(job, 0, ExitReason::kSucceeded, 0, world.now);
  world.agents.Exit(job, 1, ExitReason::kSuspended, 85, world.now);
  world.Run();
  CHECK(world.At(job).attempts.front().end_cause == StopCause::kLeft);
  CHECK(world.At(job).suspensions == 1);
  CHECK(world.Is(job) == JobState::kQueued);
  CHECK(world.last.wake_at == world.now + Duration::Seconds(5));
  world.Pass(Duration::Seconds(5));
  CHECK(world.Is(job) == JobState::kStarting);
}

TEST_CASE("a job that only saves and leaves is stopped after three restarts") {
  World world(Cluster().Leaf(1));
  const JobId job = world.Submit(AJob().RetryFailure(0, Duration::Seconds(10)));
  for (const int64_t seconds : {10, 20, 30}) {
    world.Exit(job, 0, ExitReason::kSuspended, 85);
    REQUIRE(world.Is(job) == JobState::kQueued);
    CHECK(world.last.wake_at == world.now + Duration::Seconds(seconds));
    world.Pass(Duration::Seconds(seconds));
  }
  REQUIRE(world.Is(job) == JobState::kRunning);
  world.Exit(job, 0, ExitReason::kSuspended, 85);
  REQUIRE(world.Is(job) == JobState::kFinished);
  CHECK(std::get<Finished>(world.At(job).phase) == Finished{Outcome::kFailed, 1});
  CHECK(world.At(job).detail.find("3 times in a row without a newer step") != std::string::npos);
  CHECK(world.At(job).attempts.size() == 4);
}

TEST_CASE("a job that leaves at newer and newer steps goes on") {
  World world(Cluster().Leaf(1));
  const JobId job = world.Submit(AJob());
  for (int64_t step = 100; step <= 1000; step += 100) {
    TaskReported report = world.agents.Held(NodeId(0)).back();
    report.saved_step = step;
    report.saved_at = world.now;
    (void)world.Do(report);
    world.Exit(job, 0, ExitReason::kSuspended, 85);
    CHECK(LeftInVain(world.At(job)) == 0);
    world.Pass(Duration::Seconds(5));
    REQUIRE(world.Is(job) == JobState::kRunning);
  }
}

TEST_CASE("half a gang that saved and left takes the other half with it, after a while") {
  const ExitReason reason = GENERATE(ExitReason::kSuspended, ExitReason::kStopped);
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob().Nodes(2));
  world.Exit(job, 1, reason, 85);
  CHECK(world.Is(job) == JobState::kRunning);
  CHECK(world.last.wake_at == world.now + world.policy.leave_grace);
  world.Pass(world.policy.leave_grace - Duration::Nanos(1));
  CHECK(world.agents.LiveTasks(job) == 1);
  world.Pass(Duration::Minutes(1));
  CHECK(world.At(job).attempts.front().end_cause == StopCause::kLeft);
  CHECK(world.At(job).attempts.front().end_detail ==
        "some of its tasks saved and left, the others did not");
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("tasks may finish long before the last one of their gang") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob().Nodes(2));
  world.Exit(job, 1, ExitReason::kSucceeded);
  world.Pass(Duration::Minutes(60));
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("finishing while being suspended is a success") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob().Nodes(2));
  world.agents.saves = false;
  world.Hold(job);
  REQUIRE(world.Is(job) == JobState::kSaving);
  world.Finish(job);
  CHECK(std::get<Finished>(world.At(job).phase) == Finished{Outcome::kSucceeded, 0});
}

TEST_CASE("one failing rank stops the gang and its code is the job's") {
  World world(Cluster().Leaf(3));
  const JobId job = world.Submit(AJob().Nodes(3));
  world.Exit(job, 1, ExitReason::kFailed, 42);
  world.Pass(world.policy.evidence_wait);
  CHECK(std::get<Finished>(world.At(job).phase) == Finished{Outcome::kFailed, 42});
  CHECK(world.agents.LiveTasks(job) == 0);
  const JobId killed = world.Submit(AJob());
  TaskReported report;
  report.node = NodeId(0);
  report.job = killed;
  report.epoch = Epoch(1);
  report.state = TaskState::kExited;
  report.exit = {ExitReason::kFailed, 0, 11, 0, "rank 0: segmentation fault"};
  (void)world.Do(report);
  CHECK(std::get<Finished>(world.At(killed).phase) == Finished{Outcome::kFailed, 139});
  CHECK(world.At(killed).detail == "rank 0: segmentation fault");
}

TEST_CASE("a fault seen just after a failure explains it") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob().Gpus(8));
  world.Exit(job, 0, ExitReason::kFailed, 1);
  REQUIRE(world.Is(job) == JobState::kStopping);
  CHECK(world.last.wake_at == world.now + world.policy.evidence_wait);
  SECTION("the job goes on elsewhere") {
    world.Xid(0, 79);
    CHECK(world.At(job).attempts.front().end_cause == StopCause::kFault);
    CHECK(world.NodesOf(job) == std::vector<uint32_t>{1});
  }
  SECTION("what is wrong with other nodes, or only counted, explains nothing") {
    world.Xid(1, 79);
    world.Xid(0, 13);
    CHECK(world.Is(job) == JobState::kStopping);
    world.Pass(world.policy.evidence_wait);
    CHECK(std::get<Finished>(world.At(job).phase) == Finished{Outcome::kFailed, 1});
  }
  SECTION("its user need not wait for it") {
    world.Cancel(job);
    CHECK(std::get<Finished>(world.At(job).phase) == Finished{Outcome::kCancelled, 130});
  }
  SECTION("nor hold a node meanwhile") {
    CHECK(world.Is(world.Submit(AJob().Nodes(2))) == JobState::kRunning);
    world.Hold(job);
    CHECK(world.Is(job) == JobState::kHeld);
  }
}

TEST_CASE("a fault on a node that failed first explains it while the rest of the gang stops") {
  World world(Cluster().Leaf(3));
  const JobId job = world.Submit(AJob().Nodes(2));
  world.agents.stops = false;
  world.Exit(job, 0, ExitReason::kFailed, 1);
  world.Xid(0, 79);
  CHECK(std::get<Stopping>(world.At(job).phase).cause == StopCause::kFault);
  world.Pass(world.policy.stop_grace);
  CHECK(world.NodesOf(job) == std::vector<uint32_t>{2, 1});  // the other keeps its rank
}

TEST_CASE("the last task of a job that failed is kept until it is known whether the job is over") {
  const uint32_t nodes = GENERATE(1U, 2U);
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob().Nodes(nodes).Gpus(8));
  world.Exit(job, 0, ExitReason::kFailed, 1);
  REQUIRE(world.Is(job) == JobState::kStopping);  // evidence of a fault may still come
  CHECK(world.agents.Held(NodeId(nodes - 1)).size() == 1);
  world.Rejoin(nodes - 1);  // says again what it holds
  CHECK(world.agents.Held(NodeId(nodes - 1)).size() == 1);
  world.Pass(world.policy.evidence_wait);
  REQUIRE(world.Is(job) == JobState::kFinished);
  CHECK(world.agents.Held(NodeId(0)).empty());
  CHECK(world.agents.Held(NodeId(1)).empty());
}

TEST_CASE("a program that fails alone on its CPU, or for memory, does not wait for evidence") {
  World world(Cluster().Leaf(2));
  const JobId alone = world.Submit(AJob());
  world.Exit(alone, 0, ExitReason::kFailed, 1);
  CHECK(world.Is(alone) == JobState::kFinished);
  const JobId large = world.Submit(AJob().Nodes(2));
  world.Exit(large, 0, ExitReason::kOom, 137);
  CHECK(world.Is(large) == JobState::kFinished);
}

TEST_CASE("a task lost after another one failed makes it a fault of hardware") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob().Nodes(2));
  world.agents.stops = false;
  world.Exit(job, 0, ExitReason::kFailed, 1);  // its peer was gone
  REQUIRE(std::get<Stopping>(world.At(job).phase).cause == StopCause::kFailed);
  world.Exit(job, 1, ExitReason::kLost);
  CHECK(world.At(job).attempts.front().end_cause == StopCause::kFault);
  CHECK(world.At(job).attempts.front().end_detail == "task on A-l1-n2 ended");
  CHECK(world.At(job).hardware_restarts == 1);
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("a gang cut off from the scheduler is restarted, whichever task reports first") {
  World world(Cluster().Leaf(3));
  const JobId job = world.Submit(AJob().Nodes(3));
  for (uint32_t node = 0; node < 3; ++node) {
    world.agents.cut.emplace(NodeId(node), world.now);
  }
  // The node whose time is over first ends its task; the ranks elsewhere fail of the lost peer.
  world.agents.Exit(job, 1, ExitReason::kCutOff, 143, world.now);
  world.agents.Exit(job, 0, ExitReason::kFailed, 1, world.now);
  world.agents.Exit(job, 2, ExitReason::kFailed, 1, world.now);
  for (const uint32_t node : {0U, 2U, 1U}) {
    REQUIRE(world.At(job).attempts.size() == 1);
    world.Rejoin(node);
  }
  CHECK(world.At(job).attempts.front().end_cause == StopCause::kFault);
  CHECK(world.At(job).hardware_restarts == 1);
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("what fails while a job stops says nothing about why it stops") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob().Nodes(2));
  world.agents.stops = false;
  world.agents.saves = false;
  (void)world.Do(SuspendRequested{job, StopCause::kDrained, JobId(), world.now, "drain"});
  world.Pass(Duration::Seconds(1));
  REQUIRE(world.Is(job) == JobState::kStopping);
  world.Exit(job, 0, ExitReason::kFailed, 1);
  CHECK(std::get<Stopping>(world.At(job).phase).cause == StopCause::kDrained);
}

TEST_CASE("a start of which no word comes is given up, and the job starts on another node") {
  World world(Cluster().Leaf(2));
  world.agents.starts = false;
  const JobId job = world.Submit(AJob());
  const NodeId first = world.At(job).attempts.back().tasks.front().node;
  const Duration most = world.policy.start_timeout + kStartSlack;
  CHECK(world.last.wake_at == world.now + most);
  world.agents.starts = true;
  world.Pass(most);
  CHECK(world.Is(job) == JobState::kRunning);
  REQUIRE(world.At(job).attempts.size() == 2);
  CHECK(world.At(job).attempts.back().tasks.front().node != first);
  CHECK(world.At(job).failure_restarts == 0);
  CHECK(world.At(job).attempts.front().end_detail ==
        "did not start: for 10m30s " + world.state.FindNode(first)->identity.name +
            " did not say that it took the order to start");
}

TEST_CASE("a job's own time to start counts, and none while an image may be on its way") {
  World world(Cluster().Leaf(2));
  world.agents.starts = false;
  world.Submit(AJob().StartTimeout(Duration::Minutes(1)));
  CHECK(world.last.wake_at == world.now + Duration::Minutes(1) + kStartSlack);
  const JobId with_image = world.Submit(AJob().Image("train:1"));
  world.Pass(Duration::Minutes(24 * 60));
  CHECK(world.Is(with_image) == JobState::kStarting);
}

// Its clock may be ahead by more than any wait, and nobody has told it anything yet.
void LeadAnew(World& world) {
  world.state.led_since = world.now = world.now + Duration::Minutes(60);
  world.Turn({});
}

TEST_CASE("a new leader gives a start its whole time: its agents may have begun meanwhile") {
  World world(Cluster().Leaf(1));
  world.agents.starts = false;
  const JobId job = world.Submit(AJob());
  LeadAnew(world);
  CHECK(world.last.wake_at == world.now + world.policy.start_timeout + kStartSlack);
  CHECK(world.Is(job) == JobState::kStarting);
  world.agents.starts = true;
  world.Run();
  CHECK(world.Is(job) == JobState::kRunning);
  CHECK(world.At(job).attempts.size() == 1);
}

TEST_CASE("a new leader waits anew for a fault that explains a failure") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob().Gpus(8));
  world.Exit(job, 0, ExitReason::kFailed, 1);
  LeadAnew(world);
  REQUIRE(world.Is(job) == JobState::kStopping);
  world.Xid(0, 79);
  CHECK(world.At(job).attempts.front().end_cause == StopCause::kFault);
  CHECK(world.NodesOf(job) == std::vector<uint32_t>{1});
}

TEST_CASE("a new leader waits anew for the rest of a gang that left") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob().Nodes(2));
  world.Exit(job, 0, ExitReason::kSuspended, 85);
  LeadAnew(world);
  CHECK(world.Is(job) == JobState::kRunning);
  CHECK(world.last.wake_at == world.now + world.policy.leave_grace);
}

TEST_CASE("saving ends at its deadline, then SIGTERM, then SIGKILL") {
  World world(Cluster().Leaf(1));
  const JobId job = world.Submit(AJob().Notice(Duration::Seconds(60)));
  world.agents.saves = false;
  world.agents.stops = false;
  world.Hold(job);
  CHECK(world.last.wake_at == world.now + Duration::Seconds(60));
  world.Pass(Duration::Seconds(60));
  REQUIRE(world.Is(job) == JobState::kStopping);
  CHECK_FALSE(std::get<Stopping>(world.At(job).phase).kill);
  CHECK(world.last.wake_at == world.now + world.policy.stop_grace);
  world.Pass(world.policy.stop_grace);
  CHECK(world.Is(job) == JobState::kHeld);
}

TEST_CASE("a higher cause replaces a lower one, never the other way round") {
  World world(Cluster().Leaf(1));
  const JobId job = world.Submit(AJob());
  world.agents.saves = false;
  world.agents.stops = false;
  const Instant deadline = world.now + Duration::Seconds(60);
  (void)world.Do(SuspendRequested{job, StopCause::kDrained, JobId(), deadline, "drain"});
  CHECK(*world.Do(SuspendRequested{job, StopCause::kPreempted, JobId(7), deadline, "other"}) ==
        Applied::kNoOp);
  CHECK(world.At(job).detail == "drain");
  world.Hold(job);
  CHECK(std::get<Saving>(world.At(job).phase).cause == StopCause::kHeld);
  CHECK(world.At(job).detail == "suspended by ada");
  CHECK(*world.Do(HoldRequested{job, deadline, "bob", "again"}) == Applied::kNoOp);
  world.Cancel(job);
  CHECK(std::get<Stopping>(world.At(job).phase).cause == StopCause::kCancelled);
  (void)world.Do(HoldRequested{job, deadline, "bob", "too late"});
  CHECK(std::get<Stopping>(world.At(job).phase).cause == StopCause::kCancelled);
}

TEST_CASE("the newest committed checkpoint is kept with its attempt and time") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob().Nodes(2));
  TaskReported report = world.agents.Held(NodeId(1)).front();
  report.saved_step = 500;
  report.saved_at = world.now;
  CHECK(*world.Do(report) == Applied::kChanged);
  CHECK(world.At(job).checkpoint == Checkpoint{500, Epoch(1), world.now});
  CHECK(*world.Do(report) == Applied::kNoOp);
  report.saved_step = 400;  // late, older
  CHECK(*world.Do(report) == Applied::kNoOp);
  CHECK(world.At(job).checkpoint.step == 500);
  CHECK(CheckpointName(500, Epoch(1)) == "s000000000500-0001");
}

TEST_CASE("a job that is told to go back stays there until it has saved a later step") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob());
  const auto save = [&](int64_t step) {
    TaskReported report = world.agents.Held(NodeId(0)).front();
    report.saved_step = step;
    report.saved_at = world.now;
    REQUIRE(world.Do(report));
  };
  const auto go_back = [&](int64_t step) {
    world.Hold(job);
    REQUIRE(world.Do(ReleaseRequested{job, "ada", step}));
  };
  save(500);
  go_back(300);
  CHECK(world.At(job).resume_step == 300);
  CHECK(world.At(job).checkpoint.step == 500);
  save(300);  // it has resumed
  CHECK(world.At(job).resume_step == 300);
  CHECK(world.At(job).checkpoint == Checkpoint{300, Epoch(2), world.now});
  go_back(-1);
  CHECK(world.At(job).resume_step == 300);  // nothing later is there yet
  save(310);
  CHECK(world.At(job).resume_step == -1);
  CHECK(world.At(job).checkpoint.step == 310);
  go_back(7);
  world.Exit(job, 0, ExitReason::kFailed, 1);  // there is no such step
  CHECK(world.Is(job) == JobState::kHeld);
  CHECK(world.At(job).detail.starts_with("was to go back to step 7 and failed: "));
  CHECK(world.At(job).failure_restarts == 0);
  REQUIRE(world.Do(ReleaseRequested{job, "ada", 0}));
  CHECK(world.At(job).resume_step == 0);
  save(10);
  CHECK(world.At(job).resume_step == -1);
  CHECK(world.At(job).checkpoint.step == 10);
}

TEST_CASE("a second notice in one attempt starts with nobody parked") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob().Nodes(2));
  const auto apply = [&](EventBody body) {
    REQUIRE(Apply(world.state, {world.now, std::move(body)}));
  };
  const auto park = [&](uint32_t node, int64_t step) {
    TaskReported parked = world.agents.Held(NodeId(node)).front();
    parked.parked_at = world.now;
    parked.stop_step = step;
    apply(parked);
  };
  const Task before = world.At(job).attempts.back().tasks.front();
  apply(SuspendRequested{job, StopCause::kPreempted, JobId(), world.now, "x"});
  park(0, 10);
  apply(SuspendWithdrawn{job});
  apply(SuspendRequested{job, StopCause::kDrained, JobId(), world.now, "y"});
  CHECK((world.At(job).attempts.back().tasks.front() == before));
  park(1, 20);
  CHECK_FALSE(world.At(job).attempts.back().parked_at.is_set());
  park(0, 20);
  CHECK(world.At(job).attempts.back().parked_at == world.now);
}

}  // namespace tide::testing
