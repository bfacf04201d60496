#include "agent/server/held_task.h"

#include <google/protobuf/util/message_differencer.h>

#include "agent/server/janitor.h"
#include "agent/server/testing/agent_testing.h"

namespace tide::agent {
namespace {

HeldTask TestTask() {
  HeldTask task;
  task.key = "7.2.0";
  task.start = TestStart(2, 2);
  return task;
}

TEST_CASE("the journal gives back what was written") {
  const TestDir dir;
  HeldTask task = TestTask();
  (*task.start.mutable_spec()->mutable_env())["NAME"] = "ünï\ncode \"x\"";
  task.suspend_deadline = 1'800'000'000'123'456'789;
  task.suspend_signalled = true;
  task.stop_ordered = true;
  task.kill_at = 5;
  task.stop_step = 40;
  task.parked_at = 6;
  task.saved_step = 39;
  task.saved_at = 7;
  REQUIRE(WriteHeld(dir.path(), task));
  CHECK(ListHeld(dir.path()).value() == std::vector<std::string>{"7.2.0"});
  auto read = ReadHeld(dir.path(), "7.2.0");
  REQUIRE(read);
  CHECK(google::protobuf::util::MessageDifferencer::Equals(read->start, task.start));
  CHECK(read->key == task.key);
  CHECK(read->suspend_deadline == task.suspend_deadline);
  CHECK(read->suspend_signalled);
  CHECK(read->stop_ordered);
  CHECK(read->kill_at == 5);
  CHECK(read->stop_step == 40);
  CHECK(read->parked_at == 6);
  CHECK(read->saved_step == 39);
  CHECK(read->saved_at == 7);
  CHECK_FALSE(read->exited);

  task.exited = true;
  task.outcome = {ExitReason::kSuspended, 85, 0, 3, std::string("odd \xff byte")};
  REQUIRE(WriteHeld(dir.path(), task));
  read = ReadHeld(dir.path(), "7.2.0");
  REQUIRE(read);
  CHECK(read->exited);
  CHECK(read->outcome.reason == ExitReason::kSuspended);
  CHECK(read->outcome.code == 85);
  CHECK(read->outcome.rank == 3);
  CHECK(read->outcome.message.starts_with("odd "));

  RemoveHeld(dir.path(), "7.2.0");
  CHECK(ListHeld(dir.path()).value().empty());
  CHECK(ReadHeld(dir.path(), "7.2.0").error().code == ErrorCode::kNotFound);
  REQUIRE(WriteFileDurably(dir.File("held/1.1.0.json"), "{"));
  CHECK(ReadHeld(dir.path(), "1.1.0").error().code == ErrorCode::kCorrupt);
}

TEST_CASE("parked is when every rank waits at a committed step; saved is what all have saved") {
  const TestDir dir;
  HeldTask task = TestTask();
  auto pages = TaskPages::Open(dir.File("run"), 2, ::geteuid(), ::getegid());
  REQUIRE(pages);
  task.pages = *std::move(pages);
  RankPage first(dir.File("run/page-0"));
  RankPage second(dir.File("run/page-1"));
  for (RankPage* rank : {&first, &second}) {
    rank->SetStep(20);
    rank->SetPhase(RankPhase::kWaiting);
  }
  CHECK_FALSE(ObservePages(task, 100));  // armed only
  (void)task.pages->Hold(AgreeVerb::kCommit, 20, 0);
  second.SetPhase(RankPhase::kTraining);
  CHECK_FALSE(ObservePages(task, 100));
  second.SetPhase(RankPhase::kSaving);
  CHECK(ObservePages(task, 110));
  CHECK(task.parked_at == 110);
  CHECK(task.stop_step == 20);
  first.SetSaved(20);
  CHECK_FALSE(ObservePages(task, 120));
  second.SetSaved(20);
  CHECK(ObservePages(task, 130));
  CHECK(task.saved_step == 20);
  CHECK(task.saved_at == 130);
  CHECK_FALSE(ObservePages(task, 140));

  task.status.started = true;
  task.status.ranks = {{.rank = 2, .local_rank = 0, .exited = true, .code = 85},
                       {.rank = 3, .local_rank = 1, .exited = true, .code = 85}};
  first.SetPhase(RankPhase::kAcknowledged);
  CHECK(JudgeExits(CollectExits(task)).reason == ExitReason::kFailed);
  second.SetPhase(RankPhase::kAcknowledged);
  CHECK(JudgeExits(CollectExits(task)).reason == ExitReason::kSuspended);

  task.status.ranks[0] = {.rank = 2, .local_rank = 0, .exited = true, .signal = 9};
  CHECK(JudgeExits(CollectExits(task)).reason == ExitReason::kFailed);
  task.status.cut_off = true;  // by the supervisor, while no agent lived
  CHECK(JudgeExits(CollectExits(task)).reason == ExitReason::kCutOff);
  task.stop_ordered = true;  // and before that by the scheduler
  CHECK(JudgeExits(CollectExits(task)).reason == ExitReason::kStopped);
}

TEST_CASE("a report's time is that of its state") {
  HeldTask task = TestTask();
  task.reported = MakeReport(task, 100);
  CHECK(task.reported.state() == tide::v1::TASK_STATE_PREPARING);
  CHECK(MakeReport(task, 200).at() == 100);
  task.status.started = true;
  task.reported = MakeReport(task, 300);
  CHECK(task.reported.state() == tide::v1::TASK_STATE_RUNNING);
  CHECK(task.reported.at() == 300);
  task.stop_ordered = true;
  CHECK(MakeReport(task, 400).state() == tide::v1::TASK_STATE_STOPPING);
  task.exited = true;
  task.outcome = {ExitReason::kStopped, 0, 15, 1, "why"};
  const tide::v1::TaskReport report = MakeReport(task, 500);
  CHECK(report.state() == tide::v1::TASK_STATE_EXITED);
  CHECK(report.exit().reason() == tide::v1::EXIT_REASON_STOPPED);
  CHECK(report.exit().signal() == 15);
  CHECK(report.exit().message() == "why");
}

TEST_CASE("the janitor deletes what is gone, and what an earlier one had begun to") {
  const TestDir dir;
  for (const char* name : {"1.1.0/deep/er", "2.1.0", ".gone-3.1.0/x"}) {
    std::filesystem::create_directories(dir.File(name));
  }
  Janitor janitor(dir.path());
  janitor.DiscardAll([](const std::string& name) { return name == "2.1.0"; });
  CHECK_FALSE(std::filesystem::exists(dir.File("1.1.0")));  // its name is free at once
  CHECK(Eventually([&] {
    return !std::filesystem::exists(dir.File(".gone-1.1.0")) &&
           !std::filesystem::exists(dir.File(".gone-3.1.0"));
  }));
  CHECK(std::filesystem::exists(dir.File("2.1.0")));
  janitor.Discard("never there");
  janitor.Discard("2.1.0");
  CHECK(Eventually([&] { return std::filesystem::is_empty(dir.path()); }));
}

}  // namespace
}  // namespace tide::agent
