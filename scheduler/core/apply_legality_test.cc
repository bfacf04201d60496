// Every job state against every event about a job: legal → the state the design names; illegal →
// an error, and the state stays the same byte for byte.

#include <array>
#include <catch2/catch.hpp>

#include "common/spec/gpu_model.h"
#include "scheduler/core/apply.h"
#include "scheduler/core/testing/compare.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

const JobId kJob(1);
const IncidentId kSeen(1);

void Must(ClusterState& state, Instant at, EventBody body) {
  REQUIRE(Apply(state, {at, std::move(body)}));
}

TaskReported Report(uint32_t task, TaskState state, uint64_t epoch = 1) {
  TaskReported report;
  report.node = NodeId(task);
  report.job = kJob;
  report.epoch = Epoch(epoch);
  report.task = task;
  report.state = state;
  return report;
}

TaskReported Failure(uint32_t task) {
  TaskReported report = Report(task, TaskState::kExited);
  report.exit.reason = ExitReason::kFailed;
  report.exit.code = 3;
  return report;
}

// A gang of two on nodes 0 and 1 of four, brought to `wanted` by events alone. On node 0 a fault
// has been seen, which nobody has judged yet.
ClusterState Prepared(JobState wanted) {
  World world(Cluster().Leaf(4));
  ClusterState state = world.state;
  const Instant at = world.now;
  Must(state, at, FaultObserved{NodeId(0), FaultKind::kXid, 79, "g", "t", at});
  Must(state, at, JobSubmitted{kJob, AJob().Nodes(2).Spec(), "ada", ""});
  switch (wanted) {
    case JobState::kQueued:
      return state;
    case JobState::kHeld:
      Must(state, at, HoldRequested{kJob, at, "ada", ""});
      return state;
    case JobState::kFinished:
      Must(state, at, CancelRequested{kJob, "ada", ""});
      return state;
    case JobState::kStarting:
    case JobState::kRunning:
    case JobState::kSaving:
    case JobState::kStopping:
      break;
  }
  Must(state, at, JobPlaced{kJob, Epoch(1), {{NodeId(0), NodeId(1)}, 20000}});
  if (wanted == JobState::kStarting) {
    return state;
  }
  Must(state, at, Report(0, TaskState::kRunning));
  Must(state, at, Report(1, TaskState::kRunning));
  if (wanted == JobState::kRunning) {
    return state;
  }
  Must(state, at, SuspendRequested{kJob, StopCause::kPreempted, JobId(9), at, "for j-9"});
  if (wanted == JobState::kStopping) {
    Must(state, at, DeadlinePassed{kJob});
  }
  return state;
}

struct Column {
  const char* name;
  EventBody body;
  // By state: the letter of the next state, N = legal without effect, E = an error.
  std::string_view expected;
};

