#include "agent/core/gang_lease.h"

#include <catch2/catch.hpp>

#include "agent/core/agent_core.h"

namespace tide::agent {
namespace {

constexpr TaskId kId{7, 2, 1};
constexpr int64_t kSecond = 1'000'000'000;

AgentTime At(int64_t seconds) {
  return {seconds * kSecond, seconds * kSecond};
}

Contact HeardAt(int64_t seconds) {
  return {.heard_ns = seconds * kSecond, .isolation_ms = 600'000};
}

template <typename Kind>
std::vector<Kind> All(const Effects& effects) {
  std::vector<Kind> found;
  for (const Effect& each : effects) {
    if (const auto* one = std::get_if<Kind>(&each)) {
      found.push_back(*one);
    }
  }
  return found;
}

TEST_CASE("a lease ends by the rule") {
  struct Row {
    int64_t witness_s;
    int64_t witnessed_s;
    int64_t ends_s;
  };
  // Heard at 100 s, for 600 s.
  constexpr Row kRows[] = {
      {0, 0, 700},      // alone, or of before: no witness counts
      {0, 650, 700},    //
      {60, 0, 160},     // no witness yet
      {60, 90, 160},    // one of before
      {60, 130, 190},   //
      {60, 639, 699},   //
      {60, 641, 700},   // no witness helps for longer
      {900, 0, 700},    // longer than the isolation timeout: means nothing
      {900, 650, 700},  //
  };
  for (const Row& row : kRows) {
    Contact contact = HeardAt(100);
    contact.witness_ms = row.witness_s * 1000;
    contact.witnessed_ns = row.witnessed_s * kSecond;
    INFO(row.witness_s << " " << row.witnessed_s);
    CHECK(contact.ExpiresNs() == row.ends_s * kSecond);
    CHECK_FALSE(contact.IsCutOff(row.ends_s * kSecond - 1));
    CHECK(contact.IsCutOff(row.ends_s * kSecond));
  }
}

TEST_CASE("peers are asked in turn, few at a time, and only when it matters") {
  GangLease gang(4, 1, 60'000);
  CHECK_FALSE(gang.Ask(HeardAt(100), 119 * kSecond));  // the scheduler may answer yet
  std::vector<uint32_t> asked;
  for (int64_t second = 120; second < 130; ++second) {
    if (const auto question = gang.Ask(HeardAt(100), second * kSecond)) {
      asked.push_back(question->peer);
      CHECK(question->wait_ms == 3000);
    }
  }
  // Each for three seconds, one a call: never more than three under way.
  CHECK(asked == std::vector<uint32_t>{2, 3, 0, 2, 3, 0, 2, 3, 0, 2});
  CHECK_FALSE(GangLease(4, 1, 0).Ask(HeardAt(100), 500 * kSecond));
  CHECK_FALSE(GangLease(1, 0, 60'000).Ask(HeardAt(100), 150 * kSecond));
}

TEST_CASE("no more than three questions are under way") {
  GangLease gang(9, 0, 60'000);
  size_t asked = 0;
  for (int call = 0; call < 10; ++call) {
    asked += gang.Ask(HeardAt(100), 130 * kSecond + call) ? 1 : 0;
  }
  CHECK(asked == GangLease::kInFlightMax);
}

TEST_CASE("a witness counts from when it was asked; who answered is asked again") {
  GangLease gang(4, 1, 60'000);
  const auto first = gang.Ask(HeardAt(100), 120 * kSecond);
  const auto second = gang.Ask(HeardAt(100), 121 * kSecond);
  REQUIRE((first && second));
  gang.OnAnswer(first->number, false);
  CHECK(gang.witnessed_ns() == 0);
  gang.OnAnswer(second->number, true);
  CHECK(gang.witnessed_ns() == 121 * kSecond);
  gang.OnAnswer(second->number, true);  // again
  gang.OnAnswer(99, true);
  CHECK(gang.witnessed_ns() == 121 * kSecond);
  CHECK_FALSE(gang.Ask(HeardAt(100), 130 * kSecond));  // it is fresh
  const auto third = gang.Ask(HeardAt(100), 131 * kSecond);
  REQUIRE(third);
  CHECK(third->peer == second->peer);
  CHECK_FALSE(gang.Ask(HeardAt(130), 132 * kSecond));  // the scheduler answers
  CHECK(gang.Ask(HeardAt(100), 140 * kSecond));        // the third is not waited for any more
  gang.OnAnswer(third->number, true);                  // and not believed
  CHECK(gang.witnessed_ns() == 121 * kSecond);
}

// A core with one task of a gang of three that runs, connected to a leader of term 3.
AgentCore Running(int64_t witness_ms = 60'000) {
  AgentCore core(3, HeardAt(100));
  core.OnStream(1, At(100));
  REQUIRE(core.Accept(1, 3, At(100)));
  core.OnWelcome(1000, 600'000, At(100), witness_ms);
  REQUIRE(core.OnStart({.id = kId, .submitted_at = 5, .tasks = 3}));
  core.OnLaunched(kId, At(100));
  return core;
}

bool IsCutOff(AgentCore& core, int64_t second) {
  core.CheckIsolation(At(second));
  return !All<NoteCutOff>(core.TakeEffects()).empty();
}

TEST_CASE("the lease of a gang's task is saved before it is launched") {
  AgentCore core = Running();
  const Effects effects = core.TakeEffects();
  REQUIRE(effects.size() >= 3);
  CHECK(std::holds_alternative<LaunchTask>(effects.back()));
  const auto* saved = std::get_if<SaveTaskContact>(&effects[effects.size() - 2]);
  REQUIRE(saved != nullptr);
  CHECK(saved->contact.witness_ms == 60'000);
  CHECK(saved->contact.heard_ns == At(100).steady_ns);
  CHECK(All<SaveContact>(effects).back().contact.witness_ms == 0);  // of tasks that are alone
}

TEST_CASE("what has no lease of its own is not launched") {
  AgentCore core(3, HeardAt(100));
  REQUIRE(core.OnStart({.id = kId, .tasks = 3}));
  core.OnSaveFailed(kId, "tmpfs full");
  CHECK_FALSE(core.IsLaunching(kId));
  CHECK(core.Find(kId)->record().outcome.reason == ExitReason::kNodeFault);
}

TEST_CASE("cut off from everybody, a gang's task ends early and one that is alone does not") {
  AgentCore core = Running();
  REQUIRE(core.OnStart({.id = {8, 1, 0}}));
  core.OnLaunched({8, 1, 0}, At(100));
  CHECK_FALSE(IsCutOff(core, 159));
  core.CheckIsolation(At(160));
  const auto cut = All<NoteCutOff>(core.TakeEffects());
  REQUIRE(cut.size() == 1);
  CHECK(cut[0].id == kId);
  CHECK_FALSE(IsCutOff(core, 699));
  CHECK(IsCutOff(core, 700));
}

TEST_CASE("while the scheduler is away, a gang goes on for the isolation timeout") {
  AgentCore core = Running();
  (void)core.TakeEffects();
  for (int64_t second = 101; second < 700; ++second) {
    core.CheckIsolation(At(second));
    const Effects effects = core.TakeEffects();
    INFO(second);
    REQUIRE(All<NoteCutOff>(effects).empty());
    for (const AskWitness& question : All<AskWitness>(effects)) {
      CHECK(question.peer != kId.task);
      core.OnWitness(kId, question.number, true, At(second));
    }
  }
  CHECK(IsCutOff(core, 700));
}

TEST_CASE("a quick no hurries nobody: the next peer is asked with the next heartbeat") {
  AgentCore core = Running();
  (void)core.TakeEffects();
  for (int64_t second = 130; second < 135; ++second) {
    core.CheckIsolation(At(second));
    const auto asked = All<AskWitness>(core.TakeEffects());
    REQUIRE(asked.size() == 1);
    core.OnWitness(kId, asked[0].number, false, At(second));
    CHECK(All<AskWitness>(core.TakeEffects()).empty());
  }
}

TEST_CASE("a supervisor reads each witness that is a second younger") {
  AgentCore core = Running();
  (void)core.TakeEffects();
  core.CheckIsolation(At(130));
  const auto question = All<AskWitness>(core.TakeEffects());
  REQUIRE(question.size() == 1);
  core.OnWitness(kId, question[0].number, true, At(132));
  const auto saved = All<SaveTaskContact>(core.TakeEffects());
  REQUIRE(saved.size() == 1);
  CHECK(saved[0].contact.witnessed_ns == At(130).steady_ns);
  CHECK(saved[0].contact.heard_ns == At(100).steady_ns);
}

TEST_CASE("an agent that restarts goes on with the witness of before, not with a whole timeout") {
  Contact saved = HeardAt(100);
  saved.witness_ms = 60'000;
  saved.witnessed_ns = At(200).steady_ns;
  AgentCore core(3, HeardAt(100));
  TaskRecord record;
  record.id = kId;
  REQUIRE(core.Adopt(record, true, {}));
  core.AdoptGang(kId, 3, saved);
  CHECK_FALSE(IsCutOff(core, 259));
  CHECK(IsCutOff(core, 260));
}

TEST_CASE("a gang's task that is told to stop keeps its lease while it does, and asks nobody") {
  AgentCore core = Running();
  core.OnStop(kId, false, Duration::Seconds(300), At(110));
  (void)core.TakeEffects();
  const uint64_t beat = core.OnHeartbeat(At(120));
  core.OnHeartbeatAnswered(beat, At(120));
  const auto saved = All<SaveTaskContact>(core.TakeEffects());
  REQUIRE(saved.size() == 1);
  CHECK(saved[0].contact.heard_ns == At(120).steady_ns);
  core.CheckIsolation(At(150));
  CHECK(All<AskWitness>(core.TakeEffects()).empty());
  // What the next Hello says of it is what its supervisor reads.
  core.OnStream(2, At(151));
  REQUIRE(core.Accept(2, 3, At(151)));
  core.OnWelcome(1000, 600'000, At(151), 30'000);
  CHECK(All<SaveTaskContact>(core.TakeEffects()).back().contact.witness_ms == 30'000);
}

TEST_CASE("an order to a gang that waited for longer than a lease without witness is not obeyed") {
  AgentCore core = Running();
  (void)core.TakeEffects();
  CHECK_FALSE(core.Accept(1, 3, At(160)));
  CHECK(All<DropStream>(core.TakeEffects()).size() == 1);
}

TEST_CASE("an agent is a witness for what is alive, of that job, while its own lease lasts") {
  AgentCore core = Running();
  const auto says = [&](int64_t submitted_at, int64_t second) {
    const auto all = core.Testimonies();
    const auto it = all.find(kId);
    return it != all.end() && it->second.IsAlive(submitted_at, At(second).steady_ns);
  };
  CHECK(says(5, 159));
  CHECK(says(0, 159));
  CHECK_FALSE(says(6, 159));
  CHECK_FALSE(says(5, 160));
  SECTION("not when it was told to stop") {
    core.OnStop(kId, false, Duration::Seconds(9), At(101));
  }
  SECTION("not when it is gone") {
    TaskNews news;
    news.started = news.ended = news.released = true;
    core.OnNews(kId, news, {}, At(101));
  }
  SECTION("not of what never was") {
    core = AgentCore(3, HeardAt(100));
  }
  CHECK_FALSE(says(5, 102));
}

TEST_CASE("a Hello says what every gang's task here keeps to") {
  AgentCore core(3, HeardAt(100));
  core.OnStream(1, At(100));
  CHECK(core.hello_witness_ms() == 0);  // none is here
  TaskRecord record;
  record.id = kId;
  REQUIRE(core.Adopt(record, true, {}));
  SECTION("one of an agent that knew no witnesses") {
    core.AdoptGang(kId, 3, std::nullopt);
    core.OnStream(2, At(101));
    CHECK_FALSE(core.hello_witness_ms());
    REQUIRE(core.Accept(2, 3, At(101)));
    core.OnWelcome(1000, 600'000, At(101), 60'000);
    core.LookAgain(At(102));
    CHECK(All<DropStream>(core.TakeEffects()).empty());
    CHECK_FALSE(IsCutOff(core, 690));
    core.OnStop(kId, true, Duration(), At(690));
    TaskNews news;
    news.started = news.ended = news.released = true;
    core.OnNews(kId, news, {}, At(691));
    core.LookAgain(At(692));
    CHECK(All<DropStream>(core.TakeEffects()).size() == 1);  // to say so in another Hello
    core.OnStream(3, At(693));
    CHECK(core.hello_witness_ms() == 0);
  }
  SECTION("one of an agent like this") {
    Contact saved = HeardAt(100);
    saved.witness_ms = 90'000;
    core.AdoptGang(kId, 3, saved);
    core.OnStream(2, At(101));
    CHECK(core.hello_witness_ms() == 90'000);
    REQUIRE(core.Accept(2, 3, At(101)));
    core.OnWelcome(1000, 600'000, At(101), 60'000);
    CHECK(All<SaveTaskContact>(core.TakeEffects()).back().contact.witness_ms == 60'000);
    core.OnStream(3, At(102));
    CHECK(core.hello_witness_ms() == 60'000);
  }
  SECTION("one that was started when no witnesses were asked for") {
    core.AdoptGang(kId, 3, HeardAt(100));
    core.OnStream(2, At(101));
    CHECK_FALSE(core.hello_witness_ms());
    REQUIRE(core.Accept(2, 3, At(101)));
    core.OnWelcome(1000, 600'000, At(101), 60'000);
    core.LookAgain(At(102));
    CHECK(All<DropStream>(core.TakeEffects()).size() == 1);  // its supervisor is told: say so
    core.OnStream(3, At(103));
    CHECK(core.hello_witness_ms() == 60'000);
  }
}

TEST_CASE("a Hello says for how long what is here goes on without the scheduler") {
  AgentCore core(3, HeardAt(100));
  core.OnStream(1, At(100));
  CHECK(core.hello_isolation_ms() == 0);  // nothing is here
  core = Running();
  core.OnStream(2, At(110));
  CHECK(core.hello_isolation_ms() == 600'000);
  REQUIRE(core.Accept(2, 3, At(110)));
  core.OnWelcome(1000, 120'000, At(110), 60'000);
  CHECK(core.hello_isolation_ms() == 600'000);  // what this stream's Hello has said
  core.OnStream(3, At(111));
  CHECK(core.hello_isolation_ms() == 120'000);
}

TEST_CASE("a scheduler that asks for no witnesses gives the whole timeout back") {
  AgentCore core = Running();
  core.OnStream(2, At(110));
  REQUIRE(core.Accept(2, 3, At(110)));
  core.OnWelcome(1000, 600'000, At(110), 0);
  CHECK_FALSE(IsCutOff(core, 709));
  CHECK(IsCutOff(core, 710));
}

}  // namespace
}  // namespace tide::agent
