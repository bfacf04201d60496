#include "agent/core/page_orders.h"

#include <algorithm>

namespace tide::agent {
namespace {

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
    if (page.state == PageState::kCommitted) {
      state_ = page.state;
      at_step_ = page.at_step;
      return;
    }
    if (page.state == PageState::kArmed) {
      state_ = page.state;
      at_step_ = page.at_step;
      armed_ns_ = now_ns;
    }
  }
  const bool alike = std::ranges::all_of(pages, [this](const Found& page) {
    return page.state == state_ && (state_ == PageState::kIdle || page.at_step == at_step_);
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
  const bool committed = state_ == PageState::kCommitted;
  switch (round.verb) {
    case AgreeVerb::kArm:
      return committed ? PageStores() : Arm(now_ns);
    case AgreeVerb::kCommit:
      if (committed) {  // again: an agent that was killed had not told every page
        return at_step_ == round.at_step ? Commit() : PageStores();
      }
      is_late_ = state_ != PageState::kArmed || at_step_ != round.at_step;
      return is_late_ ? Arm(now_ns) : Commit();
    case AgreeVerb::kDisarm:
      return committed ? PageStores() : Disarm();
    case AgreeVerb::kProbe:
    case AgreeVerb::kSignal:
      break;
  }
  return PageStores();
}

std::optional<PageStores> PageOrders::Look(std::span<const RankView> views, int64_t /*now_ns*/) {
  reply_ = Fold(views, round_.at_step);
  reply_.ranks_gone = ranks_gone_;
  reply_.newest_round = newest_round_;
  if (is_late_) {
    is_late_ = false;
    return reply_.all_below ? Commit() : Disarm();
  }
  reply_.committed_step = committed_step();
  return std::nullopt;
}

PageStores PageOrders::OnTime(int64_t now_ns, int64_t silence_ns) {
  const bool silent = state_ == PageState::kArmed && now_ns - armed_ns_ > silence_ns;
  return silent ? Disarm() : PageStores();
}

// The stores here and the loads of `step` that follow are sequentially consistent, which orders
// them like the full fence of a tick between its store of `step` and its load of `at_step`: whoever
// comes second sees the other.
PageStores PageOrders::Arm(int64_t now_ns) {
  state_ = PageState::kArmed;
  at_step_ = round_.at_step;
  armed_ns_ = now_ns;
  return {{PageWord::kAtStep, at_step_},
          {PageWord::kDeadline, deadline_},
          {PageWord::kState, static_cast<int64_t>(PageState::kArmed)},
          {PageWord::kOrder, static_cast<int64_t>(PageOrder::kSuspend)},
          {PageWord::kSeq, 1}};  // last: a new seq restarts the rank's patience
}

PageStores PageOrders::Commit() {
  state_ = PageState::kCommitted;
  return {{PageWord::kAtStep, at_step_},
          {PageWord::kDeadline, deadline_},
          {PageWord::kOrder, static_cast<int64_t>(PageOrder::kSuspend)},
          {PageWord::kState, static_cast<int64_t>(PageState::kCommitted)}};
}

PageStores PageOrders::Disarm() {
  state_ = PageState::kIdle;
  at_step_ = -1;
  return {{PageWord::kState, static_cast<int64_t>(PageState::kIdle)},
          {PageWord::kOrder, static_cast<int64_t>(PageOrder::kNone)},
          {PageWord::kAtStep, INT64_MAX}};
}

}  // namespace tide::agent