//                                                          states: QHSRVPF
std::vector<Column> Columns() {
  const Instant at = Instant::FromUnixNanos(1'800'000'100'000'000'000);
  const Claim claim{{NodeId(2), NodeId(3)}, {}};
  return {
      {"hold", HoldRequested{kJob, at, "ada", ""}, "HNPVVPE"},
      {"release", ReleaseRequested{kJob, "ada"}, "EQEEEEE"},
      {"cancel", CancelRequested{kJob, "ada", ""}, "FFPPPPE"},
      {"moved to the front, where it is", JobMoved{kJob, JobId(), "ada"}, "NEEEEEE"},
      {"moved before itself", JobMoved{kJob, kJob, "ada"}, "EEEEEEE"},
      {"moved before nobody", JobMoved{kJob, JobId(99), "ada"}, "EEEEEEE"},
      {"placed", JobPlaced{kJob, Epoch(1), {{NodeId(2), NodeId(3)}, 1}}, "SEEEEEE"},
      {"placed, epoch from the future",
       JobPlaced{kJob, Epoch(7), {{NodeId(2), NodeId(3)}, 1}},
       "EEEEEEE"},
      {"placed on half a gang", JobPlaced{kJob, Epoch(1), {{NodeId(2)}, 1}}, "EEEEEEE"},
      {"placed twice on a node", JobPlaced{kJob, Epoch(1), {{NodeId(2), NodeId(2)}, 1}}, "EEEEEEE"},
      {"claim", ClaimMade{kJob, claim}, "QEEEEEE"},
      {"claim of an unknown node", ClaimMade{kJob, {{NodeId(2), NodeId(77)}, {}}}, "EEEEEEE"},
      {"claim dropped", ClaimDropped{kJob}, "NNNNNNN"},
      {"suspend", SuspendRequested{kJob, StopCause::kPreempted, JobId(9), at, "again"}, "EEPVNEE"},
      {"drain", SuspendRequested{kJob, StopCause::kDrained, JobId(), at, "drain"}, "EEPVVEE"},
      {"withdraw", SuspendWithdrawn{kJob}, "EEEEREE"},
      {"deadline", DeadlinePassed{kJob}, "EEPPPPE"},
      {"time limit", TimeLimitReached{kJob}, "NNNPNNN"},
      {"stands still", JobStalled{kJob, Epoch(1), at, "rank 1", false}, "NNNRNNN"},
      {"stood still", JobStalled{kJob, Epoch(1), at, "rank 1", true}, "NNNPNNN"},
      {"gets on, as ever", JobStalled{kJob, Epoch(1), {}, "", false}, "NNNNNNN"},
      {"stood still in an earlier attempt", JobStalled{kJob, Epoch(7), at, "", true}, "NNNNNNN"},
      {"makes its first step", JobStepped{kJob, Epoch(1), at}, "NNNRVNN"},
      {"made it in an earlier attempt", JobStepped{kJob, Epoch(7), at}, "NNNNNNN"},
      {"its loss is NaN",
       JobNoted{kJob, Epoch(1), NoteKind::kLossNotFinite, 7, 6, "NaN"},
       "NNNRVNN"},
      {"its loss spikes", JobNoted{kJob, Epoch(1), NoteKind::kLossSpike, 7, 0, "spike"}, "NNNRVNN"},
      {"its loss was NaN in an earlier attempt",
       JobNoted{kJob, Epoch(7), NoteKind::kLossNotFinite, 7, 6, "NaN"},
       "NNNNNNN"},
      {"dependency failed, but it has none", DependencyFailed{kJob, JobId(9)}, "EEEEEEE"},
      {"a task runs", Report(0, TaskState::kRunning), "NNSNNNN"},
      {"a task prepares", Report(0, TaskState::kPreparing), "NNSNNNN"},
      {"a task fails", Failure(0), "NNPPPPN"},
      {"stale epoch", Report(0, TaskState::kRunning, 0), "NNNNNNN"},
      {"epoch from the future", Report(0, TaskState::kRunning, 2), "NNNNNNN"},
      {"an exit without a reason", Report(0, TaskState::kExited), "NNEEEEN"},
      {"no such task", Report(5, TaskState::kRunning), "NNEEEEN"},
      {"its node is lost", NodeLost{NodeId(0)}, "QHPPPPF"},
      {"a fault is seen", FaultObserved{NodeId(0), FaultKind::kXid, 48, "g", "t", at}, "QHSRVPF"},
      {"it breaks the node", FaultJudged{kSeen, FaultAction::kDrainNow, "", {}, {}}, "QHPPPPF"},
      {"it may leave", FaultJudged{kSeen, FaultAction::kDrainAfter, "", {}, {}}, "QHSRVPF"},
      {"it counts", FaultJudged{kSeen, FaultAction::kCount, "", {}, {}}, "QHSRVPF"},
      {"it is held",
       FaultJudged{kSeen, FaultAction::kDrainNow, "", HoldReason::kBreaker, {}},
       "QHSRVPF"},
      {"it is over", IncidentCleared{kSeen}, "QHSRVPF"},
      {"it explains itself", IncidentExplained{kSeen, kSeen}, "NNNNNNN"},
      {"another node is lost", NodeLost{NodeId(3)}, "QHSRVPF"},
  };
}

}  // namespace

