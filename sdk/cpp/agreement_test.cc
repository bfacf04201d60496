#include "sdk/cpp/agreement.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <future>
#include <map>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "sdk/cpp/text.h"

namespace tide::cpp {
namespace {

PageOrders Orders(uint32_t seq, PageOrder order, int64_t at_step, PageState state) {
  return {.seq = seq, .order = order, .at_step = at_step, .state = state, .deadline = 0};
}

TEST_CASE("what a rank does about an order") {
  using Case = std::tuple<PageOrders, int64_t, uint32_t, uint32_t, Verdict>;
  const std::vector<Case> cases = {
      {Orders(1, kOrderNone, 0, kStateCommitted), 9, 0, 0, Verdict::kGo},
      {Orders(1, kOrderStop, 50, kStateIdle), 9, 0, 0, Verdict::kStop},
      {Orders(1, kOrderSuspend, 10, kStateCommitted), 9, 0, 0, Verdict::kGo},
      {Orders(1, kOrderSuspend, 10, kStateCommitted), 10, 0, 0, Verdict::kFire},
      {Orders(1, kOrderSave, 10, kStateCommitted), 11, 0, 0, Verdict::kFire},
      {Orders(1, kOrderSuspend, 10, kStateArmed), 9, 0, 0, Verdict::kGo},
      {Orders(1, kOrderSuspend, 10, kStateArmed), 10, 0, 0, Verdict::kWait},
      {Orders(1, kOrderSuspend, 10, kStateIdle), 10, 0, 0, Verdict::kGo},
      {Orders(2, kOrderSuspend, 10, kStateCommitted), 10, 2, 0, Verdict::kGo},
      {Orders(2, kOrderSuspend, 10, kStateCommitted), 10, 1, 2, Verdict::kGo},
      {Orders(2, kOrderSuspend, 10, kStateArmed), 10, 1, 2, Verdict::kGo},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& [orders, step, ack_seq, refused_seq, expected] = cases[i];
    INFO("case " << i);
    CHECK(Judge(orders, step, ack_seq, refused_seq) == expected);
  }
}

// A page armed at step 10, a clock that moves only in naps, and an agent that acts after some.
struct Waiting {
  Waiting() {
    page.phase = kPhaseTraining;
    page.order = kOrderSuspend;
    page.at_step = 10;
    page.state = kStateArmed;
    page.seq = 5;
  }

  Verdict SettleAt(int64_t step, const std::function<void(int naps)>& act = [](int) {}) {
    const Settled settled = Settle(page,
                                   step,
                                   {.now_ns = [this] { return now_ns; },
                                    .nap =
                                        [&](int64_t ns) {
                                          now_ns += ns;
                                          phases.insert(page.phase);
                                          act(++naps);
                                        }});
    return settled.verdict;
  }

  MappedPage mapped = OrThrow(MappedPage::Local());
  Page& page = mapped.page();
  int64_t now_ns = 0;
  int naps = 0;
  std::set<uint32_t> phases;
};

TEST_CASE_METHOD(Waiting, "a rank below an armed step goes on") {
  CHECK(SettleAt(9) == Verdict::kGo);
  CHECK(naps == 0);
  CHECK(page.step == 9);
}

TEST_CASE_METHOD(Waiting, "a rank at an armed step waits for the commit") {
  CHECK(SettleAt(10, [this](int count) {
          page.state = count == 3 ? kStateCommitted : kStateArmed;
        }) == Verdict::kFire);
  CHECK(phases == std::set<uint32_t>{kPhaseWaiting});
  CHECK(naps == 3);
  CHECK(page.phase == kPhaseTraining);
}

TEST_CASE_METHOD(Waiting, "a higher arming and a withdrawn order let it go") {
  CHECK(SettleAt(10, [this](int) {
          page.at_step = 12;
          page.seq = 6;
        }) == Verdict::kGo);
  CHECK(SettleAt(12, [this](int) { page.order = kOrderNone; }) == Verdict::kGo);
}

TEST_CASE_METHOD(Waiting, "a silent coordinator is refused, and never obeyed later") {
  CHECK(SettleAt(10) == Verdict::kGo);
  CHECK(now_ns >= 10'000'000'000);
  CHECK(now_ns < 10'100'000'000);
  CHECK(page.refused_seq == 5);
  page.state = kStateCommitted;
  CHECK(SettleAt(11) == Verdict::kGo);
  page.seq = 6;
  page.at_step = 12;
  CHECK(SettleAt(12) == Verdict::kFire);
}

TEST_CASE_METHOD(Waiting, "a commit that crosses the refusal fires") {
  // The clock is what a rank looks at last before it refuses.
  const Settled settled = Settle(page,
                                 10,
                                 {.wait_ns = 1,
                                  .now_ns =
                                      [this] {
                                        page.state = now_ns > 0 ? kStateCommitted : kStateArmed;
                                        return now_ns;
                                      },
                                  .nap = [this](int64_t ns) { now_ns += ns; }});
  CHECK(settled.verdict == Verdict::kFire);
  CHECK(page.refused_seq == 0);
}

constexpr int kRanks = 4;
constexpr int kRounds = 200;
using Fired = std::map<uint32_t, int64_t>;

// Ranks may be three steps apart: looser than any collective would let them, so that disagreement
// has room to happen.
Fired RunRank(Page& mine, const std::vector<Page*>& all) {
  Fired fired;
  for (int64_t step = 0;; ++step) {
    while (std::any_of(all.begin(), all.end(), [&](const Page* other) {
      return other->step < step - 3 && other->order != kOrderStop;
    })) {
      std::this_thread::yield();
    }
    const Settled settled = Settle(mine, step);
    if (settled.verdict == Verdict::kStop) {
      return fired;
    }
    if (settled.verdict == Verdict::kFire) {
      fired.emplace(settled.orders.seq, step);
      mine.ack_seq = settled.orders.seq;
    }
  }
}

// The agents' side of one agreement. Returns the step committed.
int64_t Coordinate(const std::vector<Page*>& pages, int64_t margin) {
  while (true) {
    int64_t step = 0;
    for (const Page* page : pages) {
      step = std::max(step, page->step + 1 + margin);
    }
    for (Page* page : pages) {
      page->at_step = step;
      page->state = kStateArmed;
      page->order = kOrderSave;
      page->seq = page->seq + 1;
    }
    if (std::all_of(
            pages.begin(), pages.end(), [&](const Page* page) { return page->step < step; })) {
      for (Page* page : pages) {
        page->state = kStateCommitted;
      }
      return step;
    }
  }
}

TEST_CASE("ranks of different speeds never stop at two steps") {
  std::vector<MappedPage> mapped;
  std::vector<Page*> pages;
  for (int rank = 0; rank < kRanks; ++rank) {
    mapped.push_back(OrThrow(MappedPage::Local()));
    pages.push_back(&mapped.back().page());
  }
  std::vector<std::future<Fired>> ranks;
  for (Page* page : pages) {
    ranks.push_back(std::async(std::launch::async, [&, page] { return RunRank(*page, pages); }));
  }
  Fired agreed;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t step = Coordinate(pages, round % 5);
    agreed.emplace(pages.front()->seq, step);
    for (Page* page : pages) {
      while (page->ack_seq != page->seq) {
        std::this_thread::yield();
      }
      page->order = kOrderNone;
      page->state = kStateIdle;
    }
  }
  for (Page* page : pages) {
    page->order = kOrderStop;
  }
  for (std::future<Fired>& rank : ranks) {
    CHECK(rank.get() == agreed);
  }
}

}  // namespace
}  // namespace tide::cpp
