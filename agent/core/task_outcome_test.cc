#include "agent/core/task_outcome.h"

#include <catch2/catch.hpp>

namespace tide::agent {
namespace {

RankExit Rank(uint32_t rank, int32_t code, int32_t signal = 0) {
  RankExit exit;
  exit.rank = rank;
  exit.code = code;
  exit.signal = signal;
  exit.attached = true;
  return exit;
}

TaskExits Started(std::vector<RankExit> ranks) {
  TaskExits exits;
  exits.started = true;
  exits.ranks = std::move(ranks);
  return exits;
}

RankExit Acknowledged(uint32_t rank) {
  RankExit exit = Rank(rank, kLeftExitCode);
  exit.acknowledged = true;
  return exit;
}

}  // namespace

TEST_CASE("exits of a task that was left alone") {
  CHECK(JudgeExits(Started({Rank(0, 0), Rank(1, 0)})).reason == ExitReason::kSucceeded);
  CHECK(JudgeExits(Started({Acknowledged(0), Acknowledged(1)})).reason == ExitReason::kSuspended);
  CHECK(JudgeExits(Started({Rank(0, 0), Acknowledged(1)})).reason == ExitReason::kSuspended);

  const TaskOutcome failed = JudgeExits(Started({Rank(0, 0, 15), Rank(1, 3), Rank(2, 0, 9)}));
  CHECK(failed.reason == ExitReason::kFailed);
  CHECK(failed.rank == 1);
  CHECK(failed.code == 3);
  CHECK(failed.message == "rank 1 exited with code 3");

  const TaskOutcome crashed = JudgeExits(Started({Rank(0, 0, 15), Rank(1, 0, 11)}));
  CHECK(crashed.rank == 1);
  CHECK(crashed.signal == 11);
}

TEST_CASE("85 without an acknowledged save is a failure") {
  const TaskOutcome outcome = JudgeExits(Started({Rank(0, kLeftExitCode)}));
  CHECK(outcome.reason == ExitReason::kFailed);
  CHECK(outcome.message.find("85") != std::string::npos);
}

TEST_CASE("a program without the SDK may say 85 after its signal, or just die of it") {
  TaskExits exits = Started({Rank(0, kLeftExitCode)});
  exits.ranks[0].attached = false;
  exits.suspend_signalled = true;
  CHECK(JudgeExits(exits).reason == ExitReason::kSuspended);
  exits.ranks[0] = RankExit{0, 0, 15, false, false, false, false};
  CHECK(JudgeExits(exits).reason == ExitReason::kStopped);
}

TEST_CASE("a program without the SDK that exits 0 after its signal has left, unless it says else") {
  TaskExits exits = Started({Rank(0, 0), Rank(1, 0)});
  exits.ranks[0].attached = exits.ranks[1].attached = false;
  exits.suspend_signalled = true;
  exits.notice_runs = true;
  CHECK(JudgeExits(exits).reason == ExitReason::kSuspended);
  CHECK(JudgeExits(exits).message == "left with exit code 0 after its signal");
  exits.exit_ok_done = true;
  CHECK(JudgeExits(exits).reason == ExitReason::kSucceeded);
  exits.exit_ok_done = false;
  exits.notice_runs = false;  // it was taken back, and time has passed since
  CHECK(JudgeExits(exits).reason == ExitReason::kSucceeded);
  exits.notice_runs = true;
  exits.stop_ordered = true;  // it took longer than it had
  CHECK(JudgeExits(exits).reason == ExitReason::kStopped);
  exits.stop_ordered = false;
  exits.ranks[1].attached = exits.ranks[1].done = true;  // both since the signal was chosen
  CHECK(JudgeExits(exits).reason == ExitReason::kSuspended);
  exits.ranks[0].attached = exits.ranks[0].done = true;
  CHECK(JudgeExits(exits).reason == ExitReason::kSucceeded);
}

TEST_CASE("a rank that attaches between the choice of the signal and its arrival is stopped") {
  TaskExits exits = Started({Rank(0, 0, 15)});
  exits.suspend_signalled = true;
  CHECK(JudgeExits(exits).reason == ExitReason::kStopped);
  exits.ranks = {Rank(0, 1), Rank(1, 0, 15)};  // the first lost its neighbour
  CHECK(JudgeExits(exits).reason == ExitReason::kStopped);
  exits.ranks = {Rank(0, kLeftExitCode)};
  CHECK(JudgeExits(exits).reason == ExitReason::kStopped);
  exits.ranks = {Acknowledged(0), Rank(1, 0, 15)};
  CHECK(JudgeExits(exits).reason == ExitReason::kStopped);
  exits.ranks = {Rank(0, 0, 9)};
  exits.ranks[0].oom = true;
  CHECK(JudgeExits(exits).reason == ExitReason::kOom);
}

TEST_CASE("what ends on Tide's order is stopped, unless it was done") {
  TaskExits exits = Started({Rank(0, 0, 15), Rank(1, 1)});
  exits.stop_ordered = true;
  CHECK(JudgeExits(exits).reason == ExitReason::kStopped);
  exits.ranks = {Rank(0, 0)};
  CHECK(JudgeExits(exits).reason == ExitReason::kStopped);
  exits.ranks[0].done = true;
  CHECK(JudgeExits(exits).reason == ExitReason::kSucceeded);
}

TEST_CASE("a rank that cut its page is named, whatever the exits are") {
  TaskExits exits = Started({Rank(0, 0, 9), Rank(1, 0)});
  exits.stop_ordered = true;  // how the agent ended it
  exits.cut_rank = 1;
  CHECK(JudgeExits(exits).reason == ExitReason::kFailed);
  CHECK(JudgeExits(exits).rank == 1);
  CHECK(JudgeExits(exits).message.find("TIDE_PAGE") != std::string::npos);
}

TEST_CASE("what ends because the node was cut off is told apart from what failed") {
  TaskExits exits = Started({Rank(0, 0, 9), Rank(1, 1)});
  exits.stop_ordered = true;  // by the agent itself
  exits.cut_off = true;
  CHECK(JudgeExits(exits).reason == ExitReason::kCutOff);
  exits.started = false;
  CHECK(JudgeExits(exits).reason == ExitReason::kCutOff);
  exits = Started({Rank(0, 0)});
  exits.cut_off = true;
  CHECK(JudgeExits(exits).reason == ExitReason::kCutOff);  // a handler of SIGTERM
  exits.ranks[0].done = true;
  CHECK(JudgeExits(exits).reason == ExitReason::kSucceeded);
  exits.ranks = {Acknowledged(0)};
  CHECK(JudgeExits(exits).reason == ExitReason::kSuspended);
}

TEST_CASE("memory, start and loss are named") {
  TaskExits exits = Started({Rank(0, 0, 9), Rank(1, 1)});
  exits.ranks[0].oom = true;
  exits.memory_limit_bytes = 3ULL << 29U;
  const TaskOutcome oom = JudgeExits(exits);
  CHECK(oom.reason == ExitReason::kOom);
  CHECK(oom.message == "rank 0 was killed for memory (limit 1.5 GiB a node)");

  TaskExits unstarted;
  unstarted.error = "cannot start python9: no such file";
  CHECK(JudgeExits(unstarted).reason == ExitReason::kStartFailed);
  CHECK(JudgeExits(unstarted).message == unstarted.error);
  unstarted.stop_ordered = true;
  CHECK(JudgeExits(unstarted).reason == ExitReason::kStopped);

  TaskExits missing = Started({Rank(0, 127)});
  missing.error = "cannot start /no/such/program: No such file or directory";
  CHECK(JudgeExits(missing).reason == ExitReason::kFailed);
  CHECK(JudgeExits(missing).message == missing.error);

  TaskExits lost = Started({Rank(0, 0)});
  lost.lost = true;
  CHECK(JudgeExits(lost).reason == ExitReason::kLost);
}

}  // namespace tide::agent