TEST_CASE("every job state meets every event about it") {
  for (int index = 0; index < kJobStateCount; ++index) {
    const auto from = static_cast<JobState>(index);
    const ClusterState before = Prepared(from);
    REQUIRE(StateOf(before.jobs.at(kJob)) == from);
    for (const Column& column : Columns()) {
      INFO(JobStateName(from) << " + " << column.name);
      const char expected = column.expected[static_cast<size_t>(index)];
      ClusterState after = before;
      const Instant later = before.jobs.at(kJob).submitted_at + Duration::Seconds(5);
      const Result<Applied> result = Apply(after, {later, column.body});
      REQUIRE(result.has_value() == (expected != 'E'));
      REQUIRE_FALSE(CheckInvariants(after));
      if (expected == 'E' || expected == 'N') {
        CHECK(Difference(before, after).empty());
        CHECK((!result || *result == Applied::kNoOp));
      } else {
        CHECK(std::string("QHSRVPF").at(static_cast<size_t>(StateOf(after.jobs.at(kJob)))) ==
              expected);
        CHECK(*result == Applied::kChanged);
        CHECK_FALSE(Difference(before, after).empty());
      }
    }
  }
}

TEST_CASE("events about what does not exist are errors that change nothing") {
  const ClusterState before = Prepared(JobState::kRunning);
  const Instant at = before.jobs.at(kJob).submitted_at;
  const JobId nobody(99);
  const NodeId nowhere(99);
  const std::vector<EventBody> bodies = {
      HoldRequested{nobody, at, "ada", ""},
      ReleaseRequested{nobody, "ada"},
      CancelRequested{nobody, "ada", ""},
      JobMoved{nobody, JobId(), "ada"},
      JobPlaced{nobody, Epoch(1), {}},
      ClaimMade{nobody, {}},
      ClaimDropped{nobody},
      SuspendRequested{nobody, StopCause::kPreempted, {}, at, ""},
      SuspendWithdrawn{nobody},
      DeadlinePassed{nobody},
      TimeLimitReached{nobody},
      JobStalled{nobody, Epoch(1), {}, ""},
      JobStepped{nobody, Epoch(1), {}},
      JobNoted{nobody, Epoch(1), NoteKind::kLossSpike, 7, 0, "spike"},
      DependencyFailed{nobody, kJob},
      DrainRequested{nowhere, "op", "x"},
      UndrainRequested{nowhere, "op"},
      ValidationRequested{nowhere, "v", "op"},
      FaultObserved{nowhere, FaultKind::kXid, 79, "g", "", at},
      FaultJudged{IncidentId(99), FaultAction::kCount, "", {}, {}},
      IncidentCleared{IncidentId(99)},
      IncidentExplained{IncidentId(99), kSeen},
      IncidentExplained{kSeen, IncidentId(99)},
      IncidentsForgotten{{IncidentId(99)}},
      ValidationReported{nowhere, "v", {}},
      IdleTestBegun{nowhere, "v"},
      NodeSilent{nowhere},
      NodeHeard{nowhere},
      NodeLost{nowhere},
      NodeIsolated{nowhere},
      ProbationOver{nowhere}};
  for (const EventBody& body : bodies) {
    INFO(EventName(body));
    ClusterState after = before;
    const Result<Applied> result = Apply(after, {at, body});
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::kNotFound);
    CHECK(Difference(before, after).empty());
  }
}

