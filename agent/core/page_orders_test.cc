#include "agent/core/page_orders.h"

#include <array>
#include <catch2/catch.hpp>

#include "agent/core/testing/rank_model.h"

namespace tide::agent {
namespace {

// Two pages, and ranks that stand still.
struct TwoPages {
  std::array<ModelPage, 2> pages;
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
  AgreeReply Hold(const AgreeRound& round) {
    auto stores = orders.Begin(round, 0, 0);
    while (stores) {
      Do(*stores);
      std::vector<RankView> views;
      for (const ModelPage& page : pages) {
        views.push_back({.step = page.step, .phase = static_cast<RankPhase>(page.phase)});
      }
      stores = orders.Look(views, 0);
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
  CHECK(task.orders.OnTime(5, 5).empty());
  task.Do(task.orders.OnTime(6, 5));
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
    CHECK(task.orders.OnTime(12, 5).empty());
    CHECK(task.Hold({AgreeVerb::kCommit, 10}).committed_step == 10);
  }
}

}  // namespace tide::agent
