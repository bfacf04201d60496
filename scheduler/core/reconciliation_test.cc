// What an agent says that it holds against what the state believes: adopt, stop, or restart. The
// rows are those of docs/reconciliation.md, by name.

#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <sstream>

#include "scheduler/core/testing/compare.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

using Kinds = std::set<CommandKind>;

// One task, as a Hello names it.
struct Said {
  TaskState state = TaskState::kRunning;
  uint64_t epoch = 1;
  uint64_t job = 1;
  uint32_t task = 0;
  ExitReason reason = ExitReason::kNone;
};

struct Row {
  const char* name;
  JobState believed;         // of the job, whose only task is on node 0, epoch 1
  uint32_t node;             // that says Hello
  std::optional<Said> said;  // nothing: the Hello names no task
  Kinds told;                // what agents are sent
  JobState after;            // of the job
  bool adopted = true;       // its attempt goes on, or ends as the Hello says; false: it was lost
};

const Said kEnded{.state = TaskState::kExited, .reason = ExitReason::kSucceeded};

std::vector<Row> Rows() {
  using K = CommandKind;
  using S = JobState;
  return {
      // What should be is there.
      {"running here, as believed", S::kRunning, 0, Said{}, {}, S::kRunning},
      {"running, and its start was not heard of", S::kStarting, 0, Said{}, {}, S::kRunning},
      {"preparing, and believed to run",
       S::kRunning,
       0,
       Said{TaskState::kPreparing},
       {},
       S::kRunning},
      {"running, to save", S::kSaving, 0, Said{}, {K::kSuspendTask}, S::kSaving},
      {"running, to stop", S::kStopping, 0, Said{}, {K::kStopTask}, S::kStopping},
      {"ended, and believed to run", S::kRunning, 0, kEnded, {K::kForgetTask}, S::kFinished},
      {"ended, and its start was not heard of",
       S::kStarting,
       0,
       kEnded,
       {K::kForgetTask},
       S::kFinished},
      // What should not be is there.
      {"running, of an older epoch", S::kRunning, 1, Said{.epoch = 0}, {K::kStopTask}, S::kRunning},
      {"running, of a newer epoch", S::kRunning, 1, Said{.epoch = 2}, {K::kStopTask}, S::kRunning},
      {"running, and placed elsewhere", S::kRunning, 1, Said{}, {K::kStopTask}, S::kRunning},
      {"running, a task its job does not have",
       S::kRunning,
       1,
       Said{.task = 7},
       {K::kStopTask},
       S::kRunning},
      {"running, and its job has ended", S::kFinished, 0, Said{}, {K::kStopTask}, S::kFinished},
      {"running, and its job is held", S::kHeld, 0, Said{}, {K::kStopTask}, S::kHeld},
      {"running, of an unknown job", S::kRunning, 1, Said{.job = 9}, {K::kStopTask}, S::kRunning},
      {"ended, of an older epoch",
       S::kRunning,
       1,
       Said{.state = TaskState::kExited, .epoch = 0, .reason = ExitReason::kFailed},
       {K::kForgetTask},
       S::kRunning},
      {"ended, and its job has ended", S::kFinished, 0, kEnded, {K::kForgetTask}, S::kFinished},
      {"ended, of an unknown job",
       S::kRunning,
       1,
       Said{.state = TaskState::kExited, .job = 9, .reason = ExitReason::kFailed},
       {K::kForgetTask},
       S::kRunning},
      // What should be is not there.
      {"not there, and believed to run", S::kRunning, 0, {}, {K::kStartTask}, S::kStarting, false},
      {"not there, and its start was not heard of",
       S::kStarting,
       0,
       {},
       {K::kStartTask},
       S::kStarting},
      {"not there, to save", S::kSaving, 0, {}, {}, S::kHeld, false},
      {"not there, to stop", S::kStopping, 0, {}, {}, S::kFinished, false},
  };
}

World Believing(JobState phase) {
  World world(Cluster().Leaf(2));
  world.agents.starts = phase != JobState::kStarting;
  world.agents.saves = phase != JobState::kSaving;
  world.agents.stops = phase != JobState::kStopping;
  const JobId job = world.Submit(AJob());
  if (phase == JobState::kSaving || phase == JobState::kHeld) {
    world.Hold(job);
  } else if (phase == JobState::kStopping) {
    world.Cancel(job);
  } else if (phase == JobState::kFinished) {
    world.Finish(job);
  }
  REQUIRE(world.Is(job) == phase);
  return world;
}

NodeJoined Hello(const World& world, const Row& row) {
  NodeJoined hello{NodeId(row.node), world.state.nodes[row.node].identity, {}};
  if (row.said) {
    TaskReported report;
    report.job = JobId(row.said->job);
    report.epoch = Epoch(row.said->epoch);
    report.task = row.said->task;
    report.state = row.said->state;
    report.exit.reason = row.said->reason;
    hello.tasks.push_back(report);
  }
  return hello;
}

}  // namespace

TEST_CASE("reconciliation: what is against what should be") {
  for (const Row& row : Rows()) {
    INFO(row.name);
    World world = Believing(row.believed);
    const NodeJoined hello = Hello(world, row);
    if (!row.said) {
      world.agents.Reboot(NodeId(row.node));  // an agent leaves out only what is gone
    }
    REQUIRE(world.Apply(hello));
    Kinds told;
    for (const Command& command : world.last.commands) {
      told.insert(command.kind);
      CHECK((command.kind != CommandKind::kStopTask || command.node == NodeId(row.node)));
    }
    CHECK(told == row.told);
    CHECK(world.Is(JobId(1)) == row.after);
    const bool lost =
        world.At(JobId(1)).attempts.front().tasks.front().exit.reason == ExitReason::kLost;
    CHECK(lost != row.adopted);
    // Where something is left, no other job starts beside it, and its end is waited for.
    const bool stray =
        row.told == Kinds{CommandKind::kStopTask} && row.believed != JobState::kStopping;
    CHECK(world.state.nodes[row.node].leftovers.empty() == !stray);
    // Said again, as after another break of the stream, it changes nothing more.
    const Job before = world.At(JobId(1));
    if (row.said) {
      REQUIRE(world.Apply(hello));
      CHECK(world.At(JobId(1)) == before);
    }
  }
}

TEST_CASE("reconciliation: each row is explained in docs/reconciliation.md") {
  std::ifstream file(TIDE_SOURCE_DIR "/docs/reconciliation.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const Row& row : Rows()) {
    INFO(row.name);
    CHECK(text.str().find("| " + std::string(row.name) + " |") != std::string::npos);
  }
}

}  // namespace tide::testing
