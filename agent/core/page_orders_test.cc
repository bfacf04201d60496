#include "agent/core/page_orders.h"

#include <array>
#include <catch2/catch.hpp>

#include "agent/core/testing/rank_model.h"

namespace tide::agent {
namespace {

// Two pages, and ranks that stand still.
struct TwoPages {
  std::array<ModelPage, 2> pages;
  std::array<uint32_t, 2> acked = {};
  PageOrders orders;

  TwoPages() {
    for (ModelPage& page : pages) {
      page.phase = static_cast<uint32_t>(RankPhase::kTraining);
      page.step = 10;
    }
  }
  void Do(const PageStores& stores) {
    for (ModelPage& page : pages) {
      for (const PageStore& store : stores) {
        page.Do(store);
      }
    }
  }
  [[nodiscard]] std::vector<RankView> Views() const {
    std::vector<RankView> views;
    for (const ModelPage& page : pages) {
      views.push_back({.step = page.step,
                       .phase = static_cast<RankPhase>(page.phase),
                       .acked = page.seq == acked[views.size()]});
    }
    return views;
  }
  AgreeReply Hold(const AgreeRound& round) {
    auto stores = orders.Begin(round, 0, 0);
    while (stores) {
      Do(*stores);
      stores = orders.Look(Views(), 0);
    }
    return orders.reply();
  }
  [[nodiscard]] PageState state(size_t page) const {
    return static_cast<PageState>(pages[page].state);
  }
};

}  // namespace

TEST_CASE("a commit to pages that were released stands where every rank is still below") {
  TwoPages task;
  (void)task.Hold({AgreeVerb::kArm, 20});
  CHECK(task.orders.OnTime({}, 5, 5).empty());
  task.Do(task.orders.OnTime({}, 6, 5));
  CHECK(task.state(0) == PageState::kIdle);
  const uint32_t seq = task.pages[1].seq;

  SECTION("below") {
    CHECK(task.Hold({AgreeVerb::kCommit, 20}).committed_step == 20);
    CHECK(task.state(1) == PageState::kCommitted);
    CHECK(task.pages[1].at_step == 20);
    CHECK(task.pages[1].seq == seq + 1);  // a rank that refused it knows that it is armed anew
  }
  SECTION("a rank was let go at that step") {
    task.pages[1].step = 20;
    const AgreeReply reply = task.Hold({AgreeVerb::kCommit, 20});
    CHECK(reply.answered);
    CHECK(reply.committed_step == -1);
    CHECK(task.orders.committed_step() == -1);
    CHECK(task.state(0) == PageState::kIdle);
    CHECK(task.state(1) == PageState::kIdle);
  }
}

TEST_CASE("a commit of another step than the armed one is looked at like a late one") {
  TwoPages task;
  (void)task.Hold({AgreeVerb::kArm, 30});
  CHECK(task.Hold({AgreeVerb::kCommit, 10}).committed_step == -1);
  CHECK(task.Hold({AgreeVerb::kCommit, 11}).committed_step == 11);
  CHECK(task.Hold({AgreeVerb::kCommit, 40}).committed_step == 11);
  CHECK(task.pages[0].at_step == 11);
}

TEST_CASE("what an agent that was killed had half done is done again") {
  using Found = PageOrders::Found;
  TwoPages task;
  SECTION("a commit: it had been decided") {
    const std::array<Found, 2> found = {{{PageState::kArmed, 20}, {PageState::kCommitted, 20}}};
    task.orders.Adopt(found, 7);
    CHECK(task.orders.committed_step() == 20);
    CHECK(task.Hold({AgreeVerb::kCommit, 20}).committed_step == 20);
    CHECK(task.state(0) == PageState::kCommitted);
  }
  SECTION("an arming: nobody has counted on it") {
    const std::array<Found, 2> found = {{{PageState::kArmed, 10}, {PageState::kIdle, -1}}};
    task.orders.Adopt(found, 7);
    CHECK(task.orders.state() == PageState::kArmed);
    CHECK(task.Hold({AgreeVerb::kCommit, 10}).committed_step == -1);
  }
  SECTION("an arming that was whole") {
    const std::array<Found, 2> found = {{{PageState::kArmed, 10}, {PageState::kArmed, 10}}};
    task.orders.Adopt(found, 7);
    CHECK(task.orders.OnTime({}, 12, 5).empty());
    CHECK(task.Hold({AgreeVerb::kCommit, 10}).committed_step == 10);
  }
}

TEST_CASE("a save stays on the pages until every rank has acknowledged it") {
  TwoPages task;
  const AgreeReply armed = task.Hold({AgreeVerb::kArm, 20, {}, 0, AgreeOrder::kSave});
  CHECK(armed.order == AgreeOrder::kSave);
  CHECK(armed.all_below);
  CHECK_FALSE(armed.busy);
  CHECK(task.pages[0].order == 1);
  CHECK(task.Hold({AgreeVerb::kCommit, 20, {}, 0, AgreeOrder::kSave}).committed_step == -1);
  CHECK(task.state(1) == PageState::kCommitted);
  CHECK(task.orders.committed_step() == -1);  // nobody leaves

  task.acked[0] = task.pages[0].seq;
  CHECK(task.orders.OnTime(task.Views(), 1'000'000'000'000, 5).empty() == false);  // the bound
  TwoPages other;
  (void)other.Hold({AgreeVerb::kArm, 20, {}, 0, AgreeOrder::kSave});
  (void)other.Hold({AgreeVerb::kCommit, 20, {}, 0, AgreeOrder::kSave});
  other.acked[0] = other.pages[0].seq;
  CHECK(other.orders.OnTime(other.Views(), 9, 5).empty());
  CHECK(other.Hold({AgreeVerb::kProbe, -1, {}, 0, AgreeOrder::kSave}).busy);
  other.acked[1] = other.pages[1].seq;
  other.Do(other.orders.OnTime(other.Views(), 9, 5));
  CHECK(other.state(0) == PageState::kIdle);
  CHECK(other.pages[1].order == 0);
  CHECK_FALSE(other.Hold({AgreeVerb::kProbe, -1, {}, 0, AgreeOrder::kSave}).busy);
}

TEST_CASE("a suspension goes before a save, whatever has become of that") {
  TwoPages task;
  (void)task.Hold({AgreeVerb::kArm, 20, {}, 0, AgreeOrder::kSave});
  const bool committed = GENERATE(false, true);
  if (committed) {
    (void)task.Hold({AgreeVerb::kCommit, 20, {}, 0, AgreeOrder::kSave});
  }
  CHECK(task.Hold({AgreeVerb::kProbe, -1}).committed_step == -1);
  CHECK(task.Hold({AgreeVerb::kArm, 25}).all_below);
  CHECK(task.pages[0].order == 2);
  CHECK(task.pages[0].at_step == 25);
  CHECK(task.state(0) == PageState::kArmed);

  // The save's words that are still on their way change nothing.
  CHECK(task.Hold({AgreeVerb::kArm, 22, {}, 0, AgreeOrder::kSave}).busy);
  (void)task.Hold({AgreeVerb::kCommit, 20, {}, 0, AgreeOrder::kSave});
  (void)task.Hold({AgreeVerb::kDisarm, -1, {}, 0, AgreeOrder::kSave});
  CHECK(task.pages[0].at_step == 25);
  CHECK(task.state(0) == PageState::kArmed);
  CHECK(task.Hold({AgreeVerb::kCommit, 25}).committed_step == 25);
}

TEST_CASE("a suspension's commit that finds a save arms anew; its withdrawal leaves a save alone") {
  TwoPages task;
  (void)task.Hold({AgreeVerb::kArm, 20, {}, 0, AgreeOrder::kSave});
  (void)task.Hold({AgreeVerb::kDisarm, -1});
  CHECK(task.pages[0].order == 1);
  CHECK(task.Hold({AgreeVerb::kCommit, 20}).committed_step == 20);
  CHECK(task.pages[0].order == 2);
}

TEST_CASE("a save that comes too late for its arming is left out") {
  TwoPages task;
  (void)task.Hold({AgreeVerb::kArm, 20, {}, 0, AgreeOrder::kSave});
  task.Do(task.orders.OnTime(task.Views(), 6, 5));
  (void)task.Hold({AgreeVerb::kCommit, 20, {}, 0, AgreeOrder::kSave});
  CHECK(task.state(0) == PageState::kIdle);
}

}  // namespace tide::agent
