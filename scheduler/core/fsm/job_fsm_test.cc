#include "scheduler/core/fsm/job_fsm.h"

#include <array>
#include <catch2/catch.hpp>

#include "scheduler/core/fsm/task_fsm.h"

namespace tide {
namespace {

// Written from jobs.md section 1 and docs/adr/0001, not from the code. A row per state, a column
// per event in this order:
//   Placed, AllRunning, AllSucceeded, SuspendRequested, HoldRequested, Suspended, DeadlinePassed,
//   Withdrawn, TaskFailed, NodeLost, Cancel, StoppedRequeue, StoppedHold, StoppedFinish, Release,
//   DependencyFailed.
// Q queued, H held, S starting, R running, V saving, P stopping, F finished, . illegal.
constexpr std::string_view kLetters = "QHSRVPF";
constexpr std::array<std::string_view, kJobStateCount> kExpected = {
    "S...H.....F....F",  // queued
    "..........F...Q.",  // held
    ".R.PP.P.PPP.....",  // starting
    "..FVVPP.PPP.....",  // running
    "..FVVPPRPPP.....",  // saving
    "..F.P.P.PPPQHF..",  // stopping
    "................",  // finished
};

}  // namespace

TEST_CASE("every job state and event pair leads where the design says") {
  for (int from = 0; from < kJobStateCount; ++from) {
    const std::string_view row = kExpected.at(static_cast<size_t>(from));
    REQUIRE(row.size() == kJobEventCount);
    for (int event = 0; event < kJobEventCount; ++event) {
      const char letter = row[static_cast<size_t>(event)];
      INFO(JobStateName(static_cast<JobState>(from))
           << " + " << JobEventName(static_cast<JobEvent>(event)));
      const auto next = NextJobState(static_cast<JobState>(from), static_cast<JobEvent>(event));
      REQUIRE(next.has_value() == (letter != '.'));
      if (next) {
        CHECK(kLetters[static_cast<size_t>(*next)] == letter);
      }
    }
  }
}

TEST_CASE("every job event and state has a name of its own") {
  std::vector<std::string> names;
  for (int event = 0; event < kJobEventCount; ++event) {
    names.emplace_back(JobEventName(static_cast<JobEvent>(event)));
    CHECK_FALSE(names.back().empty());
  }
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  for (int state = 0; state < kJobStateCount; ++state) {
    CHECK_FALSE(JobStateName(static_cast<JobState>(state)).empty());
  }
}

TEST_CASE("task reports only move forward") {
  // Columns: reported assigned, preparing, running, stopping, exited.
  constexpr std::array<std::string_view, 5> kTask = {"=>>>>", "<=>>>", "<<=>>", "<<<=>", "<<<<="};
  for (int known = 1; known <= 5; ++known) {
    for (int reported = 1; reported <= 5; ++reported) {
      const TaskStep step =
          ClassifyTaskReport(static_cast<TaskState>(known), static_cast<TaskState>(reported));
      const char letter =
          kTask.at(static_cast<size_t>(known - 1))[static_cast<size_t>(reported - 1)];
      CHECK((step == TaskStep::kForward) == (letter == '>'));
      CHECK((step == TaskStep::kRepeat) == (letter == '='));
      CHECK((step == TaskStep::kStale) == (letter == '<'));
    }
  }
}

}  // namespace tide