TEST_CASE("a model is words of a GPU's name, side by side, whatever their case") {
  CHECK(IsModel("NVIDIA A100-SXM4-80GB", ""));
  CHECK(IsModel("NVIDIA A100-SXM4-80GB", "A100"));
  CHECK(IsModel("NVIDIA A100-SXM4-80GB", "a100 sxm4"));
  CHECK(IsModel("NVIDIA A100-SXM4-80GB", "nvidia-A100"));
  CHECK_FALSE(IsModel("NVIDIA A100-SXM4-80GB", "A10"));
  CHECK_FALSE(IsModel("NVIDIA A100-SXM4-80GB", "NVIDIA SXM4"));
  CHECK_FALSE(IsModel("NVIDIA A100-SXM4-80GB", "80GB HBM"));
  CHECK_FALSE(IsModel("A1000", "A100"));
  CHECK_FALSE(IsModel("", "A100"));
}

TEST_CASE("a job runs on nodes whose GPUs are of its model, whole or in part") {
  World world(Cluster().Leaf(4));
  for (uint32_t node = 0; node < 4; ++node) {
    NodeCapacity capacity = world.state.nodes[node].identity.capacity;
    capacity.gpu_model = node < 2 ? "NVIDIA A100-PCIe-40GB" : "NVIDIA H100-SXM5-80GB";
    world.Resize(node, capacity);
  }
  const auto refused = [&](const AJob& job) {
    const JobId id(world.state.next_job_id);
    return world.Apply(JobSubmitted{id, job.Spec(), "ada", ""}).error().message;
  };
  CHECK(refused(AJob().Gpus(8).GpuModel("B200")) ==
        "resources.gpu_model: no node of group default has GPUs of model \"B200\"; known: NVIDIA "
        "A100-PCIe-40GB, NVIDIA H100-SXM5-80GB");
  CHECK(refused(AJob().Nodes(3).Gpus(8).GpuModel("h100")).find("ask for at most 2") !=
        std::string::npos);
  CHECK(refused(AJob().Gpus(16).GpuModel("h100")) ==
        "resources.gpus_per_node: no node of group default with h100 GPUs has 16 GPUs; the largest "
        "has 8");
  const JobId part = world.Submit(AJob().Gpus(2).GpuModel("h100"));
  CHECK(world.NodesOf(part)[0] >= 2);
  const JobId gang = world.Submit(AJob().Nodes(2).Gpus(8).GpuModel("a100"));
  CHECK(world.NodesOf(gang) == std::vector<uint32_t>{0, 1});
  const JobId next = world.Submit(AJob().Nodes(1).Gpus(8).GpuModel("A100"));
  CHECK(world.Is(next) == JobState::kQueued);  // a node with others is idle
  const JobId any = world.Submit(AJob().Nodes(1).Gpus(8));
  CHECK(world.Is(any) == JobState::kRunning);
}

TEST_CASE("a job runs where its user's scratch folders may hold as much as it wants") {
  World world(Cluster().Leaf(3));
  for (uint32_t node = 0; node < 3; ++node) {
    NodeCapacity capacity = world.state.nodes[node].identity.capacity;
    capacity.disk_bytes = (uint64_t{node} * 500) << 30U;  // the first does not say
    world.Resize(node, capacity);
  }
  const auto refused = [&](const AJob& job) {
    const JobId id(world.state.next_job_id);
    return world.Apply(JobSubmitted{id, job.Spec(), "ada", ""}).error().message;
  };
  const JobId part = world.Submit(AJob().Gpus(2).DiskGib(600));
  CHECK(world.NodesOf(part)[0] != 1);
  const JobId whole = world.Submit(AJob().DiskGib(600));
  CHECK(world.NodesOf(whole)[0] != 1);
  const JobId next = world.Submit(AJob().DiskGib(600));
  CHECK(world.Is(next) == JobState::kQueued);  // the node that is idle has less
  CHECK(refused(AJob().Nodes(3).DiskGib(600)).find("ask for at most 2") != std::string::npos);
  NodeCapacity less = world.state.nodes[1].identity.capacity;
  World small(Cluster().Leaf(1));
  small.Resize(0, less);
  const JobId id(small.state.next_job_id);
  CHECK(small.Apply(JobSubmitted{id, AJob().DiskGib(501).Spec(), "ada", ""}).error().message ==
        "resources.disk_gib: no node of group default lets a user's scratch folders hold 501 GiB; "
        "the largest 500 GiB");
}

