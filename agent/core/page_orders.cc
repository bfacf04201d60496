#include "agent/core/page_orders.h"

#include <algorithm>

namespace tide::agent {
namespace {

// A rank that does not come to the step of a save for so long evaluates, or knows no saves.
constexpr Duration kSaveLongest = Duration::Minutes(10);

AgreeReply Fold(std::span<const RankView> views, int64_t at_step) {
  AgreeReply reply;
  reply.answered = true;
  reply.all_attached = true;
  reply.all_below = true;
  reply.min_step = INT64_MAX;
  reply.max_step = -1;
  for (const RankView& view : views) {
    const bool attached = view.phase != RankPhase::kUnattached;
    reply.any_attached = reply.any_attached || attached;
    reply.all_attached = reply.all_attached && attached;
    reply.min_step = std::min(reply.min_step, view.step);
    reply.max_step = std::max(reply.max_step, view.step);
    reply.all_below = reply.all_below && view.step < at_step;
    reply.step_ns = std::max(reply.step_ns, view.step_ns);
  }
  return reply;
}

}  // namespace

void PageOrders::Adopt(std::span<const Found> pages, int64_t now_ns) {
  for (const Found& page : pages) {
    if (page.state == PageState::kIdle) {
      continue;
    }
    state_ = page.state;
    order_ = page.order;
    at_step_ = page.at_step;
    armed_ns_ = now_ns;
    if (state_ == PageState::kCommitted) {
      return;  // the others were armed for it
    }
  }
  const bool alike = std::ranges::all_of(pages, [this](const Found& page) {
    const bool same = page.at_step == at_step_ && page.order == order_;
    return page.state == state_ && (state_ == PageState::kIdle || same);
  });
  if (!alike) {
    at_step_ = -1;  // a commit has to arm them anew
  }
}

std::optional<PageStores> PageOrders::Begin(const AgreeRound& round,
                                            int64_t deadline,
                                            int64_t now_ns) {
  reply_ = {};
  is_late_ = false;
  const bool is_old = round.number < newest_round_;
  newest_round_ = std::max(newest_round_, round.number);
  if (is_old) {
    reply_.newest_round = newest_round_;
    return std::nullopt;
  }
  round_ = round;
  deadline_ = deadline;
  return round.order == AgreeOrder::kSave ? BeginSave(now_ns) : BeginSuspend(now_ns);
}

PageStores PageOrders::BeginSuspend(int64_t now_ns) {
  const bool committed = IsCommitted(PageOrder::kSuspend);
  switch (round_.verb) {
    case AgreeVerb::kArm:
      return committed ? PageStores() : Arm(now_ns);
    case AgreeVerb::kCommit:
      if (committed) {  // again: an agent that was killed had not told every page
        return at_step_ == round_.at_step ? Commit() : PageStores();
      }
      is_late_ = !IsArmed(PageOrder::kSuspend) || at_step_ != round_.at_step;
      return is_late_ ? Arm(now_ns) : Commit();
    case AgreeVerb::kDisarm:
      return IsArmed(PageOrder::kSuspend) ? Disarm() : PageStores();
    case AgreeVerb::kProbe:
    case AgreeVerb::kSignal:
      break;
  }
  return {};
}

// What comes late is left out: another save is due soon.
PageStores PageOrders::BeginSave(int64_t now_ns) {
  switch (round_.verb) {
    case AgreeVerb::kArm:
      return IsBusy() ? PageStores() : Arm(now_ns);
    case AgreeVerb::kCommit: {
      const bool stands = state_ != PageState::kIdle && order_ == PageOrder::kSave;
      return stands && at_step_ == round_.at_step ? Commit() : PageStores();
    }
    case AgreeVerb::kDisarm:
      return IsArmed(PageOrder::kSave) ? Disarm() : PageStores();
    case AgreeVerb::kProbe:
    case AgreeVerb::kSignal:
      break;
  }
  return {};
}

std::optional<PageStores> PageOrders::Look(std::span<const RankView> views, int64_t /*now_ns*/) {
  reply_ = Fold(views, round_.at_step);
  reply_.ranks_gone = ranks_gone_;
  reply_.order = round_.order;
  reply_.busy = round_.order == AgreeOrder::kSave && IsBusy();
  reply_.newest_round = newest_round_;
  if (is_late_) {
    is_late_ = false;
    return reply_.all_below ? Commit() : Disarm();
  }
  reply_.committed_step = committed_step();
  return std::nullopt;
}

PageStores PageOrders::OnTime(std::span<const RankView> views, int64_t now_ns, int64_t silence_ns) {
  const int64_t since_ns = now_ns - armed_ns_;
  const bool silent = state_ == PageState::kArmed && since_ns > silence_ns;
  const bool saved = IsCommitted(PageOrder::kSave) &&
                     (since_ns > kSaveLongest.nanos() ||
                      std::ranges::all_of(views, [](const RankView& each) { return each.acked; }));
  return silent || saved ? Disarm() : PageStores();
}

// The stores here and the loads of `step` that follow are sequentially consistent, which orders
// them like the full fence of a tick between its store of `step` and its load of `at_step`: whoever
// comes second sees the other.
PageStores PageOrders::Arm(int64_t now_ns) {
  state_ = PageState::kArmed;
  order_ = round_.order == AgreeOrder::kSave ? PageOrder::kSave : PageOrder::kSuspend;
  at_step_ = round_.at_step;
  armed_ns_ = now_ns;
  return {{PageWord::kState, static_cast<int64_t>(PageState::kArmed)},  // first: a save may stand
          {PageWord::kAtStep, at_step_},
          {PageWord::kDeadline, deadline_},
          {PageWord::kOrder, static_cast<int64_t>(order_)},
          {PageWord::kSeq, 1}};  // last: a new seq restarts the rank's patience
}

PageStores PageOrders::Commit() {
  state_ = PageState::kCommitted;
  return {{PageWord::kAtStep, at_step_},
          {PageWord::kDeadline, deadline_},
          {PageWord::kOrder, static_cast<int64_t>(order_)},
          {PageWord::kState, static_cast<int64_t>(PageState::kCommitted)}};
}

PageStores PageOrders::Disarm() {
  state_ = PageState::kIdle;
  order_ = PageOrder::kNone;
  at_step_ = -1;
  return {{PageWord::kState, static_cast<int64_t>(PageState::kIdle)},
          {PageWord::kOrder, static_cast<int64_t>(PageOrder::kNone)},
          {PageWord::kAtStep, INT64_MAX}};
}

}  // namespace tide::agent
