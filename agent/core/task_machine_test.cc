#include "agent/core/task_machine.h"

#include <catch2/catch.hpp>

namespace tide::agent {
namespace {

constexpr TaskId kId{7, 2, 0};

TaskMachine ATask() {
  TaskRecord record;
  record.id = kId;
  return TaskMachine(record);
}

// The kinds of what is wanted, in order.
template <typename... Kinds>
bool Are(const Effects& effects) {
  size_t index = 0;
  const bool kinds =
      ((index < effects.size() && std::holds_alternative<Kinds>(effects[index++])) && ...);
  return kinds && index == effects.size();
}

AgentTime At(int64_t seconds) {
  return {seconds * 1'000'000'000, seconds * 1'000'000'000};
}

TaskNews Exits(int32_t code, bool acknowledged) {
  TaskNews news;
  news.started = true;
  news.ended = true;
  news.released = true;
  news.ranks.push_back({.rank = 0, .code = code, .attached = true, .acknowledged = acknowledged});
  return news;
}

TEST_CASE("a task that took too much is ended, and its job fails for that") {
  TaskMachine task = ATask();
  Effects out;
  task.EndOverLimit("its scratch folder is full", At(1), out);
  CHECK(Are<NoteOverLimit, SaveTask, StopRanks>(out));
  TaskNews news = Exits(0, false);
  news.ranks.front().signal = 9;
  task.OnNews(news, {}, At(2), out);
  CHECK(task.record().outcome.reason == ExitReason::kFailed);
  CHECK(task.record().outcome.message == "its scratch folder is full");
  // One that is told to go already goes for that reason.
  TaskMachine stopped = ATask();
  stopped.Stop(false, Duration::Seconds(10), At(1), out);
  stopped.EndOverLimit("late", At(2), out);
  CHECK(stopped.record().over_limit.empty());
}

TEST_CASE("every order is saved before it is carried out, and saying it again changes nothing") {
  TaskMachine task = ATask();
  Effects out;
  task.Suspend({100, 300}, -1, out);
  CHECK(Are<SaveTask, LeadAgreement>(out));
  out.clear();
  task.Suspend({100, 300}, -1, out);
  REQUIRE(Are<LeadAgreement>(out));
  CHECK_FALSE(std::get<LeadAgreement>(out[0]).renewed);
  CHECK(std::get<LeadAgreement>(out[0]).deadline == 300);  // by this node's clock
  out.clear();
  task.Withdraw(-1, out);
  CHECK(Are<SaveTask, EndAgreement>(out));
  out.clear();
  task.Withdraw(-1, out);
  CHECK(out.empty());
  task.Stop(false, Duration::Seconds(10), At(1), out);
  CHECK(Are<SaveTask, StopRanks>(out));
  out.clear();
  task.Stop(false, Duration::Seconds(10), At(2), out);
  CHECK(out.empty());
  CHECK(task.record().kill_at == At(11).wall_ns);
}

TEST_CASE("a kill overtakes a stop; a stop does not postpone a kill") {
  TaskMachine task = ATask();
  Effects out;
  task.Stop(false, Duration::Seconds(10), At(1), out);
  task.Stop(true, Duration(), At(2), out);
  CHECK(Are<SaveTask, StopRanks, SaveTask, StopRanks>(out));
  CHECK(task.record().kill_at == At(2).wall_ns);
  out.clear();
  TaskMachine heir(task.record());  // after a restart the stop is said again
  heir.Stop(false, Duration::Seconds(10), At(3), out);
  CHECK(Are<SaveTask, StopRanks>(out));
  CHECK(heir.record().kill_at == At(2).wall_ns);
}

TEST_CASE("a stop that is to be shorter is said again, a longer one is not") {
  TaskMachine task = ATask();
  Effects out;
  task.Stop(false, Duration::Seconds(60), At(1), out);
  out.clear();
  task.Stop(false, Duration::Seconds(5), At(2), out);
  REQUIRE(Are<SaveTask, StopRanks>(out));
  CHECK(std::get<StopRanks>(out[1]).grace == Duration::Seconds(5));
  out.clear();
  task.Stop(false, Duration::Seconds(5), At(3), out);
  CHECK(out.empty());
  CHECK(task.record().kill_at == At(7).wall_ns);
}

TEST_CASE("a signal is asked for until it was sent, once for each suspension") {
  TaskMachine task = ATask();
  Effects out;
  task.SignalToLeave(100, out);
  CHECK(Are<SaveTask, SignalRanks>(out));
  task.OnSignalSent(false);
  CHECK_FALSE(task.IsSignalled(100));
  out.clear();
  task.SignalToLeave(100, out);
  CHECK(Are<SignalRanks>(out));
  task.OnSignalSent(true);
  CHECK(task.IsSignalled(100));
  out.clear();
  task.SignalToLeave(100, out);
  CHECK(out.empty());
  task.SignalToLeave(200, out);  // it was withdrawn, went on, and is to leave again
  CHECK(Are<SignalRanks>(out));
}

TEST_CASE("an agent that died between noting a signal and sending it has an heir that sends it") {
  TaskMachine task = ATask();
  Effects out;
  task.SignalToLeave(100, out);
  TaskMachine heir(task.record());
  CHECK(heir.record().suspend_signalled);
  out.clear();
  heir.SignalToLeave(100, out);
  CHECK(Are<SignalRanks>(out));
}

TEST_CASE("a signal that could not be noted is not sent") {
  TaskMachine task = ATask();
  Effects out;
  task.SignalToLeave(100, out);
  REQUIRE(task.signalling());
  task.OnSaveFailed();
  CHECK_FALSE(task.signalling());
  CHECK_FALSE(task.record().suspend_signalled);
  out.clear();
  task.SignalToLeave(100, out);
  CHECK(Are<SaveTask, SignalRanks>(out));
}

TEST_CASE("a withdrawal after the commit is too late") {
  TaskMachine task = ATask();
  Effects out;
  task.Suspend({100, 300}, -1, out);
  out.clear();
  task.Withdraw(20, out);
  CHECK(out.empty());
  CHECK(task.record().suspend_deadline == 100);
}

TEST_CASE("parked is when every rank waits at a committed step; saved is what all have saved") {
  TaskMachine task = ATask();
  Effects out;
  std::vector<RankView> ranks(2);
  for (RankView& rank : ranks) {
    rank.step = 20;
    rank.phase = RankPhase::kWaiting;
  }
  task.OnPages({ranks, -1}, At(100), out);  // armed only
  ranks[1].phase = RankPhase::kTraining;
  task.OnPages({ranks, 20}, At(100), out);
  CHECK(out.empty());
  ranks[1].phase = RankPhase::kSaving;
  task.OnPages({ranks, 20}, At(110), out);
  CHECK(Are<SaveTask>(out));
  CHECK(task.record().parked_at == At(110).wall_ns);
  CHECK(task.record().stop_step == 20);
  out.clear();
  ranks[0].saved_step = 20;
  task.OnPages({ranks, 20}, At(120), out);
  CHECK(out.empty());
  ranks[1].saved_step = 20;
  task.OnPages({ranks, 20}, At(130), out);
  CHECK(Are<SaveTask>(out));
  CHECK(task.record().saved_step == 20);
  CHECK(task.record().saved_at == At(130).wall_ns);
}

TEST_CASE("an end is judged once, when nothing of the task is left") {
  TaskMachine task = ATask();
  Effects out;
  TaskNews news = Exits(85, true);
  news.released = false;
  task.OnNews(news, {}, At(1), out);
  CHECK((out.empty() && !task.exited()));
  task.LookAgain(At(2), out);
  CHECK(Are<LookAtTask>(out));
  out.clear();
  task.LookAgain(At(2), out);
  CHECK(out.empty());  // once a second
  task.OnNews(Exits(85, true), {}, At(3), out);
  CHECK(Are<NoteEnd, SaveTask>(out));
  CHECK(task.record().outcome.reason == ExitReason::kSuspended);
  task.OnNews(Exits(1, false), {}, At(4), out);
  CHECK(task.record().outcome.reason == ExitReason::kSuspended);
}

TEST_CASE("what the supervisor cut off is not the job's failure") {
  TaskMachine task = ATask();
  Effects out;
  TaskNews news = Exits(0, false);
  news.ranks[0].signal = 9;
  news.cut_off = true;
  task.OnNews(news, {}, At(1), out);
  CHECK(task.record().outcome.reason == ExitReason::kCutOff);
  TaskMachine stopped = ATask();  // by the scheduler, before
  stopped.Stop(false, Duration(), At(0), out);
  stopped.OnNews(news, {}, At(1), out);
  CHECK(stopped.record().outcome.reason == ExitReason::kStopped);
}

TEST_CASE("a rank that cuts its page short ends its task, once") {
  TaskMachine task = ATask();
  Effects out;
  const std::vector<RankView> ranks(2);
  task.OnPages({ranks, -1, 5}, At(1), out);
  CHECK(Are<NoteCutPage, SaveTask, StopRanks>(out));
  CHECK(task.record().cut_rank == 5);
  out.clear();
  task.OnPages({ranks, -1, 5}, At(2), out);
  CHECK(out.empty());
  task.OnNews(Exits(0, false), {}, At(3), out);
  CHECK(task.record().outcome.reason == ExitReason::kFailed);
  CHECK(task.record().outcome.rank == 5);
}

TEST_CASE("a stop that does not work is tried again once a second") {
  TaskMachine task = ATask();
  Effects out;
  task.Stop(false, Duration::Seconds(10), At(1), out);
  out.clear();
  task.LookAgain(At(12), out);
  CHECK(out.empty());
  task.LookAgain(At(13), out);
  REQUIRE(Are<StopRanks, LookAtTask>(out));
  CHECK(std::get<StopRanks>(out[0]).grace == Duration());
}

TEST_CASE("a step of the system clock does not make a stop overdue, but a restart counts by it") {
  TaskMachine task = ATask();
  Effects out;
  task.Stop(false, Duration::Seconds(10), At(1), out);
  out.clear();
  AgentTime stepped = At(2);
  stepped.wall_ns = At(600).wall_ns;
  task.LookAgain(stepped, out);
  CHECK(out.empty());
  TaskMachine heir(task.record());
  heir.LookAgain(stepped, out);
  CHECK(Are<StopRanks, LookAtTask>(out));
}

TEST_CASE("the pause between looks begins when a look is over") {
  TaskMachine task = ATask();
  Effects out;
  task.Stop(true, Duration(), At(1), out);
  REQUIRE(task.NeedsLook(At(3)));
  task.LookAgain(At(3), out);
  task.OnLooked(At(9));  // the runtime took its time
  out.clear();
  task.LookAgain(At(9), out);
  CHECK(out.empty());
  task.LookAgain(At(10), out);
  CHECK(Are<StopRanks, LookAtTask>(out));
}

TEST_CASE("what is given up is ended and lost; a stop that was ordered before outranks that") {
  TaskMachine task = ATask();
  Effects out;
  task.GiveUp("no pages", At(1), out);
  CHECK(Are<NoteGivenUp, SaveTask, StopRanks>(out));
  CHECK(task.MakeReport(At(1)).state == HeldState::kStopping);
  task.OnNews(Exits(0, false), {}, At(2), out);
  CHECK(task.record().outcome.reason == ExitReason::kLost);
  CHECK(task.record().outcome.message == "no pages");
  TaskMachine stopped = ATask();
  stopped.Stop(false, Duration::Seconds(10), At(1), out);
  stopped.GiveUp("no pages", At(2), out);
  stopped.OnNews(Exits(1, false), {}, At(3), out);
  CHECK(stopped.record().outcome.reason == ExitReason::kStopped);
}

TEST_CASE("a report's time is that of its state") {
  TaskMachine task = ATask();
  Effects out;
  task.SetReported(task.MakeReport(At(100)));
  CHECK(task.reported().state == HeldState::kPreparing);
  CHECK(task.MakeReport(At(200)) == task.reported());
  TaskNews news;
  news.started = true;
  task.OnNews(news, {}, At(300), out);
  task.SetReported(task.MakeReport(At(300)));
  CHECK(task.reported().state == HeldState::kRunning);
  CHECK(task.reported().at == At(300).wall_ns);
  task.Stop(true, Duration(), At(400), out);
  CHECK(task.MakeReport(At(400)).state == HeldState::kStopping);
  task.OnNews(Exits(1, false), {}, At(500), out);
  CHECK(task.MakeReport(At(500)).state == HeldState::kExited);
  CHECK(task.MakeReport(At(500)).outcome.reason == ExitReason::kStopped);
}

}  // namespace
}  // namespace tide::agent
