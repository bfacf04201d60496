#include "agent/server/held_task.h"

#include <google/protobuf/util/message_differencer.h>

#include "agent/server/janitor.h"
#include "agent/server/testing/agent_testing.h"

namespace tide::agent {
namespace {

JournalEntry TestEntry() {
  JournalEntry entry;
  entry.start = TestStart(2, 2);
  entry.record.id = {7, 2, 0};
  return entry;
}

TEST_CASE("the journal gives back what was written") {
  const TestDir dir;
  JournalEntry entry = TestEntry();
  (*entry.start.mutable_spec()->mutable_env())["NAME"] = "ünï\ncode \"x\"";
  entry.record.suspend_deadline = 1'800'000'000'123'456'789;
  entry.record.suspend_until = 1'800'000'000'000'000'001;
  entry.record.suspend_signalled = true;
  entry.record.stop_ordered = true;
  entry.record.cut_off = true;
  entry.record.kill_at = 5;
  entry.record.stop_step = 40;
  entry.record.parked_at = 6;
  entry.record.saved_step = 39;
  entry.record.saved_at = 7;
  entry.record.cut_rank = 3;
  entry.record.over_limit = "its scratch folder is full";
  entry.record.given_up = "no pages";
  entry.record.late = "no rank";
  REQUIRE(WriteHeld(dir.path(), entry));
  CHECK(ListHeld(dir.path()).value() == std::vector<std::string>{"7.2.0"});
  auto read = ReadHeld(dir.path(), "7.2.0");
  REQUIRE(read);
  CHECK(google::protobuf::util::MessageDifferencer::Equals(read->start, entry.start));
  CHECK(read->record == entry.record);

  entry.record.exited = true;
  entry.record.outcome = {ExitReason::kSuspended, 85, 0, 3, std::string("odd \xff byte")};
  REQUIRE(WriteHeld(dir.path(), entry));
  read = ReadHeld(dir.path(), "7.2.0");
  REQUIRE(read);
  CHECK(read->record.exited);
  CHECK(read->record.outcome.reason == ExitReason::kSuspended);
  CHECK(read->record.outcome.code == 85);
  CHECK(read->record.outcome.rank == 3);
  CHECK(read->record.outcome.message.starts_with("odd "));

  RemoveHeld(dir.path(), "7.2.0");
  CHECK(ListHeld(dir.path()).value().empty());
  CHECK(ReadHeld(dir.path(), "7.2.0").error().code == ErrorCode::kNotFound);
  REQUIRE(WriteFileDurably(dir.File("held/1.1.0.json"), "{"));
  CHECK(ReadHeld(dir.path(), "1.1.0").error().code == ErrorCode::kCorrupt);
  REQUIRE(WriteFileDurably(dir.File("held/1.1.0.json"), ""));  // as a power cut may leave it
  CHECK(ReadHeld(dir.path(), "1.1.0").error().code == ErrorCode::kCorrupt);
}

TEST_CASE("a journal under the name of another task is corrupt") {
  const TestDir dir;
  REQUIRE(WriteHeld(dir.path(), TestEntry()));
  std::filesystem::rename(dir.File("held/7.2.0.json"), dir.File("held/7.3.0.json"));
  CHECK(ReadHeld(dir.path(), "7.3.0").error().code == ErrorCode::kCorrupt);
}

TEST_CASE("news explain exits by what the ranks' pages say") {
  const TestDir dir;
  HeldTask task{.start = TestStart(2, 2), .key = "7.2.0", .pages = nullptr, .status = {}};
  CHECK(CommittedStep(task) == -1);
  CHECK(ReadPages(task).empty());
  auto pages = TaskPages::Open(dir.File("run"), 2, ::geteuid(), ::getegid());
  REQUIRE(pages);
  task.pages = *std::move(pages);
  RankPage first(dir.File("run/page-0"));
  first.SetPhase(RankPhase::kAcknowledged);
  (void)task.pages->Hold({AgreeVerb::kCommit, 20}, 0);
  CHECK(CommittedStep(task) == 20);
  CHECK(ReadPages(task).at(0).phase == RankPhase::kAcknowledged);

  task.status.started = true;
  task.status.lost = true;
  task.status.ranks = {{.rank = 2, .local_rank = 0, .exited = true, .code = 85},
                       {.rank = 3, .local_rank = 1, .exited = true, .signal = 9}};
  const TaskNews news = CollectNews(task);
  CHECK((news.started && news.ended && news.lost && !news.released));
  CHECK((news.ranks.at(0).rank == 2 && news.ranks.at(0).code == 85));
  CHECK((news.ranks.at(0).attached && news.ranks.at(0).acknowledged));
  CHECK((news.ranks.at(1).signal == 9 && !news.ranks.at(1).attached));
}

TEST_CASE("a report as a message") {
  HeldReport held;
  held.id = {7, 2, 1};
  held.state = HeldState::kExited;
  held.outcome = {ExitReason::kStopped, 0, 15, 1, "why"};
  held.submitted_at = 400;
  held.at = 500;
  const tide::v1::TaskReport report = ToProto(held);
  CHECK(report.state() == tide::v1::TASK_STATE_EXITED);
  CHECK(report.exit().reason() == tide::v1::EXIT_REASON_STOPPED);
  CHECK(report.exit().signal() == 15);
  CHECK(report.exit().message() == "why");
  CHECK(report.submitted_at() == 400);
  CHECK(report.at() == 500);
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

TEST_CASE("a journal that was being written when its agent was killed is no task, and goes") {
  const TestDir dir;
  JournalEntry entry;
  entry.start.set_job_id(7);
  entry.start.set_epoch(2);
  entry.record.id = IdOf(entry.start);
  REQUIRE(WriteHeld(dir.path(), entry));
  const std::string unfinished = dir.path() + "/held/8.1.0.json.tmpAbCdEf";
  REQUIRE(ReplaceFile(unfinished, "{"));
  CHECK(ListHeld(dir.path()).value() == std::vector<std::string>{"7.2.0"});
  CHECK_FALSE(ReadFile(unfinished));
}

}  // namespace
}  // namespace tide::agent