TEST_CASE("a submission is checked for sense before it gets an id") {
  World world(Cluster().Zone("A").Leaf(3).Zone("B").Leaf(2).Zone("C").Leaf(1));
  const auto submit = [&](uint64_t id, const AJob& job) {
    return world.Apply(JobSubmitted{JobId(id), job.Spec(), "ada", ""});
  };
  CHECK(submit(1, AJob().Nodes(4)).error().code == ErrorCode::kNeverFits);
  CHECK(submit(1, AJob().Nodes(3).Zone("B")).error().code == ErrorCode::kNeverFits);
  CHECK(submit(1, AJob().Group("h100")).error().code == ErrorCode::kNeverFits);
  CHECK(submit(1, AJob().Gpus(9)).error().code == ErrorCode::kNeverFits);
  CHECK(submit(1, AJob().Nodes(7).Zone("cross-ok")).error().message ==
        "resources.nodes: 7 nodes can never be had in all zones together of group default (A 3, B "
        "2, C 1); "
        "ask for at most 6");
  CHECK(submit(1, AJob().Zone("D")).error().message ==
        "placement.zone: there is no zone \"D\" in group default; known: A, B, C, single, "
        "cross-ok, cross-ok:N");
  CHECK(world.state.jobs.empty());
  CHECK(submit(1, AJob().Nodes(6).Zone("cross-ok")));
  CHECK(submit(1, AJob()).error().code == ErrorCode::kConflict);
  CHECK(submit(5, AJob()));  // ids rise; gaps are fine
  CHECK(submit(4, AJob()).error().code == ErrorCode::kConflict);
  CHECK(world.state.next_job_id == 6);
}

TEST_CASE("what no node has enough of is refused and named, and small nodes are left out") {
  World world(Cluster().Zone("A").Leaf(2));
  constexpr uint64_t kGib = 1ULL << 30U;
  world.Resize(0, {2, 8 * kGib, 0, ""});
  world.Resize(1, {64, 256 * kGib, 8, "a100"});
  const auto refused = [&](const AJob& job) {
    const auto applied = world.Apply(JobSubmitted{JobId(77), job.Spec(), "ada", ""});
    return applied ? std::string("taken") : applied.error().message;
  };
  CHECK(refused(AJob().Gpus(9)) ==
        "resources.gpus_per_node: no node of group default has 9 GPUs; the largest has 8");
  CHECK(refused(AJob().Cpus(500)) ==
        "resources.cpus_per_node: no node of group default has 500 CPUs; the largest has 64");
  CHECK(
      refused(AJob().Cpus(4).MemoryGib(300)) ==
      "resources.memory_gib: no node of group default has 300 GiB of memory; the largest has 256");
  CHECK(refused(AJob().Zone("A").Gpus(9)) ==
        "resources.gpus_per_node: no node of zone A of group default has 9 GPUs; the largest has "
        "8");
  // Each node counts for the tasks that it can hold.
  CHECK(refused(AJob().Nodes(2).Gpus(8)).starts_with("resources.nodes: 2 nodes can never be had"));
  const JobId first = world.Submit(AJob().Cpus(64));
  CHECK(world.NodesOf(first) == std::vector<uint32_t>{1});
  CHECK(world.Is(world.Submit(AJob().Cpus(32))) == JobState::kQueued);
  CHECK(world.NodesOf(world.Submit(AJob().Cpus(2))) == std::vector<uint32_t>{0});
}

}  // namespace tide::testing
