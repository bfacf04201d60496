#include "agent/core/agent_core.h"

#include <catch2/catch.hpp>
#include <functional>
#include <utility>

namespace tide::agent {
namespace {

constexpr TaskId kId{7, 2, 0};
constexpr int64_t kSecond = 1'000'000'000;

AgentTime At(int64_t seconds) {
  return {seconds * kSecond, seconds * kSecond};
}

Contact HeardAt(int64_t seconds) {
  return {.heard_ns = seconds * kSecond, .isolation_ms = 60'000};
}

template <typename Kind>
size_t Count(const Effects& effects) {
  size_t count = 0;
  for (const Effect& each : effects) {
    count += std::holds_alternative<Kind>(each) ? 1 : 0;
  }
  return count;
}

// A core with one task that runs, connected to a leader of term 3.
AgentCore Running() {
  AgentCore core(3, HeardAt(100));
  core.OnStream(1, At(100));
  REQUIRE(core.Accept(1, 3, At(100)));
  core.OnWelcome(1000, 60'000, At(100));
  REQUIRE(core.OnStart({.id = kId}));
  core.OnLaunched(kId, At(100));
  (void)core.TakeEffects();
  return core;
}

TEST_CASE("messages of an older stream or a former leader are not obeyed") {
  AgentCore core = Running();
  CHECK_FALSE(core.Accept(2, 3, At(101)));
  CHECK_FALSE(core.Accept(1, 2, At(101)));
  CHECK(core.TakeEffects().empty());
  CHECK(core.Accept(1, 4, At(101)));
  const Effects effects = core.TakeEffects();
  REQUIRE(Count<SaveTerm>(effects) == 1);
  CHECK(core.highest_term() == 4);
  CHECK_FALSE(core.Accept(1, 3, At(101)));
}

TEST_CASE("an order to start is saved, then carried out, once") {
  AgentCore core(0, HeardAt(100));
  REQUIRE(core.OnStart({.id = kId}));
  const Effects effects = core.TakeEffects();
  REQUIRE(effects.size() == 2);
  CHECK(std::holds_alternative<SaveTask>(effects[0]));
  CHECK(std::holds_alternative<LaunchTask>(effects[1]));
  CHECK(core.IsLaunching(kId));
  core.OnLaunched(kId, At(100));
  CHECK_FALSE(core.OnStart({.id = kId}));
  CHECK(core.TakeEffects().empty());
}

TEST_CASE("what could not be saved is not started, and its end is reported") {
  AgentCore core(0, HeardAt(100));
  REQUIRE(core.OnStart({.id = kId}));
  (void)core.TakeEffects();
  core.OnSaveFailed(kId, "disk full");
  CHECK_FALSE(core.IsLaunching(kId));
  REQUIRE(core.ChangedReports(At(100)).size() == 1);
  CHECK(core.Find(kId)->record().outcome.reason == ExitReason::kNodeFault);
  CHECK(core.ChangedReports(At(101)).empty());
  CHECK(core.AllReports(At(101)).size() == 1);  // until it is forgotten
}

TEST_CASE("what a job asks for in vain is its own fault") {
  AgentCore core(0, HeardAt(100));
  REQUIRE(core.OnStart({.id = kId}));
  core.OnLaunchFailed(kId, AgentCore::Fault::kJob, "no such folder");
  CHECK(core.Find(kId)->record().outcome.reason == ExitReason::kStartFailed);
}

// A core whose one task has been launched and says nothing.
AgentCore Launched(int64_t start_timeout_ms) {
  AgentCore core(3, HeardAt(100));
  REQUIRE(core.OnStart({.id = kId, .start_timeout_ms = start_timeout_ms}));
  core.OnLaunched(kId, At(100));
  (void)core.TakeEffects();
  return core;
}

TEST_CASE(
    "a task that does not start in time is ended by its node's fault, which says what lacked") {
  AgentCore core = Launched(10'000);
  core.LookAgain(At(109));
  CHECK(core.TakeEffects().empty());
  TaskNews some;
  some.ranks = {RankExit{}, RankExit{}};
  some.ranks_started = 1;
  core.OnNews(kId, some, {}, At(109));
  core.LookAgain(At(110));
  CHECK(Count<StopRanks>(core.TakeEffects()) == 1);
  core.LookAgain(At(111));
  CHECK(Count<StopRanks>(core.TakeEffects()) == 0);  // once
  TaskNews gone = some;
  gone.ended = gone.released = true;
  core.OnNews(kId, gone, {}, At(112));
  const TaskOutcome& outcome = core.Find(kId)->record().outcome;
  CHECK(outcome.reason == ExitReason::kNodeFault);
  CHECK(outcome.message == "did not start within 10 s: 1 of its ranks run");
}

TEST_CASE("a task that started in time, or has no limit, may take any time after that") {
  AgentCore core = Launched(10'000);
  TaskNews news;
  news.started = true;
  core.OnNews(kId, news, {}, At(109));
  core.LookAgain(At(1000));
  CHECK(Count<StopRanks>(core.TakeEffects()) == 0);
  AgentCore endless = Launched(0);
  endless.LookAgain(At(1000));
  CHECK(Count<StopRanks>(endless.TakeEffects()) == 0);
}

// A core that fetches what its one task needs.
AgentCore Preparing() {
  AgentCore core(3, HeardAt(100));
  core.OnStream(1, At(100));
  REQUIRE(core.Accept(1, 3, At(100)));
  core.OnWelcome(1000, 60'000, At(100));
  (void)core.TakeEffects();
  REQUIRE(core.OnStart({.id = kId, .prepare = true}));
  const Effects effects = core.TakeEffects();
  REQUIRE(effects.size() == 2);
  CHECK(std::holds_alternative<SaveTask>(effects[0]));
  CHECK(std::holds_alternative<PrepareTask>(effects[1]));
  CHECK(core.IsLaunching(kId));
  core.OnPreparing(kId);
  CHECK_FALSE(core.IsLaunching(kId));
  return core;
}

TEST_CASE("a task with an image is launched once that is there") {
  AgentCore core = Preparing();
  CHECK(core.AllReports(At(101)).front().state == HeldState::kPreparing);
  // Another starts and ends meanwhile.
  REQUIRE(core.OnStart({.id = {8, 1, 0}}));
  core.OnLaunched({8, 1, 0}, At(100));
  (void)core.TakeEffects();
  core.OnPrepared(kId, At(102));
  CHECK(core.IsLaunching(kId));
  CHECK(Count<LaunchTask>(core.TakeEffects()) == 1);
  core.OnLaunched(kId, At(100));
  core.OnPrepared(kId, At(103));
  CHECK(Count<LaunchTask>(core.TakeEffects()) == 0);
}

TEST_CASE("an image that cannot be had ends the task, by its job's fault or by the node's") {
  AgentCore core = Preparing();
  core.OnPrepareFailed(kId, AgentCore::Fault::kJob, "no such image");
  CHECK(Count<SaveTask>(core.TakeEffects()) == 1);
  CHECK(core.Find(kId)->record().outcome.reason == ExitReason::kStartFailed);
  CHECK(core.Find(kId)->record().outcome.message == "no such image");
  core.OnPrepared(kId, At(102));
  CHECK(core.TakeEffects().empty());
  AgentCore other = Preparing();
  other.OnPrepareFailed(kId, AgentCore::Fault::kNode, "disk full");
  CHECK(other.Find(kId)->record().outcome.reason == ExitReason::kNodeFault);
}

TEST_CASE("a task that waits for its image leaves at once when it is told to") {
  const std::vector<std::pair<ExitReason, std::function<void(AgentCore&)>>> ways = {
      {ExitReason::kStopped, [](AgentCore& core) { core.OnStop(kId, true, Duration(), At(101)); }},
      {ExitReason::kStopped,
       [](AgentCore& core) { core.OnStop(kId, false, Duration::Seconds(30), At(101)); }},
      {ExitReason::kStopped,
       [](AgentCore& core) { core.OnSuspend(kId, {.deadline = 9, .until = 9}, -1); }},
      {ExitReason::kStopped, [](AgentCore& core) { core.OnStopAgent(true, At(101)); }},
      // Its agent slept for too long: the task may run elsewhere.
      {ExitReason::kCutOff, [](AgentCore& core) { core.OnPrepared(kId, At(161)); }},
  };
  for (const auto& [reason, act] : ways) {
    AgentCore core = Preparing();
    act(core);
    const Effects effects = core.TakeEffects();
    CHECK(Count<CancelPreparation>(effects) == 1);
    CHECK(Count<SaveTask>(effects) == 1);
    CHECK(Count<StopRanks>(effects) == 0);
    CHECK(Count<LaunchTask>(effects) == 0);
    CHECK(core.Find(kId)->record().outcome.reason == reason);
    core.OnPrepared(kId, At(102));
    CHECK(Count<LaunchTask>(core.TakeEffects()) == 0);
  }
}

TEST_CASE("what hangs is reported, with how its ranks ended once they have") {
  AgentCore core = Running();
  (void)core.AllReports(At(101));
  TaskNews news;
  news.started = true;
  news.stuck = "pid 812 does not die";
  news.ranks.push_back({.rank = 0});
  core.OnNews(kId, news, {}, At(102));
  auto reports = core.ChangedReports(At(102));
  REQUIRE(reports.size() == 1);
  CHECK(reports.front().stuck == news.stuck);
  CHECK_FALSE(reports.front().judged);
  CHECK(reports.front().state != HeldState::kExited);
  news.ranks_over = true;
  core.OnNews(kId, news, {}, At(103));
  reports = core.ChangedReports(At(103));
  REQUIRE(reports.size() == 1);
  CHECK(reports.front().judged);
  CHECK(reports.front().outcome.reason == ExitReason::kSucceeded);
  news.stuck.clear();
  news.ended = true;
  news.released = true;
  core.OnNews(kId, news, {}, At(104));
  reports = core.ChangedReports(At(104));
  REQUIRE(reports.size() == 1);
  CHECK(reports.front().state == HeldState::kExited);
  CHECK(reports.front().stuck.empty());
}

TEST_CASE("cut off for the isolation timeout, every task is killed, whatever waits in the socket") {
  AgentCore core = Running();
  core.CheckIsolation(At(159));
  CHECK(Count<StopRanks>(core.TakeEffects()) == 0);
  CHECK_FALSE(core.Accept(1, 3, At(161)));  // what waited while this agent was stopped
  const Effects effects = core.TakeEffects();
  CHECK(Count<DropStream>(effects) == 1);
  CHECK(core.stream() == 0);
  CHECK(Count<SaveTask>(effects) == 1);
  CHECK(Count<StopRanks>(effects) == 1);
  CHECK(Count<NoteCutOff>(effects) == 1);
}

TEST_CASE("hellos are numbered upwards, whatever the clock does") {
  AgentCore core(0, HeardAt(100));
  core.OnStream(1, At(100));
  const uint64_t first = core.hello_number();
  CHECK(Count<SaveHelloNumber>(core.TakeEffects()) == 1);
  core.OnStream(2, {At(50).wall_ns, At(101).steady_ns});  // it was set back
  CHECK(core.hello_number() > first);
  AgentCore heir(0, HeardAt(100), core.hello_number());
  heir.OnStream(1, {At(60).wall_ns, At(102).steady_ns});
  CHECK(heir.hello_number() > core.hello_number());
  AgentCore bare(0, HeardAt(100));  // its disk was replaced
  bare.OnStream(1, At(103));
  CHECK(bare.hello_number() > heir.hello_number());
}

TEST_CASE("a node that is refused for a low number goes on above the one that is named") {
  AgentCore core(0, HeardAt(100));
  core.OnStream(1, At(100));
  const auto seen = static_cast<uint64_t>(At(5000).wall_ns);  // before its disk and clock changed
  core.OnRefused(seen);
  core.OnStream(2, At(101));
  CHECK(core.hello_number() == seen + 1);
  core.OnRefused(0);  // by an older scheduler
  CHECK(core.hello_number() == seen + 1);
}

TEST_CASE("while a leader's term is not saved, its answers count and its orders do not") {
  AgentCore core = Running();
  REQUIRE(core.Accept(1, 4, At(101)));
  REQUIRE(Count<SaveTerm>(core.TakeEffects()) == 1);
  core.OnTermSaveFailed();
  REQUIRE(core.Accept(1, 4, At(102)));
  CHECK(Count<SaveTerm>(core.TakeEffects()) == 1);  // tried again
  core.OnTermSaveFailed();
  CHECK_FALSE(core.TakesOrders());
  CHECK(Count<DropStream>(core.TakeEffects()) == 1);  // there they are said again
  core.OnStream(2, At(103));
  REQUIRE(core.Accept(2, 4, At(103)));
  (void)core.TakeEffects();
  CHECK(core.TakesOrders());
  REQUIRE(core.Accept(2, 4, At(104)));
  CHECK(Count<SaveTerm>(core.TakeEffects()) == 0);
}

TEST_CASE("a signal whose note failed is not sent; a stop is") {
  AgentCore core = Running();
  core.OnSignalAsked(kId, 200);
  REQUIRE(Count<SignalRanks>(core.TakeEffects()) == 1);
  core.OnSaveFailed(kId, "disk full");
  CHECK_FALSE(core.IsSignalling(kId));
  CHECK_FALSE(core.IsSignalled(kId, 200));
  core.OnStop(kId, true, Duration(), At(101));
  core.OnSaveFailed(kId, "disk full");
  CHECK(Count<StopRanks>(core.TakeEffects()) == 1);
}

TEST_CASE("exit code 0 after the signal: left, if it was last seen to run within the notice") {
  const auto outcome = [](bool withdrawn, int64_t seen_at, int64_t judged_at) {
    AgentCore core = Running();
    const int64_t deadline = At(200).wall_ns;
    core.OnSuspend(kId, {.deadline = deadline, .until = deadline}, -1);
    core.OnSignalAsked(kId, deadline);
    core.OnSignalSent(kId, true);
    if (withdrawn) {
      core.OnWithdraw(kId, -1);
    }
    if (seen_at > 0) {
      core.OnPages(kId, {}, At(seen_at));
    }
    TaskNews news;
    news.started = news.ended = news.released = true;
    news.ranks.emplace_back();
    core.OnNews(kId, news, {}, At(judged_at));
    return core.Find(kId)->record().outcome.reason;
  };
  CHECK(outcome(false, 109, 110) == ExitReason::kSuspended);
  CHECK(outcome(false, 201, 202) == ExitReason::kSuspended);
  CHECK(outcome(true, 109, 110) == ExitReason::kSuspended);
  CHECK(outcome(true, 201, 202) == ExitReason::kSucceeded);
  // The agent was away when it ended: running once more costs less than losing the job.
  CHECK(outcome(true, 109, 500) == ExitReason::kSuspended);
  CHECK(outcome(true, 0, 500) == ExitReason::kSuspended);
}

TEST_CASE("answers of a scheduler that names no number count for the oldest beat") {
  AgentCore core = Running();
  (void)core.OnHeartbeat(At(110));
  (void)core.OnHeartbeat(At(120));
  core.OnHeartbeatAnswered(0, At(121));
  core.CheckIsolation(At(169));
  CHECK(Count<StopRanks>(core.TakeEffects()) == 0);
  core.OnHeartbeatAnswered(0, At(169));
  core.OnHeartbeatAnswered(0, At(169));  // nothing was asked
  core.CheckIsolation(At(179));
  CHECK(Count<StopRanks>(core.TakeEffects()) == 0);
  core.CheckIsolation(At(180));
  CHECK(Count<StopRanks>(core.TakeEffects()) == 1);
}

TEST_CASE("one task is looked at at a time, in turn") {
  AgentCore core = Running();
  REQUIRE(core.OnStart({.id = {8, 1, 0}}));
  core.OnLaunched({8, 1, 0}, At(100));
  core.OnStopAgent(true, At(101));
  (void)core.TakeEffects();
  for (const TaskId& next : {kId, TaskId{8, 1, 0}, kId}) {
    core.LookAgain(At(110));
    const Effects effects = core.TakeEffects();
    REQUIRE(effects.size() == 2);
    CHECK(std::get<LookAtTask>(effects[1]).id == next);
    core.OnLooked(next, next == kId ? At(105) : At(109));
  }
}

TEST_CASE("a task whose record cannot be read is ended and reported until it is gone") {
  AgentCore core(0, HeardAt(100));
  core.AdoptUnread(kId, "unreadable", At(100));
  CHECK(Count<StopRanks>(core.TakeEffects()) == 1);
  REQUIRE(core.AllReports(At(100)).size() == 1);
  CHECK(core.AllReports(At(100)).at(0).state == HeldState::kStopping);
  core.LookAgain(At(103));
  CHECK(Count<StopRanks>(core.TakeEffects()) == 1);  // did not work: again
  TaskNews news;
  news.started = news.ended = news.released = true;
  core.OnNews(kId, news, {}, At(104));
  CHECK(core.AllReports(At(104)).at(0).outcome.reason == ExitReason::kLost);
}

TEST_CASE("a new stream after an isolation is obeyed; the isolation stands") {
  AgentCore core = Running();
  core.OnLost(1);
  core.OnStream(2, At(200));
  CHECK(core.Accept(2, 3, At(201)));
  const Effects effects = core.TakeEffects();
  CHECK(Count<NoteCutOff>(effects) == 1);
  CHECK(Count<DropStream>(effects) == 0);
  core.OnWelcome(1000, 60'000, At(201));
  TaskNews news;
  news.started = news.ended = news.released = true;
  news.ranks.push_back({.rank = 0, .signal = 9});
  core.OnNews(kId, news, {}, At(202));
  CHECK(core.Find(kId)->record().outcome.reason == ExitReason::kCutOff);
}

TEST_CASE("a task of another job that had the number makes room for the new one") {
  AgentCore core = Running();
  CHECK_FALSE(core.OnStart({.id = kId, .submitted_at = 9}));  // of this one nothing was said: held
  CHECK(core.TakeEffects().empty());
  core.OnStranger(kId);
  CHECK(Count<DisownTask>(core.TakeEffects()) == 1);
  CHECK(core.tasks().empty());
  core.OnStranger(kId);
  CHECK(core.TakeEffects().empty());
  REQUIRE(core.OnStart({.id = kId, .submitted_at = 5}));
  core.OnLaunched(kId, At(100));
  CHECK(core.ChangedReports(At(101)).at(0).submitted_at == 5);
  (void)core.TakeEffects();
  CHECK_FALSE(core.OnStart({.id = kId, .submitted_at = 9}));
  CHECK(Count<DisownTask>(core.TakeEffects()) == 1);
  CHECK_FALSE(core.OnStart({.id = kId, .submitted_at = 9, .in_the_way = true}));
  CHECK(core.stream() == 1);
  core.OnStrayGone({9, 1, 0});  // another one's end makes no room here
  CHECK(Count<DropStream>(core.TakeEffects()) == 0);
  core.OnStrayGone(kId);
  CHECK(Count<DropStream>(core.TakeEffects()) == 1);  // on the next it is ordered again
  CHECK(core.OnStart({.id = kId, .submitted_at = 9}));
  core.OnStrayGone(kId);
  CHECK(Count<DropStream>(core.TakeEffects()) == 0);
}

TEST_CASE("before Welcome nothing counts as an answer, and Welcome answers the Hello") {
  AgentCore core = Running();
  core.OnLost(1);
  core.OnStream(2, At(120));
  CHECK(core.Accept(2, 3, At(150)));
  core.OnWelcome(1000, 60'000, At(150));
  (void)core.TakeEffects();
  core.CheckIsolation(At(179));
  CHECK(Count<StopRanks>(core.TakeEffects()) == 0);
  core.CheckIsolation(At(180));
  CHECK(Count<StopRanks>(core.TakeEffects()) == 1);
}

TEST_CASE("an answer is as fresh as what it answers, however long it was under way") {
  AgentCore core = Running();
  const uint64_t first = core.OnHeartbeat(At(110));
  const uint64_t second = core.OnHeartbeat(At(111));
  CHECK(core.Accept(1, 3, At(155)));
  core.OnHeartbeatAnswered(first, At(155));
  core.CheckIsolation(At(169));
  CHECK(Count<StopRanks>(core.TakeEffects()) == 0);
  core.CheckIsolation(At(170));
  CHECK(Count<StopRanks>(core.TakeEffects()) == 1);
  core.OnHeartbeatAnswered(second, At(170));
  core.OnHeartbeatAnswered(first, At(170));  // again: not known any more
  CHECK(core.tasks().size() == 1);
}

TEST_CASE("beats that nobody answers do not make later answers old") {
  AgentCore core = Running();
  for (int64_t second = 101; second < 150; ++second) {
    (void)core.OnHeartbeat(At(second));
  }
  core.OnHeartbeatAnswered(core.OnHeartbeat(At(150)), At(150));
  core.CheckIsolation(At(209));
  CHECK(Count<StopRanks>(core.TakeEffects()) == 0);
}

TEST_CASE("a scheduler that does not answer is left for another") {
  AgentCore core = Running();
  for (int64_t second = 101; second <= 105; ++second) {
    core.OnHeartbeatAnswered(core.OnHeartbeat(At(second)), At(second));
  }
  core.CheckContact(At(140));  // nothing was asked
  CHECK(core.stream() == 1);
  (void)core.OnHeartbeat(At(140));
  (void)core.OnHeartbeat(At(141));
  core.CheckContact(At(150));
  CHECK(core.stream() == 1);
  core.CheckContact(At(151));
  CHECK(core.stream() == 0);
  CHECK(Count<DropStream>(core.TakeEffects()) == 1);
  core.CheckContact(At(152));
  CHECK(Count<DropStream>(core.TakeEffects()) == 0);

  core.OnStream(2, At(152));  // the Hello waits for a commit
  core.CheckContact(At(172));
  CHECK(core.stream() == 2);
  core.CheckContact(At(173));
  CHECK(core.stream() == 0);
}

TEST_CASE("slow beats give a scheduler more time to answer") {
  AgentCore core = Running();
  core.OnWelcome(20'000, 600'000, At(100));
  (void)core.OnHeartbeat(At(101));
  core.CheckContact(At(300));
  CHECK(core.stream() == 1);
  core.CheckContact(At(302));
  CHECK(core.stream() == 0);
}

TEST_CASE("the lease is saved with Welcome, before any order is carried out") {
  AgentCore core(0, HeardAt(100));
  core.OnStream(1, At(130));
  REQUIRE(core.Accept(1, 1, At(130)));
  core.OnWelcome(1000, 45'000, At(131));
  REQUIRE(core.OnStart({.id = kId}));
  const Effects effects = core.TakeEffects();
  REQUIRE(effects.size() >= 3);
  const auto* saved = std::get_if<SaveContact>(&effects[effects.size() - 3]);
  REQUIRE(saved != nullptr);  // then SaveTask, LaunchTask
  CHECK(saved->contact.isolation_ms == 45'000);
  CHECK(saved->contact.heard_ns == At(130).steady_ns);
}

TEST_CASE("a stop of a task that is not here is answered: it never ran") {
  AgentCore core(0, HeardAt(100));
  core.OnStop(kId, false, Duration::Seconds(10), At(100));
  CHECK(core.TakeEffects().empty());
  const auto reports = core.ChangedReports(At(100));
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].outcome.reason == ExitReason::kStopped);
  CHECK_FALSE(core.OnStart({.id = kId}));  // a start that comes late is not obeyed
}

TEST_CASE("only what has ended is forgotten") {
  AgentCore core = Running();
  core.OnForget(kId, At(100));
  CHECK(core.TakeEffects().empty());
  TaskNews news;
  news.ended = true;
  news.lost = true;
  news.released = true;
  core.OnNews(kId, news, {}, At(101));
  (void)core.TakeEffects();
  core.LookAgain(At(103));
  CHECK(core.TakeEffects().empty());
  core.OnForget(kId, At(103));
  CHECK(Count<ClearTask>(core.TakeEffects()) == 1);
  core.OnCleared(kId, false);
  CHECK(core.Find(kId) != nullptr);
  core.LookAgain(At(103));
  CHECK(core.TakeEffects().empty());
  core.LookAgain(At(104));  // not said again by the scheduler
  CHECK(Count<ClearTask>(core.TakeEffects()) == 1);
  core.OnCleared(kId, true);
  CHECK(core.Find(kId) == nullptr);
}

TEST_CASE("taking up: what was noted and not started is dropped, an end is kept") {
  AgentCore core(0, HeardAt(100));
  TaskRecord record;
  record.id = kId;
  CHECK_FALSE(core.Adopt(record, false, {}));
  CHECK(core.Adopt(record, true, {}));
  record.id.task = 1;
  record.exited = true;
  CHECK(core.Adopt(record, false, {}));
  CHECK(core.AllReports(At(100)).size() == 2);
}

TEST_CASE("an agent that ends takes no task, and kills those it has if asked to") {
  AgentCore core = Running();
  core.OnStopAgent(true, At(101));
  CHECK(Count<StopRanks>(core.TakeEffects()) == 1);
  CHECK_FALSE(core.OnStart({.id = {8, 1, 0}}));
  CHECK_FALSE(core.AllGone());
}

}  // namespace
}  // namespace tide::agent
