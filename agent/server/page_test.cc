#include "agent/server/page.h"

#include "agent/server/testing/agent_testing.h"

namespace tide::agent {
namespace {

std::unique_ptr<TaskPages> OpenPages(const TestDir& dir, uint32_t ranks) {
  auto pages = TaskPages::Open(dir.File("run"), ranks, ::geteuid(), ::getegid());
  REQUIRE(pages);
  return *std::move(pages);
}

TEST_CASE("a fresh page says that nothing is known yet") {
  const TestDir dir;
  const auto pages = OpenPages(dir, 2);
  RankPage rank(dir.File("run/page-1"));
  CHECK(rank.state() == 0);
  CHECK(rank.at_step() == INT64_MAX);
  const RankView view = pages->Read(1);
  CHECK(view.step == -1);
  CHECK(view.saved_step == -1);
  CHECK(view.total_steps == -1);
  CHECK(view.ticked_ns == 0);
  rank.SetTicked(77);
  CHECK(pages->Read(1).ticked_ns == 77);
  CHECK(view.phase == RankPhase::kUnattached);
  CHECK_FALSE(pages->AnyAttached());
  CHECK(pages->committed_step() == -1);
}

TEST_CASE("numbers that nobody can have reached are cut down") {
  const TestDir dir;
  auto pages = TaskPages::Open(dir.File("t"), 1, ::geteuid(), ::getegid());
  REQUIRE(pages);
  RankPage rank(dir.File("t/page-0"));
  rank.SetStep(INT64_MAX);
  rank.SetSaved(INT64_MIN);
  rank.SetStepNanos(INT64_MAX);
  const RankView view = (*pages)->Read(0);
  CHECK(view.step == int64_t{1} << 53U);
  CHECK(view.saved_step == -1);
  CHECK(view.step_ns == int64_t{1} << 53U);
  rank.SetFailedSaves(3, UINT32_MAX);
  CHECK((*pages)->Read(0).failed_saves == 3);
  CHECK((*pages)->Read(0).save_errno == 4095);
  rank.SetStepNanos(-5);
  CHECK((*pages)->Read(0).step_ns == 0);
}

// The thread sanitizer holds a lock of its own where the signal strikes, which the handler's
// atomics would wait for.
#ifndef TIDE_THREAD_SANITIZED
TEST_CASE("a page that is cut short ends the page, not the agent") {
  const TestDir dir;
  const auto pages = OpenPages(dir, 2);
  {
    RankPage rank(dir.File("run/page-1"));
    rank.SetPhase(RankPhase::kAcknowledged);
    rank.SetSaved(40);
    CHECK(pages->Read(1).saved_step == 40);
    CHECK_FALSE(pages->FindCut());
  }
  REQUIRE(::truncate(dir.File("run/page-1").c_str(), 0) == 0);
  SECTION("seen by a read") {
    CHECK(pages->Read(1).phase == RankPhase::kUnattached);
    CHECK(pages->Read(1).saved_step == -1);
  }
  SECTION("seen by a write") {
    (void)pages->Hold({AgreeVerb::kCommit, 50}, 0);
  }
  CHECK(pages->FindCut() == 1);
  CHECK(pages->Read(0).step == -1);
  CHECK(std::filesystem::file_size(dir.File("run/page-1")) == 0);

  // Its place in the table is free again, for a page that is whole.
  const TestDir other;
  for (int i = 0; i < 5000; ++i) {
    CHECK_FALSE(OpenPages(other, 1)->FindCut());
  }
}
#endif

TEST_CASE("arming, re-arming, committing and disarming") {
  const TestDir dir;
  const auto pages = OpenPages(dir, 2);
  RankPage first(dir.File("run/page-0"));
  RankPage second(dir.File("run/page-1"));
  first.SetPhase(RankPhase::kTraining);
  first.SetStep(10);

  const AgreeReply probe = pages->Hold({AgreeVerb::kProbe, -1}, 0);
  CHECK(probe.answered);
  CHECK(probe.any_attached);
  CHECK_FALSE(probe.all_attached);
  CHECK(probe.min_step == -1);
  CHECK(probe.max_step == 10);

  second.SetPhase(RankPhase::kTraining);
  second.SetStep(12);
  const AgreeReply late = pages->Hold({AgreeVerb::kArm, 12}, 99);
  CHECK_FALSE(late.all_below);
  CHECK(first.order() == 2);
  CHECK(first.state() == 1);
  const uint32_t seq = first.seq();
  const AgreeReply armed = pages->Hold({AgreeVerb::kArm, 15}, 99);
  CHECK(armed.all_below);
  CHECK(armed.all_attached);
  CHECK(first.seq() == seq + 1);  // restarts the rank's patience
  CHECK(second.at_step() == 15);
  CHECK(second.deadline() == 99);
  CHECK(pages->armed_or_committed());

  (void)pages->Hold({AgreeVerb::kDisarm, -1}, 0);
  CHECK(first.state() == 0);
  CHECK(first.order() == 0);
  CHECK_FALSE(pages->armed_or_committed());

  (void)pages->Hold({AgreeVerb::kArm, 20}, 99);
  CHECK(pages->Hold({AgreeVerb::kCommit, 20}, 99).committed_step == 20);
  CHECK(first.state() == 2);
  (void)pages->Hold({AgreeVerb::kDisarm, -1}, 0);  // too late
  (void)pages->Hold({AgreeVerb::kArm, 30}, 99);
  pages->Tidy(-1);
  CHECK(first.state() == 2);
  CHECK(second.at_step() == 20);
  CHECK(pages->committed_step() == 20);
}

TEST_CASE("a round that comes late is refused by its number") {
  const TestDir dir;
  const auto pages = OpenPages(dir, 1);
  RankPage rank(dir.File("run/page-0"));
  rank.SetPhase(RankPhase::kTraining);
  CHECK(pages->Hold({AgreeVerb::kArm, 12, {}, 7}, 99).newest_round == 7);
  CHECK(pages->Hold({AgreeVerb::kProbe, -1, {}, 9}, 99).answered);
  for (const AgreeVerb verb : {AgreeVerb::kCommit, AgreeVerb::kArm, AgreeVerb::kDisarm}) {
    const AgreeReply reply = pages->Hold({verb, 20, {}, 8}, 99);
    CHECK_FALSE(reply.answered);
    CHECK(reply.newest_round == 9);
    CHECK(rank.state() == 1);
    CHECK(rank.at_step() == 12);
  }
  CHECK(pages->committed_step() == -1);
  CHECK(pages->Hold({AgreeVerb::kArm, 13, {}, 9}, 99).answered);  // the same round twice
}

TEST_CASE("an arming without a coordinator is taken back") {
  const TestDir dir;
  const auto pages = OpenPages(dir, 1);
  RankPage rank(dir.File("run/page-0"));
  (void)pages->Hold({AgreeVerb::kArm, 5}, 0);
  pages->Tidy(3'600'000'000'000);
  CHECK(rank.state() == 1);
  pages->Tidy(-1);
  CHECK(rank.state() == 0);
  CHECK(rank.at_step() == INT64_MAX);
}

TEST_CASE("the next agent finds the pages as they are") {
  const TestDir dir;
  (void)OpenPages(dir, 2)->Hold({AgreeVerb::kCommit, 33}, 0);
  RankPage rank(dir.File("run/page-0"));
  rank.SetStep(31);
  rank.SetSaved(30);
  const auto again = OpenPages(dir, 2);
  CHECK(again->committed_step() == 33);
  CHECK(again->armed_or_committed());
  CHECK(again->Read(0).step == 31);
  CHECK(again->Read(0).saved_step == 30);
  CHECK(again->Hold({AgreeVerb::kProbe, -1}, 0).committed_step == 33);
  (void)again->Hold({AgreeVerb::kDisarm, -1}, 0);
  CHECK(rank.state() == 2);
}

TEST_CASE("an armed page that is adopted is disarmed when its coordinator stays away") {
  const TestDir dir;
  (void)OpenPages(dir, 1)->Hold({AgreeVerb::kArm, 33}, 0);
  RankPage rank(dir.File("run/page-0"));
  const auto again = OpenPages(dir, 1);
  CHECK(again->armed_or_committed());
  CHECK(again->committed_step() == -1);
  again->Tidy(-1);
  CHECK(rank.state() == 0);
}

TEST_CASE("a page that was left half made is made again") {
  const TestDir dir;
  REQUIRE(MakeDirs(dir.File("run")));
  REQUIRE(WriteFileDurably(dir.File("run/page-0"), std::string(4096, '\0')));
  REQUIRE(WriteFileDurably(dir.File("run/page-1"), "short"));
  const auto pages = OpenPages(dir, 2);
  CHECK(pages->Read(0).step == -1);
  CHECK(pages->Read(1).step == -1);
}

TEST_CASE("a page that is a link is not followed") {
  const TestDir dir;
  REQUIRE(MakeDirs(dir.File("run")));
  REQUIRE(WriteFileDurably(dir.File("precious"), "data"));
  REQUIRE(::symlink(dir.File("precious").c_str(), dir.File("run/page-0").c_str()) == 0);
  CHECK_FALSE(TaskPages::Open(dir.File("run"), 1, ::geteuid(), ::getegid()));
  CHECK(ReadFile(dir.File("precious")).value_or("") == "data");
}

TEST_CASE("no rank passes an armed step unseen") {
  const TestDir dir;
  const auto pages = OpenPages(dir, 1);
  std::atomic<bool> ready = false;
  std::atomic<int64_t> stopped = -1;
  RankPage page(dir.File("run/page-0"));
  std::thread rank([&] {
    page.SetPhase(RankPhase::kTraining);
    int64_t step = 0;
    while (!page.Tick(step)) {
      ++step;
      ready = true;
    }
    stopped = step;
  });
  REQUIRE(Eventually([&] { return ready.load(); }));
  int64_t at_step = 0;
  AgreeReply reply;
  int64_t margin = 1;
  do {
    at_step = pages->Hold({AgreeVerb::kProbe, -1}, 0).max_step + margin;
    margin *= 2;
    reply = pages->Hold({AgreeVerb::kArm, at_step}, 0);
  } while (!reply.all_below);
  (void)pages->Hold({AgreeVerb::kCommit, at_step}, 0);
  rank.join();
  CHECK(stopped == at_step);
}

}  // namespace
}  // namespace tide::agent
